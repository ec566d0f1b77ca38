//! Reads the rows of a table, cell by cell.

use std::io;
use std::ops::ControlFlow;

use ese_check::reader::PageCache;
use ese_format::PageNumber;
use ese_format::page::NodeFlags;
use ese_format::record::{Record, RecordShape};

use crate::additional_rows::{AdditionalRows, CarvedOrigin, RowMark};
use crate::carve::{CarvedNode, carve};
use crate::cell::{CellItem, ExportedCell};
use crate::issue::ExportIssues;
use crate::long_values::LongValueReader;
use crate::record_cells::{CellResolver, fill};
use crate::selected_table::SelectedTable;
use crate::source_database::SourceDatabase;
use crate::table::SourceTable;
use crate::value::ExportedValue;
use crate::value_files::ValueFiles;
use crate::walk::{LeafImage, LeafWalk};

/// Default of [`RowReadOptions::row_limit`], in bytes.
pub const ROW_LIMIT: usize = 24 << 20;

/// Options for reading rows ([`read_rows`]).
#[derive(Debug)]
pub struct RowReadOptions<'f> {
    /// Rows to return in addition to the current rows on intact pages.
    pub additional: AdditionalRows,
    /// Maximum number of bytes of long values to keep in memory for one row.
    pub row_limit: usize,
    /// Files for values that exceed this limit. If `None`, such values are treated as unreadable.
    pub files: Option<&'f mut ValueFiles>,
    /// Text appended to the message about such a value, which explains why it has no file and what to do.
    pub limit_advice: &'static str,
    /// Whether a portion ends before the first row that comes after missing rows.
    pub stop_at_missing: bool,
}

impl Default for RowReadOptions<'_> {
    fn default() -> Self {
        let advice = "no separate file is available for them; raise the limit";
        RowReadOptions {
            additional: AdditionalRows::default(),
            row_limit: ROW_LIMIT,
            files: None,
            limit_advice: advice,
            stop_at_missing: false,
        }
    }
}

/// A row read by an export.
#[derive(Clone, Copy, Debug)]
pub struct ExportedRow<'a> {
    /// One cell per column of the table.
    pub cells: &'a [ExportedCell<'a>],
    /// True if the row is flagged deleted.
    pub deleted: bool,
    /// True if the page has a bad checksum. Any value may then be wrong.
    pub damaged: bool,
    /// Origin of the row if the table no longer contains it.
    pub carved: Option<CarvedOrigin>,
    /// Page that contains the row.
    pub page: PageNumber,
    /// Position of the row on its page. 0 for carved rows.
    pub index: usize,
}

impl ExportedRow<'_> {
    /// Returns the value of a mark, or `None` for null.
    pub fn mark(&self, mark: RowMark) -> Option<ExportedValue<'static>> {
        match mark {
            RowMark::Deleted => Some(ExportedValue::Bit(self.deleted)),
            RowMark::Damaged => Some(ExportedValue::Bit(self.damaged)),
            RowMark::CarvedPage => self.carved.map(|_| ExportedValue::Int(self.page.get().into())),
            RowMark::CarvedOffset => self.carved.map(|from| ExportedValue::Int(from.offset as i64)),
            RowMark::Confidence => self.carved.map(|from| ExportedValue::Text(from.confidence.name().into())),
        }
    }

    /// Returns true if the row is a current row on an intact page. The long values of other rows may be gone, so missing
    /// values are expected.
    pub fn is_current(&self) -> bool {
        !self.deleted && !self.damaged && self.carved.is_none()
    }

    /// Reports the values of the row that cannot be read or that the output represents only in part.
    fn report(&self, table: &SourceTable, issues: &mut ExportIssues) {
        for (cell, column) in self.cells.iter().zip(&table.columns) {
            for item in cell.items() {
                let reason = match item {
                    CellItem::Unreadable(unreadable) => Some(unreadable.reason.clone()),
                    CellItem::Inline(bytes) => column.describe_loss(bytes),
                    CellItem::File(_) => None,
                };
                let Some(reason) = reason else { continue };
                let place = match self.carved {
                    Some(from) => format!("carved row at byte {} of the page", from.offset),
                    None => format!("row {} of the page", self.index),
                };
                let what = format!("{place}, column {}: {reason}", column.column.name);
                if self.is_current() {
                    issues.add_missing(Some(self.page), what);
                } else {
                    issues.add_note(Some(self.page), what);
                }
            }
        }
    }
}

