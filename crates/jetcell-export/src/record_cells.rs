//! Converts records to cells: stored bytes, with long values read and compressed values decompressed.

use std::borrow::Cow;
use std::io;

use ese_check::database::ReadableDatabase;
use ese_format::PageNumber;
use ese_format::compression::{self, decompress};
use ese_format::long_value::LongValueId;
use ese_format::record::{Column, ColumnClass, ColumnValue, MultiValue, Record};

use crate::cell::{CellItem, ExportedCell, UnreadableValue};
use crate::long_values::LongValueReader;
use crate::table::{SourceTable, TableColumn};
use crate::time_filter::stored_default;
use crate::value_files::{ValueFiles, ValueLocation};

/// Converts the values of one record to cells.
pub(crate) struct CellResolver<'l, 'd> {
    pub(crate) database: &'d ReadableDatabase,
    pub(crate) long_values: &'l mut LongValueReader,
    /// Number of bytes of long values that may still be kept in memory for this row.
    pub(crate) remaining_bytes: usize,
    pub(crate) files: Option<&'l mut ValueFiles>,
    pub(crate) page: PageNumber,
    pub(crate) row: usize,
    /// Advice to the user about values that exceed the limit and for which no file can be created.
    pub(crate) limit_advice: &'static str,
}

/// Fills `cells` with the cells of a record, in column order.
pub(crate) fn fill<'a>(
    record: &Record<'a>,
    table: &'a SourceTable,
    resolver: &mut CellResolver<'_, '_>,
    cells: &mut Vec<ExportedCell<'a>>,
) -> io::Result<()> {
    for column in &table.columns {
        cells.push(match column.column.class() {
            ColumnClass::Tagged => default(&column.column),
            _ => resolver.get(record, column)?,
        });
    }
    // Make a single pass over the stored columns. A table may have thousands of tagged columns, of which a row stores
    // only a few.
    match record.tagged() {
        Ok(entries) => {
            for (id, value) in entries {
                let position = table.tagged_position(id);
                // Old rows still contain values of columns that have since been deleted, which have no position.
                if let Some((column, cell)) =
                    position.and_then(|at| Some((table.columns.get(at)?, cells.get_mut(at)?)))
                {
                    *cell = resolver.cell(value, column)?;
                }
            }
        }
        Err(_) => {
            for (column, cell) in table.columns.iter().zip(cells) {
                if column.column.class() == ColumnClass::Tagged {
                    *cell = resolver.get(record, column)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the cell of a column that the row does not store.
fn default(column: &Column) -> ExportedCell<'_> {
    stored_default(column).map_or(ExportedCell::Null, ExportedCell::from)
}

fn unreadable(reason: impl ToString, stored: &[u8]) -> CellItem<'static> {
    CellItem::Unreadable(UnreadableValue { reason: reason.to_string(), stored: stored.to_vec() })
}

impl CellResolver<'_, '_> {
    fn get<'a>(&mut self, record: &Record<'a>, column: &'a TableColumn) -> io::Result<ExportedCell<'a>> {
        match record.get(&column.column) {
            Ok(value) => self.cell(value, column),
            Err(error) => {
                let stored = record.stored_bytes(&column.column).unwrap_or_default();
                Ok(ExportedCell::One(unreadable(error, stored)))
            }
        }
    }

    fn cell<'a>(&mut self, value: ColumnValue<'a>, column: &'a TableColumn) -> io::Result<ExportedCell<'a>> {
        let place = ValueLocation { page: self.page, row: self.row, column, item: None };
        Ok(match value {
            ColumnValue::Absent => default(&column.column),
            ColumnValue::Null => ExportedCell::Null,
            ColumnValue::Bytes(bytes) => ExportedCell::from(bytes),
            ColumnValue::Encrypted(stored) => ExportedCell::One(unreadable("the value is encrypted", stored)),
            ColumnValue::Compressed(stored) => ExportedCell::One(self.read_compressed(stored, place)?),
            ColumnValue::Separated(id) => ExportedCell::One(self.read_separated(id, place)?),
            ColumnValue::Multi(values) => {
                let items = values.into_iter().zip(1..).map(|(value, item)| {
                    let place = ValueLocation { item: Some(item), ..place };
                    match value {
                        MultiValue::Bytes(bytes) => Ok(CellItem::Inline(Cow::Borrowed(bytes))),
                        MultiValue::Compressed(stored) => self.read_compressed(stored, place),
                        MultiValue::Separated(id) => self.read_separated(id, place),
                    }
                });
                ExportedCell::Multi(items.collect::<io::Result<_>>()?)
            }
        })
    }

    fn read_compressed<'a>(
        &mut self,
        stored: &'a [u8],
        place: ValueLocation<'_>,
    ) -> io::Result<CellItem<'a>> {
        let plain = match decompress(stored, compression::MAX_INTRINSIC) {
            Ok(plain) => plain,
            Err(error) => return Ok(unreadable(error, stored)),
        };
        if plain.len() <= self.remaining_bytes {
            self.remaining_bytes -= plain.len();
            return Ok(CellItem::Inline(Cow::Owned(plain)));
        }
        let Some(files) = &mut self.files else {
            return Ok(unreadable(
                limit_message(plain.len(), self.remaining_bytes, self.limit_advice),
                stored,
            ));
        };
        let mut file = files.create(place)?;
        file.write(&plain)?;
        file.finish().map(CellItem::File)
    }

    fn read_separated<'a>(&mut self, id: LongValueId, place: ValueLocation<'_>) -> io::Result<CellItem<'a>> {
        let lost = |reason: &dyn std::fmt::Display| {
            Ok(unreadable(format!("long value {}: {reason}", id.0), &id.to_record()))
        };
        let value = match self.long_values.open(self.database, id) {
            Ok(value) => value,
            Err(error) => return lost(&error),
        };
        let len = value.len();
        if len <= self.remaining_bytes {
            let mut plain = Vec::with_capacity(len.min(1 << 16));
            while plain.len() < len {
                if let Err(error) =
                    self.long_values.append_chunk(self.database, value, plain.len(), &mut plain)
                {
                    return lost(&error);
                }
            }
            self.remaining_bytes = self.remaining_bytes.saturating_sub(plain.len());
            return Ok(CellItem::Inline(Cow::Owned(plain)));
        }
        let Some(files) = &mut self.files else {
            return lost(&limit_message(len, self.remaining_bytes, self.limit_advice));
        };
        let mut file = files.create(place)?;
        let (mut offset, mut chunk) = (0, Vec::new());
        while offset < len {
            chunk.clear();
            if let Err(error) = self.long_values.append_chunk(self.database, value, offset, &mut chunk) {
                return lost(&error);
            }
            file.write(&chunk)?;
            offset += chunk.len();
        }
        file.finish().map(CellItem::File)
    }
}

