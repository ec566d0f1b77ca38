//! Input from files, networks and users: text prepared for people, and limits.
//!
//! Names of files, tables, columns and hosts are data that another user may have chosen. Every output for people passes
//! through [`printable`] or [`printable_lines`], JSON output through [`printable_json`], and streams through [`PrintableWriter`].
//! Lists in files have a maximum length with [`bounded_list`], and messages about files with [`error_line`].

#![forbid(unsafe_code)]

mod bounded_list;
mod printable;
mod printable_writer;
mod shortened;

pub use bounded_list::bounded_list;
pub use printable::{printable, printable_json, printable_lines};
pub use printable_writer::{PrintableWriter, TextForm};
pub use shortened::{error_line, shortened, shortened_name};
