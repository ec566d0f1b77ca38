//! A secondary index against the rows of its table.
//!
//! While the trees are walked only sums over hashes are kept: of the entries the rows ask for, and of those that
//! are there. If they differ, further walks find out which ones ([`crate::structure`]). An index whose keys cannot be
//! rebuilt is checked for entries that lead to no row.

use std::hash::{DefaultHasher, Hash, Hasher};

use ese_format::page::Node;
use ese_format::record::Record;
use ese_format::{PageNumber, PageSize};

use crate::catalog::{Index, Table};
use crate::finding::{FindingKind, Findings};
use crate::key_filter::KeyFilter;
use crate::keys;
use crate::tree::{TreeShape, hex};

/// Where a key is cut off, its last bytes depend on oddities of the cut; that many are not compared.
const UNSURE_TAIL: usize = 10;

/// How many, and the sum of their hashes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Tally {
    count: u64,
    sum: u64,
}

impl Tally {
    fn add(&mut self, hash: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// One index while its table is being checked.
pub(crate) struct IndexCheck {
    index: Index,
    shape: TreeShape,
    page_size: PageSize,
    rebuild: bool,
    expected: Tally,
    found: Tally,
    /// Entries that lead to no row that could be read.
    strays: u64,
}

/// Gets key, bookmark and hash of an entry.
type VisitEntry<'v> = &'v mut dyn FnMut(&[u8], &[u8], u64);

fn hash(bytes: &[&[u8]]) -> u64 {
    // The default hasher has fixed keys, so that runs repeat.
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl IndexCheck {
    pub(crate) fn new(table: &Table, index: &Index, page_size: PageSize) -> IndexCheck {
        IndexCheck {
            index: index.clone(),
            shape: index.shape(table),
            page_size,
            rebuild: keys::can_rebuild(table, index),
            expected: Tally::default(),
            found: Tally::default(),
            strays: 0,
        }
    }

    pub(crate) fn shape(&self) -> TreeShape {
        self.shape.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.index.name
    }

    fn hash_of(&self, key: &[u8], bookmark: &[u8]) -> u64 {
        let cut = key.len() >= self.index.key_most;
        let sure = if cut { self.index.key_most.saturating_sub(UNSURE_TAIL) } else { key.len() };
        hash(&[key.get(..sure).unwrap_or(key), bookmark])
    }

    /// Notes what a row asks for.
    pub(crate) fn expect(&mut self, table: &Table, node: &Node<'_>) {
        if !self.rebuild {
            return;
        }
        let record = Record::new(node.data, self.page_size);
        match keys::keys(table, &self.index, &record) {
            Some(keys) => {
                let bookmark = node.key_to_vec();
                for key in keys {
                    self.expected.add(self.hash_of(&key, &bookmark));
                }
            }
            // One row is enough to make the sums useless.
            None => self.rebuild = false,
        }
    }

    /// Notes an entry that is there. `keys` are those of the rows; when some rows could not be read, entries without
    /// row are only counted.
    pub(crate) fn visit(
        &mut self,
        page: PageNumber,
        node: &Node<'_>,
        keys: &KeyFilter,
        all_rows: bool,
        findings: &mut Findings,
    ) {
        self.found.add(self.entry_hash(node));
        if keys.contains(node.data) {
            return;
        }
        self.strays += 1;
        if all_rows {
            let what = format!(
                "entry {} leads to key {}, which no row has",
                hex(&node.key_to_vec()),
                hex(node.data)
            );
            findings.structure(FindingKind::IndexEntryOrphan, page, &self.shape.label, what);
        }
    }

    /// How many rows have an entry, but could not be read; none if a row may have several entries.
    pub(crate) fn unreadable_rows(&self) -> Option<u64> {
        (self.index.flags & Index::MULTI_VALUED == 0).then_some(self.strays)
    }

    /// Rows and entries add up to the same, or cannot be compared.
    pub(crate) fn agrees(&self) -> bool {
        !self.rebuild || self.expected == self.found
    }

    pub(crate) fn entry_hash(&self, node: &Node<'_>) -> u64 {
        self.hash_of(&node.key_to_vec(), node.data)
    }

    /// The entries a row asks for: key, bookmark, hash.
    pub(crate) fn for_each_expected(&self, table: &Table, node: &Node<'_>, visit: VisitEntry<'_>) {
        let bookmark = node.key_to_vec();
        for key in keys::keys(table, &self.index, &Record::new(node.data, self.page_size)).unwrap_or_default()
        {
            visit(&key, &bookmark, self.hash_of(&key, &bookmark));
        }
    }

    /// `page` is where the entry should be.
    pub(crate) fn report_missing(
        &self,
        page: PageNumber,
        row_page: PageNumber,
        key: &[u8],
        findings: &mut Findings,
    ) {
        let what = format!("no entry {} for a row on page {row_page}", hex(key));
        findings.structure(FindingKind::IndexEntryMissing, page, &self.shape.label, what);
    }

    pub(crate) fn report_orphan(&self, page: PageNumber, key: &[u8], findings: &mut Findings) {
        let what = format!("entry {} is not what its row asks for", hex(key));
        findings.structure(FindingKind::IndexEntryOrphan, page, &self.shape.label, what);
    }
}