fn limit_message(len: usize, room: usize, advice: &str) -> String {
    format!("{len} bytes exceed the limit of one row ({room} bytes left); {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::ExportIssues;
    use crate::source_database::SourceDatabase;
    use ese_format::TreeId;
    use ese_format::catalog::TableSchema;
    use ese_format::record::{ColumnType, layout_fixed_columns};
    use jetcell_vfs::{RealOptions, RealVfs};
    use testkit::corpus::Corpus;

    /// The fixed and variable columns of a derived table continue the numbering of its template's columns. Tagged
    /// columns start at 256 in both, and a flag in the record marks those that belong to the template.
    #[test]
    fn a_derived_table_lists_inherited_columns() {
        let Some(corpus) = Corpus::locate() else { return };
        let schema = |name: &str, columns: &[(u16, &str, ColumnType)]| {
            let mut schema = TableSchema::new(name, TreeId(9), PageNumber::fixed(9));
            schema.columns =
                columns.iter().map(|(id, name, kind)| Column::new(*id, name, *kind, 255)).collect();
            schema
        };
        let (long, binary) = (ColumnType::Long, ColumnType::LongBinary);
        let template = schema("template", &[(1, "A", long), (256, "T", binary), (257, "U", binary)]);
        let mut derived = schema("derived", &[(2, "B", long), (256, "T", binary)]);
        derived.inherit(&template);
        layout_fixed_columns(&mut derived.columns);
        let size = ese_format::PageSize::KIB_4;
        let table = SourceTable::new(&derived, size);
        let names: Vec<&str> = table.columns.iter().map(|column| column.column.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "T", "U", "T_2"]);

        // The record contains A = 1, B = 2, the template's T = "in", and the derived table's T = "own".
        let mut record = vec![2, 127, 13, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];
        record.extend([0, 1, 8, 0x80, 0, 1, 10, 0]);
        record.extend(b"inown");
        let directory = tempfile::tempdir().unwrap();
        let path = corpus.unpack("db/4k/basic.edb", directory.path());
        let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
        let source = SourceDatabase::open(&vfs, &path, &mut ExportIssues::default()).unwrap();
        let mut long = LongValueReader::new(&table);
        let mut cells = Vec::new();
        let record = Record::new(&record, size);
        let (page, row) = (PageNumber::fixed(9), 0);
        let mut resolver = CellResolver {
            database: &source.database,
            long_values: &mut long,
            remaining_bytes: 1 << 20,
            files: None,
            page,
            row,
            limit_advice: "",
        };
        fill(&record, &table, &mut resolver, &mut cells).unwrap();
        let bytes = |bytes: &'static [u8]| ExportedCell::from(bytes);
        let expected =
            [bytes(&[1, 0, 0, 0]), bytes(&[2, 0, 0, 0]), bytes(b"in"), ExportedCell::Null, bytes(b"own")];
        assert_eq!(cells, expected);
    }

    #[test]
    fn values_with_bad_lengths_keep_their_stored_bytes() {
        let size = ese_format::PageSize::KIB_4;
        let mut schema = TableSchema::new("t", TreeId(9), PageNumber::fixed(9));
        schema.columns = vec![
            Column::new(256, "Two", ColumnType::Binary, 255),
            Column::new(257, "Several", ColumnType::Binary, 255),
            Column::new(258, "Good", ColumnType::Binary, 255),
        ];
        let table = SourceTable::new(&schema, size);
        // Two values, of which the first has 200 bytes; several values that start at byte 7; one value.
        let mut bytes = vec![0, 127, 4, 0, 0, 1, 12, 0x40, 1, 1, 16, 0x40, 2, 1, 20, 0];
        bytes.extend([0x18, 200, 1, 2, 0x08, 7, 0, 3, 5]);
        let disk = jetcell_vfs::SimVfs::new();
        disk.put(std::path::Path::new("/x.edb"), &testkit::samples::read("engine-4k.edb"));
        let source =
            SourceDatabase::open(&disk, std::path::Path::new("/x.edb"), &mut ExportIssues::default())
                .unwrap();
        let mut resolver = CellResolver {
            database: &source.database,
            long_values: &mut LongValueReader::new(&table),
            remaining_bytes: 1 << 20,
            files: None,
            page: PageNumber::fixed(9),
            row: 0,
            limit_advice: "",
        };
        let mut cells = Vec::new();
        fill(&Record::new(&bytes, size), &table, &mut resolver, &mut cells).unwrap();
        let stored = |cell: &ExportedCell<'_>| match cell {
            ExportedCell::One(CellItem::Unreadable(unreadable)) => unreadable.stored.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(stored(&cells[0]), [200, 1, 2]);
        assert_eq!(stored(&cells[1]), [7, 0, 3]);
        assert_eq!(cells[2], ExportedCell::from(&[5][..]));
    }
}
