//! Checks the structure of a database: each tree in the catalog, its space, and its contents.
//!
//! Parents are checked before their children: first the database root, then each table, followed by its secondary
//! indexes and its long values. At the end, each owned page must have exactly one use ([`space`]).

pub(crate) mod catalog;
pub(crate) mod hash;
pub(crate) mod index;
pub(crate) mod key_filter;
pub(crate) mod keys;
pub(crate) mod leaf;
pub(crate) mod leaf_workers;
pub(crate) mod locate;
pub(crate) mod long_values;
pub(crate) mod page_map;
pub(crate) mod read_ahead;
pub(crate) mod records;
pub(crate) mod space;
pub(crate) mod tree;
pub(crate) mod tree_shape;

use std::collections::{BTreeMap, HashMap};

use ese_format::record::Record;
use ese_format::{PageNumber, TreeId};
use serde::Serialize;

use self::catalog::{CATALOG, CheckedTable, SHADOW, catalog_shape};
use self::index::{EntryVisitor, IndexCheck};
use self::key_filter::KeyFilter;
use self::leaf::{ParallelVisitor, WalkSummary};
use self::leaf_workers::walk_parallel;
use self::long_values::{LongValueCheck, LongValueReferences, ReferenceCounts};
use self::page_map::{PageMap, PageUse, TreeIndex};
use self::read_ahead::LeafReadAhead;
use self::records::RowCheck;
use self::space::{CheckedTree, check_partition, check_tree_space};
use self::tree::{TreeWalker, VisitNode, walk};
use self::tree_shape::TreeShape;
use crate::findings::Findings;
use crate::findings::finding::FindingKind;
use crate::findings::tree_label::DATABASE;
use crate::options::{CheckPhase, CheckProgress, CheckProgressFn};
use crate::pages::database::ReadableDatabase;
use crate::pages::page_status::PageCounts;
use crate::pages::reader::VerifiedPageReader;
use crate::pages::verified_pages::VerifiedPages;

/// Limits for the additional walks that compare an index's entries in parts when its sums differ: entries per part,
/// maximum number of parts, and maximum number of differences to report per part.
const ENTRIES_PER_PART: u64 = 1 << 20;
const MAX_PARTS: u64 = 64;
const MAX_REPORTED_ENTRIES: usize = 20_000;

/// Number of root pages that a tree has, including those of its space trees.
const ROOTS_PER_TREE: u32 = 3;

/// Summary of a database's trees and tables.
#[derive(Clone, Default, Debug, Serialize)]
pub struct StructureSummary {
    /// Number of trees that were walked, not including the database root and the space trees.
    pub trees: u64,
    /// Contents of each table, in catalog order.
    pub tables: Vec<TableSummary>,
}

/// Summary of one table: its name, and counts of its pages, rows, index entries and long values.
#[derive(Clone, Default, Debug, Serialize)]
pub struct TableSummary {
    /// Name of the table.
    pub name: String,
    /// Number of pages in the table's own tree, not including indexes, long values, and space trees.
    pub pages: u64,
    /// Number of records.
    pub rows: u64,
    /// Number of nodes that are flagged as deleted but not yet removed.
    pub deleted_nodes: u64,
    /// Number of entries in each secondary index.
    pub indexes: BTreeMap<String, u64>,
    /// Number of long values.
    pub long_values: u64,
}

/// State shared by the steps of a structure check.
struct StructureCheck<'a, 'd> {
    reader: VerifiedPageReader<'d>,
    /// Read-ahead for the trees of all tables.
    read_ahead: LeafReadAhead,
    findings: &'a mut Findings,
    map: PageMap,
    /// Filter from an earlier table, which can be reused.
    keys: Option<KeyFilter>,
    trees: Vec<CheckedTree>,
    summary: StructureSummary,
}

/// Result of walking all trees.
pub(crate) struct CheckedStructure {
    /// Counts of the trees' contents.
    pub(crate) summary: StructureSummary,
    map: PageMap,
    trees: Vec<CheckedTree>,
}

impl CheckedStructure {
    /// Reports damage to available pages as information only, and corrects `counts`.
    pub(crate) fn report_available_pages(&self, counts: &mut PageCounts, findings: &mut Findings) {
        let owner = |page| match self.map.state(page)?.used {
            PageUse::Available(tree) => Some(self.trees.get(tree.0 as usize)?.shape.label.clone()),
            PageUse::None | PageUse::Tree(_) => None,
        };
        counts.count_leftovers(&findings.report_available_pages(owner));
    }
}

