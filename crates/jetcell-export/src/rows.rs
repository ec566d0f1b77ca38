//! The rows of a table, cell by cell.

use std::borrow::Cow;
use std::io;

use ese_check::reader::PageReader;
use ese_format::PageNumber;
use ese_format::compression::{self, decompress};
use ese_format::long_value::LongValueId;
use ese_format::page::NodeFlags;
use ese_format::record::{Column, ColumnClass, ColumnFlags, ColumnValue, MultiValue, Record};

use crate::cell::{Cell, Item, Unreadable};
use crate::issue::Issues;
use crate::long_values::LongValues;
use crate::source::Source;
use crate::table::{Table, TableColumn};
use crate::value_files::{Place, ValueFiles};
use crate::walk::LeafWalk;

/// Bytes of long values in memory for one row, unless [`Reading::row_limit`] says otherwise.
pub const ROW_LIMIT: usize = 24 << 20;

/// How the rows of a table are read.
#[derive(Debug)]
pub struct Reading<'f> {
    /// Rows flagged deleted, too.
    pub deleted: bool,
    /// Bytes of long values in memory for one row.
    pub row_limit: usize,
    /// Where values go that are beyond this; without a place they are unreadable.
    pub files: Option<&'f mut ValueFiles>,
}

impl Default for Reading<'_> {
    fn default() -> Self {
        Reading { deleted: false, row_limit: ROW_LIMIT, files: None }
    }
}

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

