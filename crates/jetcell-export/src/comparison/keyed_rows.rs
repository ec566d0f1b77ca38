//! Reads the rows of a table with their keys.

use ese_check::database::ReadableDatabase;
use ese_check::reader::PageCache;
use ese_format::PageNumber;
use ese_format::page::NodeFlags;

use crate::issue::ExportIssues;
use crate::table::SourceTable;
use crate::walk::{LeafImage, LeafWalk};

/// A row with its key.
pub(super) struct KeyedRow<'r> {
    pub(super) key: &'r [u8],
    pub(super) data: &'r [u8],
    pub(super) page: PageNumber,
}

/// Cursor over the rows of a table that are not flagged as deleted.
pub(super) struct KeyedRows<'d> {
    database: &'d ReadableDatabase,
    pages: PageCache,
    walk: LeafWalk,
    /// The current leaf, and the position of the current row.
    leaf: Option<(PageNumber, LeafImage, usize)>,
    /// Key of the current row.
    key: Vec<u8>,
}

impl<'d> KeyedRows<'d> {
    /// Creates a cursor before the first row.
    pub(super) fn new(table: &SourceTable, database: &'d ReadableDatabase) -> KeyedRows<'d> {
        let walk = LeafWalk::new(table.tree, table.root, database);
        KeyedRows { database, pages: PageCache::default(), walk, leaf: None, key: Vec::new() }
    }

    /// Returns the current row, or `None` after the last row.
    pub(super) fn row(&self) -> Option<KeyedRow<'_>> {
        let (page, image, index) = self.leaf.as_ref()?;
        let data = image.page().node(*index)?.data;
        Some(KeyedRow { key: &self.key, data, page: *page })
    }

    /// Moves to the next row.
    pub(super) fn advance(&mut self, issues: &mut ExportIssues) {
        let mut next = self.leaf.take().map(|(page, image, index)| (page, image, index + 1));
        loop {
            let leaf = match next.take() {
                Some(leaf) => Some(leaf),
                None => {
                    let found = self.walk.next(self.database, &mut self.pages, issues);
                    found.map(|(page, image)| (page, image, 0))
                }
            };
            let Some((page, image, first)) = leaf else { return };
            for index in first..image.page().node_count() {
                match image.page().node(index) {
                    Some(node) if node.flags.contains(NodeFlags::DELETED) => {}
                    Some(node) => {
                        self.key.clear();
                        node.append_key(&mut self.key);
                        self.leaf = Some((page, image, index));
                        return;
                    }
                    None => {
                        issues.add_missing(Some(page), format!("row {index} of the page cannot be decoded"));
                    }
                }
            }
        }
    }
}