/// Calls `visit` with every row of `table`, in key order. Data that cannot be read is reported in `issues`.
///
/// # Errors
///
/// Returns the first error from `visit` or from writing a long value.
pub fn read_rows(
    source: &SourceDatabase,
    table: &SourceTable,
    mut reading: RowReadOptions<'_>,
    issues: &mut ExportIssues,
    mut visit: impl FnMut(ExportedRow<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let all = SelectedTable { table: table.clone(), times: None };
    let mut cursor = RowCursor::new(source, all);
    let visit = &mut |row: ExportedRow<'_>| visit(row).map(ControlFlow::Continue);
    while cursor.read(source, &mut reading, issues, visit)? != PortionEnd::End {}
    Ok(())
}

/// A cursor over the rows in a table. Rows can be read in portions, and nothing is borrowed between portions.
pub struct RowCursor {
    selected: SelectedTable,
    walk: LeafWalk,
    /// The current leaf, and the position of its next row.
    leaf: Option<(PageNumber, LeafImage, usize)>,
    /// The carved rows that remain, once all leaves have been read.
    carved: Option<std::vec::IntoIter<CarvedNode>>,
    shape: RecordShape,
    hidden_deleted_rows: u64,
    pages: PageCache,
    long: LongValueReader,
}

/// Reason why a portion of rows ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortionEnd {
    /// The visitor stopped reading.
    More,
    /// Rows are missing before the next row ([`RowReadOptions::stop_at_missing`]). [`ExportIssues::last_missing`]
    /// contains the reason.
    Missing,
    /// There are no more rows.
    End,
}

impl RowCursor {
    /// Creates a cursor positioned before the first row.
    pub fn new(source: &SourceDatabase, selected: SelectedTable) -> RowCursor {
        let table = &selected.table;
        let walk = LeafWalk::new(table.tree, table.root, &source.database);
        let long = LongValueReader::new(table);
        // The selection may omit columns that records contain.
        let stored = source.tables().iter().find(|stored| stored.tree == table.tree).unwrap_or(table);
        let columns = stored.columns.iter().map(|column| &column.column);
        let shape = RecordShape::new(columns, &stored.deleted_columns, source.database.page_size);
        let pages = PageCache::default();
        RowCursor { selected, walk, leaf: None, carved: None, shape, hidden_deleted_rows: 0, pages, long }
    }

    /// Returns the number of rows flagged as deleted that were skipped so far ([`AdditionalRows::deleted`]). Rows
    /// outside the selected times are not counted.
    pub fn hidden_deleted_rows(&self) -> u64 {
        self.hidden_deleted_rows
    }

    /// Returns the table.
    pub fn table(&self) -> &SourceTable {
        &self.selected.table
    }

