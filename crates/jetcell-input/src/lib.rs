//! Input from files, networks and users: text prepared for people, and limits.
//!
//! Names of files, tables, columns and hosts are data that another user may have chosen. Every output for people passes
//! through [`printable`] or [`printable_lines`], JSON output through [`printable_json`], and streams through [`PrintableWriter`].
//! A name in a line of text is a [`Printable`]; lines of values are joined by [`printable_rows`]; JSON for files comes from
//! [`json_line`] or [`json_pretty`]. Lists and maps in files have a maximum length with [`bounded_list`] and
//! [`bounded_map`], and messages about files with [`error_line`].

#![forbid(unsafe_code)]

mod bounded_list;
mod printable;
mod printable_writer;
mod shortened;

pub use bounded_list::{bounded_list, bounded_map};
pub use printable::{
    Printable, json_line, json_pretty, printable, printable_json, printable_lines, printable_rows,
};
pub use printable_writer::{PrintableWriter, TextForm};
pub use shortened::{error_line, shortened, shortened_name};