/// Walks all trees and reports errors. If `verified_pages` is present, adds each page that the walk reads.
pub(crate) fn check_structure(
    database: &ReadableDatabase,
    last_owned: u32,
    verified_pages: &mut Option<VerifiedPages>,
    findings: &mut Findings,
    progress: Option<&CheckProgressFn>,
) -> CheckedStructure {
    let mut reader = VerifiedPageReader::new(database);
    *reader.verified_pages() = verified_pages.take();
    let mut check = StructureCheck {
        reader,
        read_ahead: LeafReadAhead::default(),
        findings,
        map: PageMap::new(last_owned),
        keys: None,
        trees: Vec::new(),
        summary: StructureSummary::default(),
    };
    let catalog = catalog::load(&mut check.reader, check.findings);
    let root = check.add(TreeShape::database_root(), None);
    check.walk(root, &mut |page, _, findings| {
        findings.add_structural(
            FindingKind::NodeDamaged,
            page,
            DATABASE,
            "the database root contains nodes".into(),
        );
    });
    check.space(root);
    if !catalog.complete {
        // Trees that the catalog does not list also own pages.
        check.trees[0].incomplete = true;
        // Damaged pages of a catalog that does not list itself are reported, too.
        let listed = |tree: TreeId| catalog.tables.iter().any(|table| table.tree == tree);
        for missing in [CATALOG, SHADOW].into_iter().filter(|(_, tree, _)| !listed(*tree)) {
            let tree = check.add(catalog_shape(missing), Some(root));
            check.walk(tree, &mut |_, _, _| {});
            check.space(tree);
        }
    }
    check.read_ahead = LeafReadAhead::new(catalog.tables.iter().flat_map(CheckedTable::trees).collect());
    let total = catalog.tables.len() as u64;
    for (done, table) in catalog.tables.iter().enumerate() {
        if check.reader.database.pace.is_cancelled() {
            break;
        }
        check.read_ahead(catalog.tables.get(done..).unwrap_or_default());
        check.table(table, root);
        if let Some(progress) = progress {
            progress(CheckProgress { phase: CheckPhase::Structure, done: done as u64 + 1, total });
        }
    }
    if !check.reader.database.pace.is_cancelled() {
        check_partition(check.findings, &check.map, &check.trees);
    }
    if let Some(judged) = check.reader.verified_pages() {
        judged.report(check.findings);
    }
    *verified_pages = check.reader.verified_pages().take();
    CheckedStructure { summary: check.summary, map: check.map, trees: check.trees }
}

impl StructureCheck<'_, '_> {
    fn add(&mut self, shape: TreeShape, parent: Option<TreeIndex>) -> TreeIndex {
        let index = TreeIndex(self.trees.len() as u32);
        self.trees.push(CheckedTree { shape, parent, incomplete: false });
        index
    }

    /// Walks one of the listed trees and claims its pages.
    fn walk(&mut self, index: TreeIndex, visit: VisitNode<'_>) -> WalkSummary {
        self.walk_by(index, |walker, shape| {
            walker.read_ahead = None;
            (walk(walker, shape, visit), ())
        })
        .0
    }

    /// Walks one of the listed trees using several threads and claims its pages.
    fn walk_parallel<V: ParallelVisitor>(&mut self, index: TreeIndex, visitor: V) -> (WalkSummary, V) {
        self.walk_by(index, |walker, shape| walk_parallel(walker, shape, visitor))
    }

    fn walk_by<T>(
        &mut self,
        index: TreeIndex,
        walk: impl FnOnce(&mut TreeWalker<'_, '_>, &TreeShape) -> (WalkSummary, T),
    ) -> (WalkSummary, T) {
        let newest = self.reader.database.header.db_time;
        let entry = &mut self.trees[index.0 as usize];
        let mut walker = TreeWalker {
            reader: &mut self.reader,
            findings: self.findings,
            claims: Some((&mut self.map, index)),
            newest,
            read_ahead: Some(&mut self.read_ahead),
        };
        let (summary, rest) = walk(&mut walker, &entry.shape);
        entry.incomplete |= summary.incomplete;
        if let Some(page) = summary.first_deleted {
            let what =
                format!("{} deleted nodes were not removed; the first is on this page", summary.deleted);
            self.findings.add_info(FindingKind::DeletedNodes, page, &entry.shape.label, what);
        }
        self.summary.trees += 1;
        (summary, rest)
    }

