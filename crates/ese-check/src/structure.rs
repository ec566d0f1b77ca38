//! What the pages of a database mean together: every tree the catalog names, its space, its contents.
//!
//! Trees are taken parents first: the database root, then each table followed by its secondary indexes and its
//! long values. At the end every owned page has to have exactly one use ([`crate::space`]).

use std::collections::{BTreeMap, HashMap};

use ese_format::page::PageFlags;
use ese_format::{PageNumber, TreeId};
use serde::Serialize;

use crate::catalog::{self, Table};
use crate::database::Database;
use crate::finding::{DATABASE, FindingKind, Findings};
use crate::index::IndexCheck;
use crate::judged::JudgedPages;
use crate::key_filter::KeyFilter;
use crate::long_values::LongValueCheck;
use crate::page_map::{PageMap, TreeIndex};
use crate::reader::PageReader;
use crate::records::RowCheck;
use crate::space::{TreeEntry, check_partition, check_tree_space};
use crate::tree::{TreeShape, TreeSummary, Visit, Walker, walk};
use crate::{Phase, Progress, ProgressFn};

/// What the trees hold.
#[derive(Clone, Default, Debug, Serialize)]
pub struct StructureSummary {
    /// Trees walked, the database root and the space trees not counted.
    pub trees: u64,
    /// Every table, in catalog order.
    pub tables: Vec<TableSummary>,
}

/// What one table holds.
#[derive(Clone, Default, Debug, Serialize)]
pub struct TableSummary {
    /// Its name.
    pub name: String,
    /// Pages of its tree, without indexes, long values and space trees.
    pub pages: u64,
    /// Records.
    pub rows: u64,
    /// Nodes flagged deleted and not yet removed.
    pub deleted_nodes: u64,
    /// Entries of each secondary index.
    pub indexes: BTreeMap<String, u64>,
    /// Long values.
    pub long_values: u64,
}

/// The tree on page 1, from which all pages come. ESE: system root.
pub(crate) fn database_root() -> TreeShape {
    TreeShape {
        root: PageNumber::fixed(1),
        tree: TreeId(1),
        kind: PageFlags::empty(),
        label: DATABASE.to_owned(),
    }
}

/// Everything that the steps of a structure check share.
struct StructureCheck<'a, 'd> {
    reader: PageReader<'d>,
    findings: &'a mut Findings,
    map: PageMap,
    trees: Vec<TreeEntry>,
    summary: StructureSummary,
}

/// Walks everything; findings are the result, the summary tells how much there was. The pages it reads are added to
/// `judged`, if that is there.
pub(crate) fn check_structure(
    database: &Database,
    last_owned: u32,
    judged: &mut Option<JudgedPages>,
    findings: &mut Findings,
    progress: Option<&ProgressFn>,
) -> StructureSummary {
    let mut reader = PageReader::new(database);
    reader.judged = judged.take();
    let mut check = StructureCheck {
        reader,
        findings,
        map: PageMap::new(last_owned),
        trees: Vec::new(),
        summary: StructureSummary::default(),
    };
    let catalog = catalog::load(&mut check.reader, check.findings);
    let root = check.add(database_root(), None);
    check.walk(root, &mut |page, _, findings| {
        findings.structure(FindingKind::NodeDamaged, page, DATABASE, "the database root has nodes".into())
    });
    check.space(root);
    if !catalog.complete {
        // Trees we do not know of own pages, too.
        check.trees[0].incomplete = true;
    }
    let total = catalog.tables.len() as u64;
    for (done, table) in catalog.tables.iter().enumerate() {
        if check.reader.database.pace.is_cancelled() {
            break;
        }
        check.table(table, root);
        if let Some(progress) = progress {
            progress(Progress { phase: Phase::Structure, done: done as u64 + 1, total });
        }
    }
    if !check.reader.database.pace.is_cancelled() {
        check_partition(check.findings, &check.map, &check.trees);
    }
    if let Some(judged) = &mut check.reader.judged {
        judged.report(check.findings);
    }
    *judged = check.reader.judged.take();
    check.summary
}

impl StructureCheck<'_, '_> {
    fn add(&mut self, shape: TreeShape, parent: Option<TreeIndex>) -> TreeIndex {
        let index = TreeIndex(self.trees.len() as u32);
        self.trees.push(TreeEntry { shape, parent, incomplete: false });
        index
    }

    /// Walks a tree of the list, claiming its pages.
    fn walk(&mut self, index: TreeIndex, visit: Visit<'_>) -> TreeSummary {
        let newest = self.reader.database.header.db_time;
        let entry = &mut self.trees[index.0 as usize];
        let mut walker = Walker {
            reader: &mut self.reader,
            findings: self.findings,
            claims: Some((&mut self.map, index)),
            newest,
        };
        let summary = walk(&mut walker, &entry.shape, visit);
        entry.incomplete |= summary.incomplete;
        if let Some(page) = summary.first_deleted {
            let what =
                format!("{} deleted nodes were not removed; the first is on this page", summary.deleted);
            self.findings.info(FindingKind::DeletedNodes, page, &entry.shape.label, what);
        }
        self.summary.trees += 1;
        summary
    }

