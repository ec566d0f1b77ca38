//! Prepares text from files, networks and users for display, and limits its size.
//!
//! Names of files, tables, columns and hosts are data that another user may have chosen. All displayed text passes
//! through [`printable`] or [`printable_lines`], JSON output through [`printable_json`], and streams through
//! [`PrintableWriter`]. Names within a line of text are wrapped in [`Printable`]; lines of values are joined by
//! [`printable_rows`]; JSON for files is written by [`json_line`] or [`json_pretty`], and its paths by [`json_path`].
//! [`bounded_list`] and [`bounded_map`] limit the length of lists and maps in files, and [`error_line`] limits the
//! length of messages about files. [`quantity`] parses sizes, rates and times; [`columns`], [`pad`] and [`cut`] measure
//! text on a terminal. A [`Unit`] determines the number of decimals of a figure. [`number`], [`time`] and [`hex`]
//! format values for people. [`OptionValueError`] describes text that is not a valid value. With the feature `toml`,
//! [`toml`] parses TOML from users, and [`nearest`] finds the nearest known word.

#![forbid(unsafe_code)]

mod advice;
mod bounded_list;
mod columns;
pub mod hex;
mod json_path;
#[cfg(feature = "toml")]
mod nearest;
pub mod number;
mod option_value_error;
mod printable;
mod printable_writer;
pub mod quantity;
mod shortened;
pub mod time;
#[cfg(feature = "toml")]
pub mod toml;
mod unit;

pub use advice::with_advice;
pub use bounded_list::{bounded_list, bounded_map};
pub use columns::{Align, columns, cut, pad};
pub use json_path::{
    JsonPath, json_path, json_paths, serialize_display, serialize_optional_path, serialize_path,
    serialize_paths,
};
#[cfg(feature = "toml")]
pub use nearest::nearest;
pub use option_value_error::OptionValueError;
pub use printable::{
    Printable, json_line, json_pretty, printable, printable_json, printable_lines, printable_rows,
};
pub use printable_writer::{PrintableWriter, TextFormat};
pub use shortened::{error_line, shortened, shortened_name};
pub use unit::Unit;
