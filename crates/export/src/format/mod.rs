//! One writer per format. Each gets the rows of one table after the other.

mod csv;
mod json;
mod parquet;
mod sqlite;

use std::fmt;
use std::str::FromStr;

pub(crate) use csv::CsvTable;
pub(crate) use json::JsonTable;
pub(crate) use parquet::ParquetTable;
pub(crate) use sqlite::SqliteFile;

use crate::cell::{Cell, Unreadable};
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

/// What stands in a cell that cannot be shown: why, and the stored bytes in hexadecimal.
pub(crate) fn write_marker(unreadable: &Unreadable, to: &mut Vec<u8>) {
    to.extend_from_slice(b"#unreadable: ");
    to.extend_from_slice(unreadable.reason.as_bytes());
    if !unreadable.stored.is_empty() {
        to.extend_from_slice(b"; stored: ");
        write_hex(&unreadable.stored, to);
    }
}

/// The value of one item, or what makes it unreadable.
pub(crate) fn item_value<'v>(
    column: &Column,
    item: Result<&'v [u8], &Unreadable>,
) -> Result<Value<'v>, Unreadable> {
    match item {
        Ok(bytes) => {
            Value::decode(column, bytes).map_err(|reason| Unreadable { reason, stored: bytes.to_vec() })
        }
        Err(unreadable) => Err(unreadable.clone()),
    }
}

/// A cell as text: nothing for null, a JSON list for several values and for every cell of a multi-valued column.
pub(crate) fn write_cell_text(column: &Column, cell: &Cell<'_>, to: &mut Vec<u8>) {
    let single = match cell {
        Cell::Null => return,
        _ if json::is_list(column, cell) => return json::write_cell(column, cell, to),
        Cell::Value(bytes) => Ok(&**bytes),
        Cell::Unreadable(unreadable) => Err(unreadable),
        Cell::Multi(_) => return json::write_cell(column, cell, to),
    };
    match item_value(column, single) {
        Ok(value) => value.write_text(to),
        Err(unreadable) => write_marker(&unreadable, to),
    }
}
