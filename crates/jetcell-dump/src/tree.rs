//! Dump of a tree, page by page: levels, separators, and keys.

use std::fmt;

use ese_format::TreeId;
use ese_format::page::{Node, NodeFlags};
use jetcell_input::Printable;
use jetcell_input::hex::hex;
use serde::Serialize;

use crate::catalog::DumpedCatalog;
use crate::database::{AdaptivePageSet, DumpedDatabase};
use crate::output::DumpOutput;
use crate::page::{NodeDump, nodes, role};
use crate::values::short_key;
use crate::walk::{TreeWalk, VisitedPage, WalkStep};
use crate::{DumpSource, Result, UnusableReason};

/// Which tree to dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeSelector {
    /// The tree whose root is this page.
    Root(u32),
    /// The tree of this table.
    Table(String),
    /// An index's tree, given the names of the table and the index.
    Index(String, String),
    /// The long-value tree of this table.
    LongValues(String),
}

/// A page of the tree that is dumped.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "tree-page")]
struct TreePage {
    /// Level of the page; 0 for the root.
    level: u8,
    page: u32,
    parent: Option<u32>,
    /// Separator in the parent, which is greater than every key on this page. It is empty at the right edge.
    separator: String,
    role: String,
    tree: u32,
    node_count: usize,
    deleted: usize,
    free: usize,
    previous: u32,
    next: u32,
    first_key: Option<String>,
    last_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeDump>>,
    #[serde(skip)]
    keys: String,
}

/// Totals for one level of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct LevelSummary {
    level: usize,
    pages: u64,
    nodes: u64,
    deleted: u64,
    free_bytes: u64,
}

/// Totals for the whole tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "tree")]
struct TreeTotals {
    root: u32,
    name: Option<String>,
    levels: Vec<LevelSummary>,
    /// Number of leaf nodes that are not flagged as deleted.
    records: u64,
}

impl TreePage {
    fn new(visited: &VisitedPage, details: bool) -> TreePage {
        let page = visited.image.page();
        let key = |node: Option<Node<'_>>| node.map(|node| node.key_to_vec());
        let count = page.node_count();
        let first = key(page.node(0));
        let last = count.checked_sub(1).and_then(|last| key(page.node(last)));
        let shown = |key: &Option<Vec<u8>>| key.as_deref().map_or_else(|| "-".to_owned(), short_key);
        TreePage {
            level: visited.level,
            page: visited.image.number,
            parent: visited.parent,
            separator: hex(&visited.separator),
            role: role(page.flags()),
            tree: page.tree().0,
            node_count: count,
            deleted: page.nodes().filter(|node| node.flags.contains(NodeFlags::DELETED)).count(),
            free: page.free_bytes(),
            previous: page.prev().map_or(0, ese_format::PageNumber::get),
            next: page.next().map_or(0, ese_format::PageNumber::get),
            keys: format!("{} to {}", shown(&first), shown(&last)),
            first_key: first.as_deref().map(hex),
            last_key: last.as_deref().map(hex),
            nodes: details.then(|| nodes(&visited.image)),
        }
    }
}

impl fmt::Display for TreePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TreePage { page, role, node_count, deleted, free, keys, .. } = self;
        let indent = usize::from(self.level) * 2;
        write!(f, "{:indent$}page {page}  {role}, {node_count} nodes", "")?;
        if *deleted > 0 {
            write!(f, " ({deleted} deleted)")?;
        }
        write!(f, ", {free} free")?;
        if self.previous != 0 || self.next != 0 {
            write!(f, ", siblings {} and {}", self.previous, self.next)?;
        }
        if *node_count > 0 {
            write!(f, ", keys {keys}")?;
        }
        match &self.nodes {
            Some(nodes) => nodes.iter().try_for_each(|node| write!(f, "\n{:indent$}{node}", "")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TreeTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Printable(self.name.as_deref().unwrap_or("tree"));
        write!(
            f,
            "\n{name} from page {}: {} levels, {} records",
            self.root,
            self.levels.len(),
            self.records
        )?;
        for LevelSummary { level, pages, nodes, deleted, free_bytes } in &self.levels {
            write!(
                f,
                "\n  level {level}: {pages} pages, {nodes} nodes, {deleted} deleted, {free_bytes} bytes free"
            )?;
        }
        Ok(())
    }
}

/// Dumps the pages of a tree, including all nodes if `details` is true.
pub fn dump_tree(
    source: &DumpSource,
    choice: &TreeSelector,
    details: bool,
    output: &mut DumpOutput<'_>,
) -> Result<()> {
    let database = DumpedDatabase::open(source, output)?;
    let (root, tree, name) = match choice {
        TreeSelector::Root(root) => (*root, None, None),
        named => {
            let (root, tree, name) = find(&database, named, output)?;
            (root, Some(tree), Some(name))
        }
    };
    let mut summary = TreeTotals { root, name, ..TreeTotals::default() };
    let mut visited = AdaptivePageSet::new(database.pages);
    for step in TreeWalk::new(&database, root, tree, &mut visited) {
        match step {
            WalkStep::Page(visited) => {
                let page = TreePage::new(&visited, details);
                summary.add(&page, visited.image.page().is_leaf());
                output.item(&page)?;
            }
            WalkStep::Problem(problem) => output.problem(problem)?,
            WalkStep::Leaf => {}
        }
    }
    Ok(output.item(&summary)?)
}

impl TreeTotals {
    fn add(&mut self, page: &TreePage, leaf: bool) {
        let level = usize::from(page.level);
        while self.levels.len() <= level {
            self.levels.push(LevelSummary { level: self.levels.len(), ..LevelSummary::default() });
        }
        let (nodes, deleted) = (page.node_count as u64, page.deleted as u64);
        if let Some(summary) = self.levels.get_mut(level) {
            summary.pages += 1;
            summary.nodes += nodes;
            summary.deleted += deleted;
            summary.free_bytes += page.free as u64;
        }
        if leaf {
            self.records += nodes.saturating_sub(deleted);
        }
    }
}

fn find(
    database: &DumpedDatabase<'_>,
    choice: &TreeSelector,
    output: &mut DumpOutput<'_>,
) -> Result<(u32, TreeId, String)> {
    let table_name = match choice {
        TreeSelector::Table(table) | TreeSelector::Index(table, _) | TreeSelector::LongValues(table) => {
            table.as_str()
        }
        TreeSelector::Root(_) => "",
    };
    let mut found = None;
    let mut table_found = false;
    DumpedCatalog::open(database, output)?.for_each_table(output, &mut |table, _, _| {
        if !table.name.eq_ignore_ascii_case(table_name) {
            return Ok(());
        }
        table_found = true;
        found = match choice {
            TreeSelector::Index(_, name) => {
                let index = table.indexes.iter().find(|index| index.name.eq_ignore_ascii_case(name));
                index.map(|index| (index.root, index.tree, format!("{} / index {}", table.name, index.name)))
            }
            TreeSelector::LongValues(_) => {
                table.long_values.map(|(tree, root)| (root, tree, format!("{} / long values", table.name)))
            }
            _ => Some((table.root, table.tree, table.name.clone())),
        };
        Ok(())
    })?;
    if let Some((root, tree, name)) = found {
        return Ok((root.get(), tree, name));
    }
    let table = table_name.to_owned();
    Err(database.source.unusable_error(match choice {
        _ if !table_found => UnusableReason::NoTable(table),
        TreeSelector::Index(_, index) => UnusableReason::NoIndex { table, index: index.clone() },
        _ => UnusableReason::NoLongValues(table),
    }))
}
