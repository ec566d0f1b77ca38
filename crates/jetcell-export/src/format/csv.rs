//! CSV: a header line, then one line per row. Null is an empty field.

use std::io;

use crate::format::{DELETED, write_cell_text};
use crate::output::Stream;
use crate::rows::Row;
use crate::table::Table;
use crate::value_files::ValueFiles;

/// Writes one table.
pub(crate) struct CsvTable {
    writer: csv::Writer<Stream>,
    field: Vec<u8>,
    mark_deleted: bool,
}

impl CsvTable {
    pub(crate) fn new(stream: Stream, table: &Table, mark_deleted: bool) -> io::Result<CsvTable> {
        let mut writer =
            csv::WriterBuilder::new().buffer_capacity(1 << 16).flexible(true).from_writer(stream);
        for column in &table.columns {
            writer.write_field(&column.column.name)?;
        }
        if mark_deleted {
            writer.write_field(DELETED)?;
        }
        writer.write_record(None::<&[u8]>)?;
        Ok(CsvTable { writer, field: Vec::new(), mark_deleted })
    }

    pub(crate) fn row(&mut self, table: &Table, row: &Row<'_>) -> io::Result<()> {
        for (column, cell) in table.columns.iter().zip(row.cells) {
            self.field.clear();
            write_cell_text(&column.column, cell, &mut self.field);
            self.writer.write_field(&self.field)?;
        }
        if self.mark_deleted {
            self.writer.write_field(if row.deleted { "true" } else { "false" })?;
        }
        self.writer.write_record(None::<&[u8]>)?;
        // Release the memory of a long value.
        self.field.shrink_to(1 << 16);
        Ok(())
    }

    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        self.writer.into_inner().map_err(|error| error.into_error())?.finish(values)
    }
}