    /// Walks a tree again, only for its contents. The first walk has already reported any damage.
    fn walk_again(
        &mut self,
        shape: &TreeShape,
        visit: &mut dyn FnMut(PageNumber, &ese_format::page::Node<'_>),
    ) {
        let newest = self.reader.database.header.db_time;
        let mut unreported = Findings::new(&self.reader.database.path);
        let mut walker = TreeWalker {
            reader: &mut self.reader,
            findings: &mut unreported,
            claims: None,
            newest,
            read_ahead: None,
        };
        walk(&mut walker, shape, &mut |page, node, _| visit(page, node));
    }

    fn space(&mut self, index: TreeIndex) {
        check_tree_space(&mut self.reader, self.findings, &mut self.map, &mut self.trees, index);
    }

    /// Starts reading the first pages of the next table's trees, so that the walk does not have to wait for single
    /// pages.
    fn read_ahead(&mut self, tables: &[CheckedTable]) {
        let roots = tables.iter().take(2).flat_map(CheckedTable::trees).map(|(root, _)| root);
        // The roots of a tree's space trees usually follow the root of the tree.
        let places = roots.flat_map(|root| (0..ROOTS_PER_TREE).map(move |place| root.plus(place)));
        self.reader.prefetch(places);
    }

    fn table(&mut self, table: &CheckedTable, root: TreeIndex) {
        let shape = table.shape();
        let main = self.add(shape.clone(), Some(root));
        let page_size = self.reader.database.page_size;
        let keys = self.empty_filter(table);
        let (walked, rows) = self.walk_parallel(main, RowCheck::new(table, page_size, &keys));
        self.space(main);
        let mut summary = TableSummary {
            name: table.name.clone(),
            pages: walked.pages,
            rows: walked.nodes,
            deleted_nodes: walked.deleted,
            ..TableSummary::default()
        };
        let mut indexes = Vec::with_capacity(rows.indexes.len());
        for index in rows.indexes {
            let tree = self.add(index.shape(), Some(main));
            let visitor = EntryVisitor::new(index, &keys, !walked.incomplete);
            let (walked_index, EntryVisitor { check: mut index, .. }) = self.walk_parallel(tree, visitor);
            self.space(tree);
            summary.indexes.insert(index.name().to_owned(), walked_index.nodes);
            // The sums do not include rows or entries on unreadable pages.
            if !walked.incomplete && !walked_index.incomplete {
                self.compare_rows_and_entries(&shape, &mut index);
            }
            indexes.push(index);
        }
        if walked.incomplete {
            self.report_unreadable_rows(table, &indexes);
        }
        let mut long_values = LongValueCheck::new(table, page_size);
        let (mut complete, mut chunks_unreadable) = (!walked.incomplete, false);
        if let Some(shape) = table.long_value_shape() {
            let tree = self.add(shape, Some(main));
            let (walked, visitor) = self.walk_parallel(tree, long_values);
            long_values = visitor;
            self.space(tree);
            chunks_unreadable = walked.incomplete;
            complete &= !walked.incomplete;
        }
        long_values.finish(self.findings);
        summary.long_values = long_values.roots();
        if chunks_unreadable {
            self.report_unreadable_values(table, &long_values, &rows.references);
        } else if complete && !long_values.references_match(&rows.references) {
            self.check_reference_counts(table, &long_values, &rows.references);
        }
        self.summary.tables.push(summary);
        if !table.indexes.is_empty() {
            self.keys = Some(keys);
        }
    }

    /// Returns an empty filter for the keys of a table's rows. The filter is minimal if the table does not have
    /// indexes, which are the only users of the keys.
    fn empty_filter(&mut self, table: &CheckedTable) -> KeyFilter {
        if table.indexes.is_empty() {
            return KeyFilter::new(0);
        }
        // Reusing memory is faster than allocating it.
        let used = self.keys.take().map(KeyFilter::cleared);
        used.unwrap_or_else(|| KeyFilter::new(self.database_len()))
    }

    fn database_len(&self) -> u64 {
        u64::from(self.map.pages()) * self.reader.database.page_size.bytes() as u64
    }

    /// Reports rows on unreadable pages that still have index entries.
    fn report_unreadable_rows(&mut self, table: &CheckedTable, indexes: &[IndexCheck<'_>]) {
        let Some((rows, index)) =
            indexes.iter().filter_map(|index| Some((index.unreadable_rows()?, index.name()))).max()
        else {
            return;
        };
        if rows > 0 {
            let are = if rows == 1 { "row is" } else { "rows are" };
            let what = format!("{rows} {are} unreadable; index {index} still has entries for them");
            self.findings.add_structural(FindingKind::RowsUnreadable, table.root, &table.name, what);
        }
    }

    /// Reports how many values in readable rows are at least partly on unreadable pages.
    fn report_unreadable_values(
        &mut self,
        table: &CheckedTable,
        long_values: &LongValueCheck,
        rows: &LongValueReferences,
    ) {
        let mut lost = 0;
        if !self
            .for_each_part(table, long_values, rows, |account, _| lost += account.missing_value_references())
        {
            return;
        }
        if lost > 0 {
            let are = if lost == 1 { "value is" } else { "values are" };
            let what = format!(
                "{lost} long {are} missing or incomplete, but the rows that contain them are readable"
            );
            let label = format!("{} / long values", table.name);
            let root = table.long_value_shape().map(|shape| shape.root);
            self.findings.add_structural(FindingKind::ValuesUnreadable, root, &label, what);
        }
    }

    /// Reports the long values whose reference counts are wrong.
    fn check_reference_counts(
        &mut self,
        table: &CheckedTable,
        long_values: &LongValueCheck,
        rows: &LongValueReferences,
    ) {
        let compare = |account: &ReferenceCounts, findings: &mut Findings| account.compare(table, findings);
        if !self.for_each_part(table, long_values, rows, compare) {
            let what = "the reference counts do not match the references in the records, and there are too \
             many long values to identify the wrong counts";
            let label = format!("{} / long values", table.name);
            self.findings.add_structural(FindingKind::LongValueReferences, None, &label, what.to_owned());
        }
    }

    /// Counts the references to all of a table's long values, part by part. Returns false if there are too many long
    /// values.
    fn for_each_part(
        &mut self,
        table: &CheckedTable,
        long_values: &LongValueCheck,
        references: &LongValueReferences,
        mut each: impl FnMut(&ReferenceCounts, &mut Findings),
    ) -> bool {
        let page_size = self.reader.database.page_size;
        let parts = ReferenceCounts::parts(long_values.roots(), references);
        if parts > MAX_PARTS {
            return false;
        }
        for part in 0..parts {
            let mut account = ReferenceCounts::new(part, parts, long_values.chunk_len());
            if let Some(shape) = table.long_value_shape() {
                self.walk_again(&shape, &mut |page, node| account.count(page, node));
            }
            self.walk_again(&table.shape(), &mut |_, node| {
                account.add_references(&Record::new(node.data, page_size));
            });
            each(&account, self.findings);
        }
        true
    }

    /// If the sums for the rows and the entries of an index differ, reports which rows and entries do not match.
    fn compare_rows_and_entries(&mut self, shape: &TreeShape, index: &mut IndexCheck<'_>) {
        if index.sums_match() {
            return;
        }
        let parts = index.entries().div_ceil(ENTRIES_PER_PART).max(1);
        if parts > MAX_PARTS {
            return index.report_disagreement(self.findings);
        }
        for part in 0..parts {
            self.compare_part(shape, index, &|hash| hash % parts == part);
        }
    }

    /// Reports the differences among the entries whose hashes belong to one part.
    fn compare_part(
        &mut self,
        shape: &TreeShape,
        index: &mut IndexCheck<'_>,
        concerns: &dyn Fn(u64) -> bool,
    ) {
        // Index entries that have not been matched to a row yet.
        let mut open: HashMap<u64, i64> = HashMap::new();
        self.walk_again(&index.shape(), &mut |_, node| {
            let hash = index.entry_hash(node);
            if concerns(hash) {
                *open.entry(hash).or_default() += 1;
            }
        });
        let (mut missing, mut all_missing) = (Vec::new(), 0);
        self.walk_again(shape, &mut |page, node| {
            index.for_each_expected(node, &mut |key, bookmark, hash| match open
                .get_mut(&hash)
                .filter(|count| **count > 0)
            {
                Some(count) => *count -= 1,
                None if concerns(hash) => {
                    all_missing += 1;
                    if all_missing <= MAX_REPORTED_ENTRIES {
                        missing.push((page, key.to_vec(), bookmark.to_vec()));
                    }
                }
                None => {}
            });
        });
        for (row_page, key, bookmark) in missing {
            let page = self::tree::find_leaf(&mut self.reader, &index.shape(), &key, &bookmark);
            index.report_missing(page, row_page, &key, self.findings);
        }
        let mut orphans = Vec::new();
        self.walk_again(&index.shape(), &mut |page, node| {
            if orphans.len() < MAX_REPORTED_ENTRIES
                && let Some(count) = open.get_mut(&index.entry_hash(node)).filter(|count| **count > 0)
            {
                *count -= 1;
                orphans.push((page, node.key_to_vec()));
            }
        });
        if open.values().any(|count| *count > 0) || all_missing > MAX_REPORTED_ENTRIES {
            index.report_disagreement(self.findings);
        }
        for (page, key) in orphans {
            index.report_orphan(page, &key, self.findings);
        }
    }
}
