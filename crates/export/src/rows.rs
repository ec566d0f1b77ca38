//! The rows of a table, cell by cell.

use std::borrow::Cow;

use ese_check::reader::PageReader;
use ese_format::PageNumber;
use ese_format::compression::{self, decompress};
use ese_format::page::NodeFlags;
use ese_format::record::{Column, ColumnClass, ColumnFlags, ColumnValue, MultiValue, Record};

use crate::cell::{Cell, Item, Unreadable};
use crate::issue::Issues;
use crate::long_values::LongValues;
use crate::source::Source;
use crate::table::Table;
use crate::walk::LeafWalk;

/// Bytes of long values in memory for one row; a value beyond them is marked and reported.
const ROW_LIMIT: usize = 24 << 20;

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// One cell per column of the table.
    pub cells: &'a [Cell<'a>],
    /// The row is flagged deleted.
    pub deleted: bool,
    /// The page it is on.
    pub page: PageNumber,
}

/// Gives every row of `table` to `visit`, in the order of its tree; rows flagged deleted only when `deleted`.
///
/// Ends at the first error of `visit`; what cannot be read goes to `issues`.
pub fn read_rows<E>(
    source: &Source,
    table: &Table,
    deleted: bool,
    issues: &mut Issues,
    mut visit: impl FnMut(Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = PageReader::new(&source.database);
    let mut walk = LeafWalk::new(table.tree, table.root, &reader);
    let mut long = LongValues::new(PageReader::new(&source.database), table);
    let size = source.database.page_size;
    while let Some((page, image)) = walk.next(&mut reader, issues) {
        let view = image.page();
        let mut cells = Vec::with_capacity(table.columns.len());
        for index in 0..view.node_count() {
            let Some(node) = view.node(index) else {
                issues.missing(Some(page), format!("row {index} of the page cannot be decoded"));
                continue;
            };
            let is_deleted = node.flags.contains(NodeFlags::DELETED);
            if is_deleted && !deleted {
                continue;
            }
            let record = Record::new(node.data, size);
            let mut resolver = Resolver { long: &mut long, room: ROW_LIMIT };
            fill(&record, table, &mut resolver, &mut cells);
            for (cell, column) in cells.iter().zip(&table.columns) {
                report(cell, &column.column, page, index, is_deleted, issues);
            }
            visit(Row { cells: &cells, deleted: is_deleted, page })?;
            cells.clear();
        }
    }
    Ok(())
}

fn report(
    cell: &Cell<'_>,
    column: &Column,
    page: PageNumber,
    index: usize,
    deleted: bool,
    issues: &mut Issues,
) {
    let mut tell = |unreadable: &Unreadable| {
        let what = format!("row {index} of the page, column {}: {}", column.name, unreadable.reason);
        // Long values of a deleted row may be gone rightfully.
        if deleted { issues.note(Some(page), what) } else { issues.missing(Some(page), what) }
    };
    match cell {
        Cell::Unreadable(unreadable) => tell(unreadable),
        Cell::Multi(items) => items.iter().filter_map(|item| item.as_ref().err()).for_each(tell),
        Cell::Null | Cell::Value(_) => {}
    }
}

struct Resolver<'l, 'd> {
    long: &'l mut LongValues<'d>,
    /// Bytes of long values this row may still take.
    room: usize,
}

fn fill<'a>(
    record: &Record<'a>,
    table: &'a Table,
    resolver: &mut Resolver<'_, '_>,
    cells: &mut Vec<Cell<'a>>,
) {
    cells.extend(table.columns.iter().map(|column| match column.column.class() {
        ColumnClass::Tagged => default(&column.column),
        _ => match record.get(&column.column) {
            Ok(value) => resolver.cell(value, &column.column),
            Err(error) => Cell::Unreadable(Unreadable { reason: error.to_string(), stored: Vec::new() }),
        },
    }));
    // One pass over what is stored: a table may have thousands of tagged columns and a row few of them.
    match record.tagged() {
        Ok(entries) => {
            for (id, derived, value) in entries {
                let position = table.position(derived, id);
                // A column since deleted keeps its values in old rows.
                if let Some((column, cell)) =
                    position.and_then(|at| Some((table.columns.get(at)?, cells.get_mut(at)?)))
                {
                    *cell = resolver.cell(value, &column.column);
                }
            }
        }
        Err(_) => {
            for (column, cell) in table.columns.iter().zip(cells) {
                if column.column.class() == ColumnClass::Tagged {
                    *cell = match record.get(&column.column) {
                        Ok(value) => resolver.cell(value, &column.column),
                        Err(error) => {
                            Cell::Unreadable(Unreadable { reason: error.to_string(), stored: Vec::new() })
                        }
                    };
                }
            }
        }
    }
}

