//! Traversal of a tree: parents before children, from left to right.
//!
//! Invariants: a page is entered at most once, and at most [`MAX_LEVEL`] levels deep, so a walk terminates even if
//! links are damaged. A walk needs one bit of memory per page in the file, plus memory for the entries on the current
//! path. If several walks share a set of entered pages, only one of them enters each page.

use ese_format::TreeId;
use ese_format::page::{Page, PageFlags};

use crate::database::{AdaptivePageSet, DumpedDatabase, LoadedPage};
use crate::output::DumpProblem;

/// Maximum depth of a walk. A valid tree of 2^32 pages is not this deep.
const MAX_LEVEL: u8 = 24;

/// A page visited by a walk, with its position in the tree.
pub(crate) struct VisitedPage {
    pub(crate) image: LoadedPage,
    /// Level of the page; 0 for the root.
    pub(crate) level: u8,
    pub(crate) parent: Option<u32>,
    /// Key of the entry in the parent. It is empty for the rightmost entry.
    pub(crate) separator: Vec<u8>,
}

/// Result of one step in a walk.
pub(crate) enum WalkStep {
    Page(VisitedPage),
    /// A leaf, which was not read.
    Leaf,
    Problem(DumpProblem),
}

struct PendingPage {
    page: u32,
    level: u8,
    parent: Option<u32>,
    separator: Vec<u8>,
    /// Whether the parent's flags say that this page is a leaf.
    leaf: bool,
}

/// A walk through one tree.
pub(crate) struct TreeWalk<'d, 's> {
    database: &'d DumpedDatabase<'s>,
    /// Tree id that all pages must have.
    tree: Option<TreeId>,
    leaves: bool,
    visited: &'d mut AdaptivePageSet,
    stack: Vec<PendingPage>,
    problems: Vec<DumpProblem>,
}

impl<'d, 's> TreeWalk<'d, 's> {
    /// Creates a walk that starts at `root` and enters only pages that are not in `visited` yet. If `tree` is absent,
    /// all pages must have the root's tree id.
    pub(crate) fn new(
        database: &'d DumpedDatabase<'s>,
        root: u32,
        tree: Option<TreeId>,
        visited: &'d mut AdaptivePageSet,
    ) -> TreeWalk<'d, 's> {
        let first = PendingPage { page: root, level: 0, parent: None, separator: Vec::new(), leaf: false };
        TreeWalk { database, tree, leaves: true, visited, stack: vec![first], problems: Vec::new() }
    }

    /// Makes the walk return leaves below the root as [`WalkStep::Leaf`], without reading them.
    pub(crate) fn without_leaves(mut self) -> TreeWalk<'d, 's> {
        self.leaves = false;
        self
    }

    fn enter(&mut self, pending: PendingPage) -> WalkStep {
        let PendingPage { page: number, level, parent, separator, leaf } = pending;
        let from = parent.map_or_else(String::new, |parent| format!(", although page {parent} refers to it"));
        let problem =
            |message: String| WalkStep::Problem(DumpProblem { offset: None, page: Some(number), message });
        if level > MAX_LEVEL {
            return problem(format!("the tree is deeper than {MAX_LEVEL} levels; the page is skipped"));
        }
        if number > self.database.pages {
            return problem(format!("the page is past the end of the file{from}; its contents are missing"));
        }
        if !self.visited.insert(number) {
            return problem(format!(
                "the page is already part of a tree{from}; the second occurrence is skipped"
            ));
        }
        if leaf && !self.leaves {
            return WalkStep::Leaf;
        }
        let image = self.database.page(number);
        if !image.state.is_good() {
            return problem(format!("the page {}{from}; its contents are missing", image.state.reason()));
        }
        let page = image.page();
        let tree = *self.tree.get_or_insert(page.tree());
        if page.tree() != tree {
            let found = page.tree().0;
            return problem(format!("the page belongs to tree {found}, not {}{from}; it is skipped", tree.0));
        }
        if !page.is_leaf() {
            self.descend(number, level, &page);
        }
        WalkStep::Page(VisitedPage { image, level, parent, separator })
    }

    fn descend(&mut self, number: u32, level: u8, page: &Page<'_>) {
        let leaf = page.flags().contains(PageFlags::PARENT_OF_LEAF);
        let mut bad = |message: String| {
            self.problems.push(DumpProblem { offset: None, page: Some(number), message });
        };
        let before = self.stack.len();
        for index in 0..page.node_count() {
            let Some(node) = page.node(index) else {
                bad(format!("node {index} cannot be decoded; the pages below it are missing"));
                continue;
            };
            let Some(child) = node.child() else {
                bad(format!("node {index} does not have a child page; the pages below it are missing"));
                continue;
            };
            self.stack.push(PendingPage {
                page: child.get(),
                level: level + 1,
                parent: Some(number),
                separator: node.key_to_vec(),
                leaf,
            });
        }
        // The page pushed last is entered first.
        if let Some(children) = self.stack.get_mut(before..) {
            children.reverse();
        }
    }
}

impl Iterator for TreeWalk<'_, '_> {
    type Item = WalkStep;

    fn next(&mut self) -> Option<WalkStep> {
        if let Some(problem) = self.problems.pop() {
            return Some(WalkStep::Problem(problem));
        }
        let pending = self.stack.pop()?;
        Some(self.enter(pending))
    }
}
