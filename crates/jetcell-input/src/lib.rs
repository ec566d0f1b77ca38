//! Text from files, networks and users, prepared for people.
//!
//! Names of files, tables, columns and hosts are data that somebody else may have chosen. Every output for people passes
//! through [`printable`] or [`printable_lines`], JSON output through [`printable_json`], and streams through [`PrintableWriter`].

#![forbid(unsafe_code)]

mod printable;
mod printable_writer;

pub use printable::{printable, printable_json, printable_lines};
pub use printable_writer::{PrintableWriter, TextForm};
