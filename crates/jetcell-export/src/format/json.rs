//! JSON Lines: one object per row. Columns that are null are included unless the caller omits them.

use std::io::{self, Write};

use jetcell_input::hex::write_hex;

use crate::additional_rows::RowMark;
use crate::cell::{CellItem, ExportedCell, ValueFileRef};
use crate::format::{ValueMarker, item_value};
use crate::output::OutputStream;
use crate::rows::ExportedRow;
use crate::table::{SourceTable, TableColumn};
use crate::value_files::ValueFiles;
use crate::value_json::write_json_string;

/// Writes a single table as JSON Lines.
pub(crate) struct JsonTable {
    stream: OutputStream,
    line: Vec<u8>,
    /// Prefix `"name":` for each column.
    keys: Vec<Vec<u8>>,
    marks: Vec<RowMark>,
    omit_nulls: bool,
}

impl JsonTable {
    pub(crate) fn new(
        stream: OutputStream,
        table: &SourceTable,
        marks: Vec<RowMark>,
        omit_nulls: bool,
    ) -> JsonTable {
        let key = |name: &str| {
            let mut key = Vec::new();
            write_json_string(name, &mut key);
            key.push(b':');
            key
        };
        let keys = table.columns.iter().map(|column| key(&column.column.name)).collect();
        JsonTable { stream, line: Vec::new(), keys, marks, omit_nulls }
    }

    pub(crate) fn row(&mut self, table: &SourceTable, row: &ExportedRow<'_>) -> io::Result<()> {
        self.line.clear();
        self.line.shrink_to(1 << 16);
        self.line.push(b'{');
        for ((column, cell), key) in table.columns.iter().zip(row.cells).zip(&self.keys) {
            if self.omit_nulls && *cell == ExportedCell::Null {
                continue;
            }
            if self.line.len() > 1 {
                self.line.push(b',');
            }
            self.line.extend_from_slice(key);
            write_cell(column, cell, &mut self.line);
        }
        for mark in &self.marks {
            let comma = if self.line.len() > 1 { "," } else { "" };
            write!(self.line, "{comma}\"{}\":", mark.name())?;
            match row.mark(*mark) {
                Some(value) => value.write_json(false, &mut self.line),
                None => self.line.extend_from_slice(b"null"),
            }
        }
        self.line.extend_from_slice(b"}\n");
        self.stream.write_all(&self.line)
    }

    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        self.stream.finish(values)
    }
}

/// Writes a cell as JSON.
pub(crate) fn write_cell(column: &TableColumn, cell: &ExportedCell<'_>, to: &mut Vec<u8>) {
    let list = column.is_list(cell);
    if list {
        to.push(b'[');
    }
    if *cell == ExportedCell::Null {
        to.extend_from_slice(b"null");
    }
    for (index, item) in cell.items().iter().enumerate() {
        if index > 0 {
            to.push(b',');
        }
        write_item(column, item, to);
    }
    if list {
        to.push(b']');
    }
}

fn write_item(column: &TableColumn, item: &CellItem<'_>, to: &mut Vec<u8>) {
    match item_value(column, item) {
        Ok(value) => value.write_json(column.format.wide_integers_as_text, to),
        Err(ValueMarker::File(ValueFileRef { path, bytes })) => {
            to.extend_from_slice(b"{\"$file\":");
            write_json_string(path, to);
            to.extend_from_slice(format!(",\"$bytes\":{bytes}}}").as_bytes());
        }
        Err(ValueMarker::Unreadable(unreadable)) => {
            to.extend_from_slice(b"{\"$unreadable\":");
            write_json_string(&unreadable.reason, to);
            to.extend_from_slice(b",\"$stored\":\"");
            write_hex(&unreadable.stored, to);
            to.extend_from_slice(b"\"}");
        }
    }
}