    /// Walks a tree again for its contents only; what is wrong with its pages was reported.
    fn walk_again(
        &mut self,
        shape: &TreeShape,
        visit: &mut dyn FnMut(PageNumber, &ese_format::page::Node<'_>),
    ) {
        let newest = self.reader.database.header.db_time;
        let mut unreported = Findings::new(&self.reader.database.path);
        let mut walker = Walker { reader: &mut self.reader, findings: &mut unreported, claims: None, newest };
        walk(&mut walker, shape, &mut |page, node, _| visit(page, node));
    }

    fn space(&mut self, index: TreeIndex) {
        check_tree_space(&mut self.reader, self.findings, &mut self.map, &mut self.trees, index);
    }

    fn table(&mut self, table: &Table, root: TreeIndex) {
        let shape = table.shape();
        let main = self.add(shape.clone(), Some(root));
        let page_size = self.reader.database.page_size;
        let mut indexes: Vec<IndexCheck> =
            table.indexes.iter().map(|index| IndexCheck::new(table, index, page_size)).collect();
        let mut rows = RowCheck::new(table, page_size);
        // Nobody asks for the keys of a table without indexes.
        let database_len = if indexes.is_empty() { 0 } else { self.database_len() };
        let mut keys = KeyFilter::new(database_len);
        let walked = self.walk(main, &mut |page, node, findings| {
            keys.add(&node.key_to_vec());
            rows.visit(page, node, &mut indexes, findings);
        });
        self.space(main);
        let mut summary = TableSummary {
            name: table.name.clone(),
            pages: walked.pages,
            rows: walked.nodes,
            deleted_nodes: walked.deleted,
            ..TableSummary::default()
        };
        for index in &mut indexes {
            let tree = self.add(index.shape(), Some(main));
            let walked_index = self.walk(tree, &mut |page, node, findings| {
                index.visit(page, node, &keys, !walked.incomplete, findings);
            });
            self.space(tree);
            summary.indexes.insert(index.name().to_owned(), walked_index.nodes);
            // What could not be read is missing on either side.
            if !walked.incomplete && !walked_index.incomplete {
                self.reconcile(table, &shape, index);
            }
        }
        if walked.incomplete {
            self.report_unreadable_rows(table, &indexes);
        }
        let mut long_values = LongValueCheck::new(table, page_size);
        let mut complete = !walked.incomplete;
        if let Some(shape) = table.long_value_shape() {
            let tree = self.add(shape, Some(main));
            let walked = self.walk(tree, &mut |page, node, findings| long_values.visit(page, node, findings));
            self.space(tree);
            complete &= !walked.incomplete;
        }
        summary.long_values = long_values.finish(rows.long_value_references(), complete, self.findings);
        self.summary.tables.push(summary);
    }

    fn database_len(&self) -> u64 {
        u64::from(self.map.pages()) * self.reader.database.page_size.bytes() as u64
    }

    /// Rows that are lost with their pages are still known to the indexes.
    fn report_unreadable_rows(&mut self, table: &Table, indexes: &[IndexCheck]) {
        let Some((rows, index)) =
            indexes.iter().filter_map(|index| Some((index.unreadable_rows()?, index.name()))).max()
        else {
            return;
        };
        if rows > 0 {
            let are = if rows == 1 { "row is" } else { "rows are" };
            let what = format!("{rows} {are} unreadable; index {index} still has entries for them");
            self.findings.structure(FindingKind::RowsUnreadable, table.root, &table.name, what);
        }
    }

    /// Names the rows and entries that differ, if rows and entries of an index do not add up to the same.
    fn reconcile(&mut self, table: &Table, shape: &TreeShape, index: &mut IndexCheck) {
        if index.agrees() {
            return;
        }
        // How often each expected entry was not met yet.
        let mut open: HashMap<u64, i64> = HashMap::new();
        self.walk_again(&index.shape(), &mut |_, node| {
            *open.entry(index.entry_hash(node)).or_default() += 1;
        });
        let mut missing = Vec::new();
        self.walk_again(shape, &mut |page, node| {
            index.for_each_expected(table, node, &mut |key, bookmark, hash| match open
                .get_mut(&hash)
                .filter(|count| **count > 0)
            {
                Some(count) => *count -= 1,
                None => missing.push((page, key.to_vec(), bookmark.to_vec())),
            });
        });
        for (row_page, key, bookmark) in missing {
            let page = crate::tree::leaf_for(&mut self.reader, &index.shape(), &key, &bookmark);
            index.report_missing(page, row_page, &key, self.findings);
        }
        let mut orphans = Vec::new();
        self.walk_again(&index.shape(), &mut |page, node| {
            if let Some(count) = open.get_mut(&index.entry_hash(node)).filter(|count| **count > 0) {
                *count -= 1;
                orphans.push((page, node.key_to_vec()));
            }
        });
        for (page, key) in orphans {
            index.report_orphan(page, &key, self.findings);
        }
    }
}