    /// Calls `visit` with the next rows until it breaks. `source` must be the source that was passed to
    /// [`RowCursor::new`].
    ///
    /// # Errors
    ///
    /// Returns the first error from `visit` or from writing a long value.
    pub fn read(
        &mut self,
        source: &SourceDatabase,
        reading: &mut RowReadOptions<'_>,
        issues: &mut ExportIssues,
        visit: &mut dyn FnMut(ExportedRow<'_>) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<PortionEnd> {
        loop {
            if self.leaf.is_none() {
                let missing = issues.missing_count();
                self.walk.include_damaged = reading.additional.damaged;
                let leaf = self.walk.next(&source.database, &mut self.pages, issues);
                self.leaf = leaf.map(|(page, image)| (page, image, 0));
                if reading.stop_at_missing && issues.missing_count() > missing {
                    return Ok(PortionEnd::Missing);
                }
            }
            let Some((page, image, next)) = self.leaf.take() else {
                return self.read_carved(source, reading, issues, visit);
            };
            if let Some((next, portion)) =
                self.read_leaf(source, (page, &image, next), reading, issues, visit)?
            {
                self.leaf = Some((page, image, next));
                return Ok(portion);
            }
        }
    }

    /// Visits the rows of one leaf. Returns `None` once all of its remaining rows have been visited. Otherwise
    /// returns the next position and the reason why the portion ended.
    fn read_leaf(
        &mut self,
        source: &SourceDatabase,
        (page, image, first): (PageNumber, &LeafImage, usize),
        reading: &mut RowReadOptions<'_>,
        issues: &mut ExportIssues,
        visit: &mut dyn FnMut(ExportedRow<'_>) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<Option<(usize, PortionEnd)>> {
        let SelectedTable { table, times } = &self.selected;
        let database = &source.database;
        let (view, damaged) = (image.page(), image.is_damaged());
        let mut cells = Vec::with_capacity(table.columns.len());
        for index in first..view.node_count() {
            let node = view.node(index).filter(|node| !damaged || self.shape.accepts(node.data));
            let Some(node) = node else {
                issues.add_missing(Some(page), format!("row {index} of the page cannot be decoded"));
                if reading.stop_at_missing {
                    return Ok(Some((index + 1, PortionEnd::Missing)));
                }
                continue;
            };
            let record = Record::new(node.data, database.page_size);
            // The filter is applied before rows are counted as hidden, and before long values are read.
            if times.as_ref().is_some_and(|times| !times.accepts(&record)) {
                continue;
            }
            let is_deleted = node.flags.contains(NodeFlags::DELETED);
            if is_deleted && !reading.additional.deleted {
                self.hidden_deleted_rows += 1;
                continue;
            }
            self.long.include_deleted = is_deleted;
            let mut resolver = CellResolver {
                database,
                long_values: &mut self.long,
                remaining_bytes: reading.row_limit,
                files: reading.files.as_deref_mut(),
                page,
                row: index,
                limit_advice: reading.limit_advice,
            };
            fill(&record, table, &mut resolver, &mut cells)?;
            let row = ExportedRow { cells: &cells, deleted: is_deleted, damaged, carved: None, page, index };
            row.report(table, issues);
            if visit(row)?.is_break() {
                return Ok(Some((index + 1, PortionEnd::More)));
            }
            cells.clear();
        }
        Ok(None)
    }

    /// Visits the carved rows, after all leaves have been read.
    fn read_carved(
        &mut self,
        source: &SourceDatabase,
        reading: &mut RowReadOptions<'_>,
        issues: &mut ExportIssues,
        visit: &mut dyn FnMut(ExportedRow<'_>) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<PortionEnd> {
        if !reading.additional.carved {
            return Ok(PortionEnd::End);
        }
        let SelectedTable { table, times } = &self.selected;
        let database = &source.database;
        let nodes = self
            .carved
            .get_or_insert_with(|| carve(source, table, &self.shape, &self.walk, &mut self.pages, issues));
        for CarvedNode { page, record, origin, deleted, .. } in nodes {
            let Ok(image) = self.pages.get(database, page) else { continue };
            let record = Record::new(image.bytes().get(record).unwrap_or_default(), database.page_size);
            if times.as_ref().is_some_and(|times| !times.accepts(&record)) {
                continue;
            }
            self.long.include_deleted = true;
            let mut resolver = CellResolver {
                database,
                long_values: &mut self.long,
                remaining_bytes: reading.row_limit,
                // The names of files contain the position of the row, which a carved row does not have.
                files: None,
                page,
                row: 0,
                limit_advice: "long values of carved rows are not written to separate files",
            };
            let mut cells = Vec::with_capacity(table.columns.len());
            fill(&record, table, &mut resolver, &mut cells)?;
            let row =
                ExportedRow { cells: &cells, deleted, damaged: false, carved: Some(origin), page, index: 0 };
            row.report(table, issues);
            if visit(row)?.is_break() {
                return Ok(PortionEnd::More);
            }
        }
        Ok(PortionEnd::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetcell_vfs::{RealOptions, RealVfs};
    use testkit::corpus::Corpus;

    /// Returns the rows as text, with the issues. Reads them in portions of at most `rows` rows.
    fn read(
        path: &std::path::Path,
        rows: usize,
        stop_at_missing: bool,
    ) -> (Vec<String>, ExportIssues, PortionEnd) {
        let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
        let (mut found, mut issues) = (Vec::new(), ExportIssues::default());
        let source = SourceDatabase::open(&vfs, path, &mut ExportIssues::default()).unwrap();
        let table = source.table("MSysObjects").unwrap().clone();
        let mut cursor = RowCursor::new(&source, SelectedTable { table, times: None });
        let mut reading = RowReadOptions { stop_at_missing, ..RowReadOptions::default() };
        loop {
            let end = found.len() + rows;
            let portion = cursor
                .read(&source, &mut reading, &mut issues, &mut |row| {
                    found.push(format!("{} {} {:?}", row.page, row.index, row.cells));
                    Ok(if found.len() < end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
                })
                .unwrap();
            if portion != PortionEnd::More {
                return (found, issues, portion);
            }
        }
    }

    #[test]
    fn reading_in_portions_returns_the_same_rows() {
        let Some(corpus) = Corpus::locate() else { return };
        let directory = tempfile::tempdir().unwrap();
        let path = corpus.unpack("db/4k/filehistory-Catalog1.edb", directory.path());
        let (whole, _, portion) = read(&path, usize::MAX - 1, false);
        assert!(whole.len() > 100 && portion == PortionEnd::End);
        for rows in [1, 7] {
            assert_eq!(read(&path, rows, true).0, whole);
        }

        // The last leaf of the catalog.
        let page: u64 = whole.last().unwrap().split(' ').next().unwrap().parse().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[(page as usize + 1) * 4096 + 100] ^= 0xFF;
        bytes[(page as usize + 1) * 4096 + 101] ^= 0xFF;
        std::fs::write(&path, bytes).unwrap();
        let (rows, issues, portion) = read(&path, 7, true);
        assert_eq!(portion, PortionEnd::Missing);
        assert_eq!(issues.last_missing().unwrap().page.unwrap().get() as u64, page);
        assert!(rows.len() < whole.len() && rows == whole[..rows.len()]);
        assert_eq!(read(&path, 7, false).2, PortionEnd::End);
    }
}
