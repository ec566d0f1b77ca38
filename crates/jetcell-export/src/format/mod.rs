//! One writer per format. Each gets the rows of one table after the other.

mod csv;
mod json;
mod parquet;
mod sqlite;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

pub(crate) use csv::CsvTable;
pub(crate) use json::JsonTable;
pub(crate) use parquet::ParquetTable;
pub(crate) use sqlite::SqliteFile;

use crate::cell::{Cell, Elsewhere, Item, Unreadable};
use crate::value::{Value, write_hex};
use ese_format::record::Column;

/// Name of the column that marks rows flagged deleted.
pub(crate) const DELETED: &str = "_deleted";

/// What an export writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Comma-separated values, RFC 4180, with a header line.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
    /// One SQLite database with all tables.
    Sqlite,
}

impl Format {
    /// The usual ending of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
            Format::Parquet => "parquet",
            Format::Sqlite => "sqlite",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        [Format::Csv, Format::JsonLines, Format::Parquet, Format::Sqlite]
            .into_iter()
            .find(|format| format.extension() == name)
            .ok_or_else(|| format!("unknown format {name}; one of csv, jsonl, parquet, sqlite"))
    }
}

/// What stands in a cell in place of a value.
pub(crate) enum Marker<'v> {
    /// It is in a file of its own.
    Elsewhere(&'v Elsewhere),
    /// It cannot be shown.
    Unreadable(Cow<'v, Unreadable>),
}

impl Marker<'_> {
    /// Where the value is; or why it is not there, and the stored bytes in hexadecimal.
    pub(crate) fn write_text(&self, to: &mut Vec<u8>) {
        match self {
            Marker::Elsewhere(Elsewhere { path, bytes }) => {
                to.extend_from_slice(format!("#file: {path} ({bytes} bytes)").as_bytes());
            }
            Marker::Unreadable(unreadable) => {
                to.extend_from_slice(b"#unreadable: ");
                to.extend_from_slice(unreadable.reason.as_bytes());
                if !unreadable.stored.is_empty() {
                    to.extend_from_slice(b"; stored: ");
                    write_hex(&unreadable.stored, to);
                }
            }
        }
    }
}

/// The value of one item, or what stands in its place.
pub(crate) fn item_value<'v>(column: &Column, item: &'v Item<'_>) -> Result<Value<'v>, Marker<'v>> {
    match item {
        Item::Here(bytes) => Value::decode(column, bytes)
            .map_err(|reason| Marker::Unreadable(Cow::Owned(Unreadable { reason, stored: bytes.to_vec() }))),
        Item::Elsewhere(elsewhere) => Err(Marker::Elsewhere(elsewhere)),
        Item::Unreadable(unreadable) => Err(Marker::Unreadable(Cow::Borrowed(unreadable))),
    }
}

/// A cell as text: nothing for null, a JSON list for several values and for every cell of a multi-valued column.
pub(crate) fn write_cell_text(column: &Column, cell: &Cell<'_>, to: &mut Vec<u8>) {
    match cell {
        Cell::Null => {}
        Cell::One(item) if !json::is_list(column, cell) => match item_value(column, item) {
            Ok(value) => value.write_text(to),
            Err(marker) => marker.write_text(to),
        },
        Cell::One(_) | Cell::Multi(_) => json::write_cell(column, cell, to),
    }
}