/// The value of rows that do not store the column.
fn default(column: &Column) -> Cell<'_> {
    // With a callback the stored bytes are its parameters and not a value.
    if !column.flags.contains(ColumnFlags::HAS_DEFAULT)
        || column.flags.contains(ColumnFlags::USER_DEFINED_DEFAULT)
    {
        return Cell::Null;
    }
    column.default.as_deref().map_or(Cell::Null, |value| Cell::Value(Cow::Borrowed(value)))
}

impl Resolver<'_, '_> {
    fn cell<'a>(&mut self, value: ColumnValue<'a>, column: &'a Column) -> Cell<'a> {
        match value {
            ColumnValue::Absent => default(column),
            ColumnValue::Null => Cell::Null,
            ColumnValue::Bytes(bytes) => Cell::Value(Cow::Borrowed(bytes)),
            ColumnValue::Encrypted(stored) => Cell::Unreadable(Unreadable {
                reason: "the value is encrypted".to_owned(),
                stored: stored.to_vec(),
            }),
            ColumnValue::Compressed(stored) => self.item(MultiValue::Compressed(stored)).into(),
            ColumnValue::Separated(id) => self.item(MultiValue::Separated(id)).into(),
            ColumnValue::Multi(values) => {
                Cell::Multi(values.into_iter().map(|value| self.item(value)).collect())
            }
        }
    }

    fn item<'a>(&mut self, value: MultiValue<'a>) -> Item<'a> {
        match value {
            MultiValue::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            MultiValue::Compressed(stored) => {
                let plain = decompress(stored, compression::MAX_INTRINSIC.min(self.room));
                let plain = plain
                    .map_err(|error| Unreadable { reason: error.to_string(), stored: stored.to_vec() })?;
                self.room = self.room.saturating_sub(plain.len());
                Ok(Cow::Owned(plain))
            }
            MultiValue::Separated(id) => {
                let plain = self.long.read(id, self.room).map_err(|reason| {
                    let mut stored = Vec::new();
                    id.append_to_record(&mut stored);
                    Unreadable { reason: format!("long value {}: {reason}", id.0), stored }
                })?;
                self.room = self.room.saturating_sub(plain.len());
                Ok(Cow::Owned(plain))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ese_format::TreeId;
    use ese_format::catalog::TableSchema;
    use ese_format::record::{ColumnType, layout_fixed_columns};
    use testkit::corpus::Corpus;
    use vfs::{RealOptions, RealVfs};

    /// A derived table goes on with the numbers of its template's fixed and variable columns; tagged ones of both count
    /// from 256, and the record says whose they are.
    #[test]
    fn a_derived_table_has_the_columns_of_its_template_first() {
        let Some(corpus) = Corpus::locate() else { return };
        let schema = |name: &str, columns: &[(u16, &str, ColumnType)]| {
            let mut schema = TableSchema::new(name, TreeId(9), PageNumber::fixed(9));
            schema.columns =
                columns.iter().map(|(id, name, kind)| Column::new(*id, name, *kind, 255)).collect();
            schema
        };
        let (long, binary) = (ColumnType::Long, ColumnType::LongBinary);
        let mut template = schema("template", &[(1, "A", long), (256, "T", binary), (257, "U", binary)]);
        let mut derived = schema("derived", &[(2, "B", long), (256, "T", binary)]);
        let mut fixed = vec![template.columns[0].clone(), derived.columns[0].clone()];
        layout_fixed_columns(&mut fixed);
        (template.columns[0], derived.columns[0]) = (fixed[0].clone(), fixed[1].clone());
        let size = ese_format::PageSize::KIB_4;
        let table = Table::new(&derived, Some(&template), size);
        let names: Vec<&str> = table.columns.iter().map(|column| column.column.name.as_str()).collect();
        assert_eq!(names, ["A", "T", "U", "B", "T_2"]);

        // A = 1, B = 2; the template's T = "in", its own "own".
        let mut record = vec![2, 127, 13, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];
        record.extend([0, 1, 8, 0x80, 0, 1, 10, 0]);
        record.extend(b"inown");
        let directory = tempfile::tempdir().unwrap();
        let path = corpus.unpack("db/4k/basic.edb", directory.path());
        let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
        let source = Source::open(&vfs, &path, &mut Issues::default()).unwrap();
        let mut long = LongValues::new(PageReader::new(&source.database), &table);
        let mut cells = Vec::new();
        let record = Record::new(&record, size);
        fill(&record, &table, &mut Resolver { long: &mut long, room: ROW_LIMIT }, &mut cells);
        let bytes = |bytes: &'static [u8]| Cell::Value(Cow::Borrowed(bytes));
        let expected = [bytes(&[1, 0, 0, 0]), bytes(b"in"), Cell::Null, bytes(&[2, 0, 0, 0]), bytes(b"own")];
        assert_eq!(cells, expected);
    }
}
