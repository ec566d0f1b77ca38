//! Output formats, each with its own writer.

#[cfg(not(all(feature = "parquet", feature = "sqlite")))]
mod absent;
mod csv;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

#[cfg(not(feature = "parquet"))]
pub(crate) use absent::ParquetTable;
#[cfg(not(feature = "sqlite"))]
pub(crate) use absent::SqliteFile;
pub(crate) use csv::CsvTable;
pub(crate) use json::JsonTable;
#[cfg(feature = "parquet")]
pub(crate) use parquet::ParquetTable;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::SqliteFile;

use jetcell_input::hex::write_hex;

use crate::cell::{CellItem, ExportedCell, UnreadableValue, ValueFileRef};
use crate::table::TableColumn;
use crate::value::ExportedValue;

/// An export's output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// Comma-separated values, RFC 4180, with a header line.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
    /// One SQLite database with all tables.
    Sqlite,
}

impl ExportFormat {
    /// Returns the file name extension, which is also the name of the format.
    pub fn extension(self) -> &'static str {
        match self {
            ExportFormat::Csv => "csv",
            ExportFormat::JsonLines => "jsonl",
            ExportFormat::Parquet => "parquet",
            ExportFormat::Sqlite => "sqlite",
        }
    }

    /// Returns true if this build supports the format. Parquet and SQLite are Cargo features of this crate.
    pub fn is_built(self) -> bool {
        match self {
            ExportFormat::Csv | ExportFormat::JsonLines => true,
            ExportFormat::Parquet => cfg!(feature = "parquet"),
            ExportFormat::Sqlite => cfg!(feature = "sqlite"),
        }
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// Error returned if a name does not match any [`ExportFormat`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {0}; use one of csv, jsonl, parquet, sqlite")]
pub struct UnknownFormat(String);

impl FromStr for ExportFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<ExportFormat, UnknownFormat> {
        [ExportFormat::Csv, ExportFormat::JsonLines, ExportFormat::Parquet, ExportFormat::Sqlite]
            .into_iter()
            .find(|format| format.extension() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// A marker that replaces a value in an exported cell.
pub enum ValueMarker<'v> {
    /// The value is in a separate file.
    File(&'v ValueFileRef),
    /// The value cannot be read.
    Unreadable(Cow<'v, UnreadableValue>),
}

impl ValueMarker<'_> {
    /// Writes the file's path, or the reason followed by the stored bytes in hexadecimal.
    pub fn write_text(&self, to: &mut Vec<u8>) {
        match self {
            ValueMarker::File(ValueFileRef { path, bytes }) => {
                to.extend_from_slice(format!("#file: {path} ({bytes} bytes)").as_bytes());
            }
            ValueMarker::Unreadable(unreadable) => {
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

/// Returns the value of one item, or the marker that replaces it.
pub fn item_value<'v>(
    column: &TableColumn,
    item: &'v CellItem<'_>,
) -> Result<ExportedValue<'v>, ValueMarker<'v>> {
    match item {
        CellItem::Inline(bytes) => column.value(bytes).map_err(|error| {
            let unreadable = UnreadableValue { reason: error.to_string(), stored: bytes.to_vec() };
            ValueMarker::Unreadable(Cow::Owned(unreadable))
        }),
        CellItem::File(file) => Err(ValueMarker::File(file)),
        CellItem::Unreadable(unreadable) => Err(ValueMarker::Unreadable(Cow::Borrowed(unreadable))),
    }
}

/// Writes a cell as text. A null is empty. Cells with several values, and all cells in multi-valued columns, are
/// written as JSON lists.
pub fn write_cell_text(column: &TableColumn, cell: &ExportedCell<'_>, to: &mut Vec<u8>) {
    match cell {
        ExportedCell::Null => {}
        ExportedCell::One(item) if !column.is_list(cell) => match item_value(column, item) {
            Ok(value) => value.write_text(to),
            Err(marker) => marker.write_text(to),
        },
        ExportedCell::One(_) | ExportedCell::Multi(_) => json::write_cell(column, cell, to),
    }
}