/// Gives every row of `table` to `visit`, in the order of its tree.
///
/// Ends at the first error of `visit` or of writing a long value; what cannot be read goes to `issues`.
pub fn read_rows(
    source: &Source,
    table: &Table,
    mut reading: Reading<'_>,
    issues: &mut Issues,
    mut visit: impl FnMut(Row<'_>) -> io::Result<()>,
) -> io::Result<()> {
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
            if is_deleted && !reading.deleted {
                continue;
            }
            let record = Record::new(node.data, size);
            let mut resolver = Resolver {
                long: &mut long,
                room: reading.row_limit,
                files: reading.files.as_deref_mut(),
                page,
                row: index,
            };
            fill(&record, table, &mut resolver, &mut cells)?;
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
    for item in cell.items() {
        if let Item::Unreadable(unreadable) = item {
            let what = format!("row {index} of the page, column {}: {}", column.name, unreadable.reason);
            // Long values of a deleted row may be gone rightfully.
            if deleted { issues.note(Some(page), what) } else { issues.missing(Some(page), what) }
        }
    }
}

/// Makes cells of what one record stores.
struct Resolver<'l, 'd> {
    long: &'l mut LongValues<'d>,
    /// Bytes of long values this row may still take.
    room: usize,
    files: Option<&'l mut ValueFiles>,
    page: PageNumber,
    row: usize,
}

fn fill<'a>(
    record: &Record<'a>,
    table: &'a Table,
    resolver: &mut Resolver<'_, '_>,
    cells: &mut Vec<Cell<'a>>,
) -> io::Result<()> {
    for column in &table.columns {
        cells.push(match column.column.class() {
            ColumnClass::Tagged => default(&column.column),
            _ => resolver.get(record, column)?,
        });
    }
    // One pass over what is stored: a table may have thousands of tagged columns and a row few of them.
    match record.tagged() {
        Ok(entries) => {
            for (id, derived, value) in entries {
                let position = table.position(derived, id);
                // A column since deleted keeps its values in old rows.
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

/// The value of rows that do not store the column.
fn default(column: &Column) -> Cell<'_> {
    // With a callback the stored bytes are its parameters and not a value.
    if !column.flags.contains(ColumnFlags::HAS_DEFAULT)
        || column.flags.contains(ColumnFlags::USER_DEFINED_DEFAULT)
    {
        return Cell::Null;
    }
    column.default.as_deref().map_or(Cell::Null, Cell::from)
}

fn unreadable(reason: impl ToString, stored: &[u8]) -> Item<'static> {
    Item::Unreadable(Unreadable { reason: reason.to_string(), stored: stored.to_vec() })
}

impl Resolver<'_, '_> {
    fn get<'a>(&mut self, record: &Record<'a>, column: &'a TableColumn) -> io::Result<Cell<'a>> {
        match record.get(&column.column) {
            Ok(value) => self.cell(value, column),
            Err(error) => Ok(Cell::One(unreadable(error, &[]))),
        }
    }

    fn cell<'a>(&mut self, value: ColumnValue<'a>, column: &'a TableColumn) -> io::Result<Cell<'a>> {
        let place = Place { page: self.page, row: self.row, column, item: None };
        Ok(match value {
            ColumnValue::Absent => default(&column.column),
            ColumnValue::Null => Cell::Null,
            ColumnValue::Bytes(bytes) => Cell::from(bytes),
            ColumnValue::Encrypted(stored) => Cell::One(unreadable("the value is encrypted", stored)),
            ColumnValue::Compressed(stored) => Cell::One(self.compressed(stored, place)?),
            ColumnValue::Separated(id) => Cell::One(self.separated(id, place)?),
            ColumnValue::Multi(values) => {
                let items = values.into_iter().zip(1..).map(|(value, item)| {
                    let place = Place { item: Some(item), ..place };
                    match value {
                        MultiValue::Bytes(bytes) => Ok(Item::Here(Cow::Borrowed(bytes))),
                        MultiValue::Compressed(stored) => self.compressed(stored, place),
                        MultiValue::Separated(id) => self.separated(id, place),
                    }
                });
                Cell::Multi(items.collect::<io::Result<_>>()?)
            }
        })
    }

    fn compressed<'a>(&mut self, stored: &'a [u8], place: Place<'_>) -> io::Result<Item<'a>> {
        let plain = match decompress(stored, compression::MAX_INTRINSIC) {
            Ok(plain) => plain,
            Err(error) => return Ok(unreadable(error, stored)),
        };
        if plain.len() <= self.room {
            self.room -= plain.len();
            return Ok(Item::Here(Cow::Owned(plain)));
        }
        let Some(files) = &mut self.files else {
            return Ok(unreadable(no_room(plain.len(), self.room), stored));
        };
        let mut file = files.create(place)?;
        file.write(&plain)?;
        file.finish().map(Item::Elsewhere)
    }

    fn separated<'a>(&mut self, id: LongValueId, place: Place<'_>) -> io::Result<Item<'a>> {
        let lost = |reason: String| {
            let mut stored = Vec::new();
            id.append_to_record(&mut stored);
            Ok(unreadable(format!("long value {}: {reason}", id.0), &stored))
        };
        let value = match self.long.open(id) {
            Ok(value) => value,
            Err(reason) => return lost(reason),
        };
        let len = value.len();
        if len <= self.room {
            let mut plain = Vec::with_capacity(len.min(1 << 16));
            while plain.len() < len {
                if let Err(reason) = self.long.append_chunk(value, plain.len(), &mut plain) {
                    return lost(reason);
                }
            }
            self.room = self.room.saturating_sub(plain.len());
            return Ok(Item::Here(Cow::Owned(plain)));
        }
        let Some(files) = &mut self.files else { return lost(no_room(len, self.room)) };
        let mut file = files.create(place)?;
        let (mut offset, mut chunk) = (0, Vec::new());
        while offset < len {
            chunk.clear();
            if let Err(reason) = self.long.append_chunk(value, offset, &mut chunk) {
                return lost(reason);
            }
            file.write(&chunk)?;
            offset += chunk.len();
        }
        file.finish().map(Item::Elsewhere)
    }
}

fn no_room(len: usize, room: usize) -> String {
    format!(
        "{len} bytes are more than an export holds for one row ({room} left), and beside standard output there is no \
         place for a file of its own; give --output a directory or a file"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ese_format::TreeId;
    use ese_format::catalog::TableSchema;
    use ese_format::record::{ColumnType, layout_fixed_columns};
    use jetcell_vfs::{RealOptions, RealVfs};
    use testkit::corpus::Corpus;

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
        let (page, row) = (PageNumber::fixed(9), 0);
        let mut resolver = Resolver { long: &mut long, room: ROW_LIMIT, files: None, page, row };
        fill(&record, &table, &mut resolver, &mut cells).unwrap();
        let bytes = |bytes: &'static [u8]| Cell::from(bytes);
        let expected = [bytes(&[1, 0, 0, 0]), bytes(b"in"), Cell::Null, bytes(&[2, 0, 0, 0]), bytes(b"own")];
        assert_eq!(cells, expected);
    }
}
