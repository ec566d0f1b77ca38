//! Compares a secondary index with the rows of its table.
//!
//! The walks compute only sums of hashes: one over the entries that the rows require, and one over the actual entries
//! in the index. If the sums differ, further walks find the entries that differ ([`Findings::add_structural`]). If the
//! keys of an index cannot be rebuilt, the check only searches for entries without a row.

use ese_format::page::Node;
use ese_format::record::Record;
use ese_format::{PageNumber, PageSize};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, hex};
use crate::structure::catalog::{CheckedIndex, CheckedTable};
use crate::structure::hash::hash_pair;
use crate::structure::key_filter::KeyFilter;
use crate::structure::keys::{self, KeyScratch};
use crate::structure::leaf::{NodeVisitor, ParallelVisitor};
use crate::structure::tree_shape::TreeShape;

/// Number of bytes to ignore at the end of a truncated key, because they depend on details of the truncation.
const UNCERTAIN_TAIL_LEN: usize = 10;

/// Count of index entries, and the sum of their hashes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct EntryChecksum {
    count: u64,
    sum: u64,
}

impl EntryChecksum {
    fn add(&mut self, hash: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// State of one index check, updated while the index's table is being checked.
pub(crate) struct IndexCheck<'t> {
    table: &'t CheckedTable,
    index: &'t CheckedIndex,
    shape: TreeShape,
    page_size: PageSize,
    rebuild: bool,
    expected: EntryChecksum,
    found: EntryChecksum,
    /// Number of entries that do not lead to a readable row.
    unmatched_entries: u64,
    keys: KeyScratch,
}

/// Callback that receives an entry's key, bookmark, and hash.
type VisitEntry<'v> = &'v mut dyn FnMut(&[u8], &[u8], u64);

impl<'t> IndexCheck<'t> {
    pub(crate) fn new(
        table: &'t CheckedTable,
        index: &'t CheckedIndex,
        page_size: PageSize,
    ) -> IndexCheck<'t> {
        IndexCheck {
            table,
            index,
            shape: index.shape(table),
            page_size,
            rebuild: keys::can_rebuild(table, index),
            expected: EntryChecksum::default(),
            found: EntryChecksum::default(),
            unmatched_entries: 0,
            keys: KeyScratch::default(),
        }
    }

