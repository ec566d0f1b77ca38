//! CSV output: a header line, then one line per row. A null is written as an empty field.
//!
//! Spreadsheets treat a field that starts with `=`, `+`, `-`, `@`, a tab or a line end as a formula and execute it.
//! If the user requests it, such a field is prefixed with an apostrophe, which spreadsheets interpret as a plain text
//! marker.

use std::io;

use jetcell_input::printable;

use crate::additional_rows::RowMark;
use crate::format::write_cell_text;
use crate::output::OutputStream;
use crate::rows::ExportedRow;
use crate::table::SourceTable;
use crate::value_files::ValueFiles;

/// Writes a single table as CSV.
pub(crate) struct CsvTable {
    writer: csv::Writer<OutputStream>,
    field: Vec<u8>,
    marks: Vec<RowMark>,
    safe: bool,
}

fn is_number(field: &[u8]) -> bool {
    let of_numbers = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    field.iter().all(of_numbers) && str::from_utf8(field).is_ok_and(|text| text.parse::<f64>().is_ok())
}

/// Returns true if a spreadsheet would treat the field as a formula. A plain number is not a formula.
fn is_formula(field: &[u8]) -> bool {
    match field {
        [b'=' | b'@' | b'\t' | b'\r' | b'\n', ..] => true,
        [b'+' | b'-', ..] => !is_number(field),
        _ => false,
    }
}

impl CsvTable {
    pub(crate) fn new(
        stream: OutputStream,
        table: &SourceTable,
        marks: Vec<RowMark>,
        safe: bool,
    ) -> io::Result<CsvTable> {
        let mut writer =
            csv::WriterBuilder::new().buffer_capacity(1 << 16).flexible(true).from_writer(stream);
        for column in &table.columns {
            // ESE does not accept names with control characters.
            let name = &*printable(&column.column.name);
            if safe && is_formula(name.as_bytes()) {
                writer.write_field(format!("'{name}"))?;
            } else {
                writer.write_field(name)?;
            }
        }
        for mark in &marks {
            writer.write_field(mark.name())?;
        }
        writer.write_record(None::<&[u8]>)?;
        Ok(CsvTable { writer, field: Vec::new(), marks, safe })
    }

    pub(crate) fn row(&mut self, table: &SourceTable, row: &ExportedRow<'_>) -> io::Result<()> {
        for (column, cell) in table.columns.iter().zip(row.cells) {
            self.field.clear();
            write_cell_text(column, cell, &mut self.field);
            if self.safe && is_formula(&self.field) {
                self.field.insert(0, b'\'');
            }
            self.writer.write_field(&self.field)?;
        }
        for mark in &self.marks {
            self.field.clear();
            if let Some(value) = row.mark(*mark) {
                value.write_text(&mut self.field);
            }
            self.writer.write_field(&self.field)?;
        }
        self.writer.write_record(None::<&[u8]>)?;
        // Release the memory used by a long value.
        self.field.shrink_to(1 << 16);
        Ok(())
    }

    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        self.writer.into_inner().map_err(csv::IntoInnerError::into_error)?.finish(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_distinguished_from_numbers_and_text() {
        for formula in
            ["=1+1", "@SUM(A1)", "+cmd", "-2+3+cmd|' /C calc'!A0", "\t=1", "\r", "-", "+-", "-1-1", "-1x"]
        {
            assert!(is_formula(formula.as_bytes()), "{formula:?}");
        }
        for plain in ["", "-1", "+1.5e-3", "-922337203685477.5808", "a=b", "1-2", "'=1", "S-1-5-21"] {
            assert!(!is_formula(plain.as_bytes()), "{plain:?}");
        }
    }
}
