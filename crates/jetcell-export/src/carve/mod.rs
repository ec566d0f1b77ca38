//! Recovers rows that no tree contains any more, from the free space of a table's pages and from pages that the table
//! no longer uses.
//!
//! All pages with the table's object id are searched ([`page_nodes`]). Deleting a row leaves its bytes in place, and
//! moving rows to other pages leaves copies of current rows. Therefore, the table is read a second time, and every row
//! that is identical to one in the table is discarded. The number of rows held in memory is limited.

mod carved_node;
mod page_nodes;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::vec::IntoIter;

use ese_check::reader::PageCache;
use ese_format::record::RecordShape;

pub(crate) use carved_node::CarvedNode;
use page_nodes::find_nodes;

use crate::issue::ExportIssues;
use crate::source_database::SourceDatabase;
use crate::table::SourceTable;
use crate::walk::LeafWalk;

/// Maximum number of rows to recover from one table. They use less than 200 MiB.
const MAX_ROWS: usize = 1 << 20;
/// Maximum number of rows that agree in everything except the end of their last value.
const MAX_SIMILAR: usize = 64;

/// The rows that were found, before they are compared with the rows of the table.
struct Candidates {
    nodes: Vec<Option<CarvedNode>>,
    /// Positions in `nodes`, by the hash of the known part of the record.
    by_known_part: HashMap<u64, Vec<usize>>,
    /// Hashes of all records, used to find repeated copies of a row.
    records: HashSet<u64>,
    hasher: RandomState,
    dropped: u64,
}

/// Finds the rows of `table` outside its tree, in page order. `walk` has visited all leaves of the tree.
pub(crate) fn carve(
    source: &SourceDatabase,
    table: &SourceTable,
    shape: &RecordShape,
    walk: &LeafWalk,
    pages: &mut PageCache,
    issues: &mut ExportIssues,
) -> IntoIter<CarvedNode> {
    let mut found = Candidates {
        nodes: Vec::new(),
        by_known_part: HashMap::new(),
        records: HashSet::new(),
        hasher: RandomState::new(),
        dropped: 0,
    };
    let mut is_complete = true;
    for number in source.leaf_pages().pages_of(table.tree) {
        let Ok(image) = pages.get(&source.database, number) else { continue };
        let size = source.database.page_size;
        let on_page = find_nodes(number, image.bytes(), size, shape, walk.has_visited(number));
        is_complete &= on_page.is_complete;
        for node in on_page.nodes {
            found.add(node, image.bytes());
        }
    }
    if !is_complete {
        let what = "parts of the free space are not searched: too many bytes look like rows but are not";
        issues.add_note(None, what);
    }
    if found.dropped > 0 {
        let what = format!("{} carved rows are not exported: the table has too many", found.dropped);
        issues.add_note(None, what);
    }
    found.discard_current_rows(source, table, shape, pages, issues);
    found.nodes.into_iter().flatten().collect::<Vec<_>>().into_iter()
}

impl Candidates {
    /// Adds a row unless an identical one was found before.
    fn add(&mut self, node: CarvedNode, page: &[u8]) {
        let Some(record) = page.get(node.record.clone()) else { return };
        if self.nodes.len() >= MAX_ROWS {
            self.dropped += 1;
            return;
        }
        if !self.records.insert(self.hasher.hash_one(record)) {
            return;
        }
        let known = self.hasher.hash_one(record.get(..node.known).unwrap_or(record));
        let similar = self.by_known_part.entry(known).or_default();
        if similar.len() >= MAX_SIMILAR {
            self.dropped += 1;
            return;
        }
        similar.push(self.nodes.len());
        self.nodes.push(Some(node));
    }

    /// Removes the rows that the table contains, including those that are flagged deleted.
    fn discard_current_rows(
        &mut self,
        source: &SourceDatabase,
        table: &SourceTable,
        shape: &RecordShape,
        pages: &mut PageCache,
        issues: &mut ExportIssues,
    ) {
        if self.nodes.is_empty() {
            return;
        }
        let mut lost = ExportIssues::default();
        let mut walk = LeafWalk::new(table.tree, table.root, &source.database);
        while let Some((_, leaf)) = walk.next(&source.database, pages, &mut lost) {
            for node in leaf.page().nodes() {
                let known = shape.recognize(node.data).map_or(node.data.len(), |extent| extent.known);
                for known in [known, node.data.len()] {
                    let part = node.data.get(..known).unwrap_or(node.data);
                    self.discard(self.hasher.hash_one(part), node.data, source, pages);
                }
            }
        }
        if lost.has_missing() {
            let what = "parts of the table cannot be read, so carved rows may be current rows";
            issues.add_note(None, what);
        }
    }

    /// Removes the rows that have this hash and are equal to `current`. If the end of a row is not known, the row is also
    /// removed if it begins with `current`, because the rest may not belong to it.
    fn discard(&mut self, known: u64, current: &[u8], source: &SourceDatabase, pages: &mut PageCache) {
        for index in self.by_known_part.get(&known).into_iter().flatten() {
            let Some(slot) = self.nodes.get_mut(*index) else { continue };
            let Some(node) = slot else { continue };
            let Ok(image) = pages.get(&source.database, node.page) else { continue };
            let record = image.bytes().get(node.record.clone()).unwrap_or_default();
            // The zeros that were trimmed may belong to the value.
            let rest = image.bytes().get(node.record.start..).unwrap_or_default();
            if record == current || (!node.exact && rest.starts_with(current)) {
                *slot = None;
            }
        }
    }
}