    /// Creates an empty check of the same index, for use by another thread.
    pub(crate) fn fork(&self) -> IndexCheck<'t> {
        IndexCheck { rebuild: self.rebuild, ..IndexCheck::new(self.table, self.index, self.page_size) }
    }

    /// Adds the counts and sums from a check on another thread.
    pub(crate) fn join(&mut self, other: IndexCheck<'t>) {
        self.rebuild &= other.rebuild;
        self.unmatched_entries += other.unmatched_entries;
        for (tally, other) in [(&mut self.expected, other.expected), (&mut self.found, other.found)] {
            tally.count += other.count;
            tally.sum = tally.sum.wrapping_add(other.sum);
        }
    }

    pub(crate) fn shape(&self) -> TreeShape {
        self.shape.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.index.name
    }

    fn compute_hash(index: &CheckedIndex, key: &[u8], bookmark: &[u8]) -> u64 {
        let cut = key.len() >= index.max_key_len;
        let sure = if cut { index.max_key_len.saturating_sub(UNCERTAIN_TAIL_LEN) } else { key.len() };
        hash_pair(key.get(..sure).unwrap_or(key), bookmark)
    }

    /// Adds the index entries that a row requires. `bookmark` is the row's key.
    pub(crate) fn add_expected(&mut self, record: &Record<'_>, bookmark: &[u8]) {
        if !self.rebuild {
            return;
        }
        let (index, expected) = (self.index, &mut self.expected);
        let mut add = |key: &[u8]| expected.add(IndexCheck::compute_hash(index, key, bookmark));
        // Even one row whose keys cannot be rebuilt makes the sums useless.
        self.rebuild = keys::for_each_key(self.table, index, record, &mut self.keys, &mut add);
    }

    /// Adds an actual entry of the index. Returns true if its row may exist.
    fn add_found(&mut self, node: &Node<'_>, key: &mut Vec<u8>, keys: &KeyFilter) -> bool {
        key.clear();
        node.append_key(key);
        self.found.add(IndexCheck::compute_hash(self.index, key, node.data));
        let known = keys.contains(node.data);
        self.unmatched_entries += u64::from(!known);
        known
    }

    /// Returns the number of entries without a readable row, or `None` if a row may have several entries.
    pub(crate) fn unreadable_rows(&self) -> Option<u64> {
        (self.index.flags & CheckedIndex::MULTI_VALUED == 0).then_some(self.unmatched_entries)
    }

    /// Returns true if the sums for rows and entries are equal or cannot be compared.
    pub(crate) fn sums_match(&self) -> bool {
        !self.rebuild || self.expected == self.found
    }

    pub(crate) fn entry_hash(&self, node: &Node<'_>) -> u64 {
        IndexCheck::compute_hash(self.index, &node.key_to_vec(), node.data)
    }

    /// Returns the number of entries in the index or the number of required entries, whichever is larger.
    pub(crate) fn entries(&self) -> u64 {
        self.found.count.max(self.expected.count)
    }

    /// Reports that rows and entries differ in more places than the check lists.
    pub(crate) fn report_disagreement(&self, findings: &mut Findings) {
        let (found, expected) = (self.found.count, self.expected.count);
        let what = format!(
            "the index has {found} entries, but the rows require {expected}; not all differences are listed"
        );
        findings.add_structural(FindingKind::IndexEntryOrphan, None, &self.shape.label, what);
    }

    /// Passes the key, bookmark, and hash of each entry that a row requires to `visit`.
    pub(crate) fn for_each_expected(&mut self, node: &Node<'_>, visit: VisitEntry<'_>) {
        let (bookmark, record) = (node.key_to_vec(), Record::new(node.data, self.page_size));
        let index = self.index;
        let mut each = |key: &[u8]| visit(key, &bookmark, IndexCheck::compute_hash(index, key, &bookmark));
        keys::for_each_key(self.table, index, &record, &mut self.keys, &mut each);
    }

    /// Reports a missing entry. `page` is the page that should contain the entry.
    pub(crate) fn report_missing(
        &self,
        page: PageNumber,
        row_page: PageNumber,
        key: &[u8],
        findings: &mut Findings,
    ) {
        let what = format!("no entry {} for a row on page {row_page}", hex(key));
        findings.add_structural(FindingKind::IndexEntryMissing, page, &self.shape.label, what);
    }

    pub(crate) fn report_orphan(&self, page: PageNumber, key: &[u8], findings: &mut Findings) {
        let what = format!("entry {} does not match the keys of its row", hex(key));
        findings.add_structural(FindingKind::IndexEntryOrphan, page, &self.shape.label, what);
    }
}

/// Visits the entries of one index. `keys` contains the row keys. If some rows could not be read, entries without a
/// row are only counted.
pub(crate) struct EntryVisitor<'t, 'k> {
    pub(crate) check: IndexCheck<'t>,
    keys: &'k KeyFilter,
    all_rows: bool,
    key: Vec<u8>,
}

impl<'t, 'k> EntryVisitor<'t, 'k> {
    pub(crate) fn new(check: IndexCheck<'t>, keys: &'k KeyFilter, all_rows: bool) -> EntryVisitor<'t, 'k> {
        EntryVisitor { check, keys, all_rows, key: Vec::new() }
    }
}

impl NodeVisitor for EntryVisitor<'_, '_> {
    fn visit(&mut self, page: PageNumber, node: &Node<'_>, findings: &mut Findings) {
        if !self.check.add_found(node, &mut self.key, self.keys) && self.all_rows {
            let what =
                format!("entry {} points to key {}, but no row has this key", hex(&self.key), hex(node.data));
            findings.add_structural(FindingKind::IndexEntryOrphan, page, &self.check.shape.label, what);
        }
    }
}

impl ParallelVisitor for EntryVisitor<'_, '_> {
    fn fork(&self) -> Self {
        EntryVisitor::new(self.check.fork(), self.keys, self.all_rows)
    }

    fn join(&mut self, right: Self, _: &mut Findings) {
        self.check.join(right.check);
    }
}
