//! The leaves of a tree from left to right: links between leaves, node order, and node visitors.
//!
//! A [`LeafSequence`] is the state after visiting some consecutive leaves. A sequence may start in the middle of a
//! tree. It is later joined to the preceding sequence, and the two leaves at the boundary are compared.

use std::cmp::Ordering;

use ese_format::page::{Node, NodeFlags, Page, PageFlags, validate};
use ese_format::{DbTime, PageNumber};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, hex};
use crate::pages::database::ReadableDatabase;
use crate::structure::tree_shape::{KIND_FLAGS, TreeShape};

/// Visitor that receives leaf nodes in order, except for nodes that are flagged as deleted.
pub(crate) trait NodeVisitor {
    fn visit(&mut self, page: PageNumber, node: &Node<'_>, findings: &mut Findings);
}

/// A visitor whose work can be divided among several threads.
pub(crate) trait ParallelVisitor: NodeVisitor + Send + Sized {
    /// Creates an empty visitor for leaves further to the right.
    fn fork(&self) -> Self;
    /// Adds the state of the visitor for the leaves that follow.
    fn join(&mut self, right: Self, findings: &mut Findings);
}

/// Everything needed to check a page, other than the page itself.
pub(crate) struct TreeContext<'a> {
    pub(crate) database: &'a ReadableDatabase,
    pub(crate) shape: &'a TreeShape,
    pub(crate) findings: &'a mut Findings,
    /// Highest dbtime that a page in a clean database can have.
    pub(crate) newest: DbTime,
}

impl TreeContext<'_> {
    fn report(&mut self, kind: FindingKind, page: PageNumber, what: String) {
        self.findings.add_structural(kind, page, &self.shape.label, what);
    }

    /// Checks the layout of a page.
    pub(crate) fn check_layout(&mut self, number: PageNumber, bytes: &[u8]) {
        if let Err(fault) = validate(bytes, self.database.page_size) {
            self.report(FindingKind::PageLayout, number, fault.to_string());
        }
    }

    /// Returns true if the page belongs to this tree.
    pub(crate) fn belongs(&self, page: &Page<'_>) -> bool {
        page.tree() == self.shape.tree && !page.flags().contains(PageFlags::EMPTY)
    }

    /// Checks the header of a page, except for its links.
    pub(crate) fn check_header(&mut self, number: PageNumber, page: &Page<'_>, depth: u32) {
        let (shape, flags) = (self.shape, page.flags());
        if page.tree() != shape.tree {
            let what = format!(
                "the page has object id {}, but the tree has object id {}",
                page.tree().0,
                shape.tree.0
            );
            self.report(FindingKind::PageObjectId, number, what);
        }
        if flags.contains(PageFlags::ROOT) != (depth == 0) {
            let what = if depth == 0 {
                "the root page is not flagged as root"
            } else {
                "a page below the root is flagged as root"
            };
            self.report(FindingKind::PageFlags, number, what.into());
        }
        if flags.contains(PageFlags::EMPTY) {
            self.report(FindingKind::PageFlags, number, "the page is flagged as empty".into());
        }
        let kind = flags & KIND_FLAGS;
        if kind != shape.kind {
            let what = format!(
                "the tree type in the page flags is {:#x}, expected {:#x}",
                kind.bits(),
                shape.kind.bits()
            );
            self.report(FindingKind::PageFlags, number, what);
        }
        if flags.contains(PageFlags::LEAF | PageFlags::PARENT_OF_LEAF) {
            let what = "the page is flagged leaf and parent of leaf".into();
            self.report(FindingKind::PageFlags, number, what);
        }
        // The header of a dirty database may be older than its pages.
        if self.database.must_be_consistent() && page.db_time() > self.newest {
            let what = format!(
                "page time {} is later than the time {} in the header",
                page.db_time().0,
                self.newest.0
            );
            self.report(FindingKind::PageTime, number, what);
        }
    }
}

/// Counts collected during one tree walk.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct WalkSummary {
    pub(crate) pages: u64,
    /// Number of leaf nodes that are not flagged as deleted.
    pub(crate) nodes: u64,
    pub(crate) deleted: u64,
    /// First page that contains a deleted node.
    pub(crate) first_deleted: Option<PageNumber>,
    /// Whether a page could not be read, which makes the counts too low.
    pub(crate) incomplete: bool,
}

/// State after visiting some consecutive leaves, for comparison with the next leaf.
pub(crate) struct LeafSequence {
    pub(crate) summary: WalkSummary,
    leaf_depth: Option<u32>,
    /// Last leaf, and the target of its right link. `None` before the first leaf and after a gap.
    last_leaf: Option<(PageNumber, Option<PageNumber>)>,
    /// Whether no leaf has been visited or skipped so far.
    at_start: bool,
    /// Key of the last node, followed by its data if the tree is ordered by the combination of key and data.
    last_key: Option<Vec<u8>>,
    /// First leaf, and the target of its left link.
    first_leaf: Option<(PageNumber, Option<PageNumber>)>,
    first_node: Option<FirstNode>,
}

/// First node of a sequence, for comparison with the last node of the preceding sequence.
struct FirstNode {
    page: PageNumber,
    /// Key of the node, in the same form as [`LeafSequence::last_key`].
    order: Vec<u8>,
    key: Vec<u8>,
}

impl LeafSequence {
    /// Creates a sequence that starts with the first leaf of the tree.
    pub(crate) fn at_tree_start() -> LeafSequence {
        LeafSequence { at_start: true, ..LeafSequence::within_tree() }
    }

    /// Creates a sequence that starts in the middle of the tree.
    pub(crate) fn within_tree() -> LeafSequence {
        LeafSequence {
            summary: WalkSummary::default(),
            leaf_depth: None,
            last_leaf: None,
            at_start: false,
            last_key: None,
            first_leaf: None,
            first_node: None,
        }
    }

    /// Skips part of the tree, after which the left sibling of the next leaf is unknown.
    pub(crate) fn skip_subtree(&mut self) {
        self.summary.incomplete = true;
        self.at_start = false;
        self.last_leaf = None;
    }

    /// Ends the sequence at the last leaf of the tree.
    pub(crate) fn finish(&self, context: &mut TreeContext<'_>) {
        if let Some((leaf, Some(next))) = self.last_leaf {
            let what = format!("the last leaf links to page {next} on its right");
            context.report(FindingKind::SiblingLink, leaf, what);
        }
    }

    fn check_depth(&mut self, context: &mut TreeContext<'_>, leaf: PageNumber, depth: u32) {
        let leaf_depth = *self.leaf_depth.get_or_insert(depth);
        if depth != leaf_depth {
            let what = format!("the leaf is at level {depth}, but the first leaf is at level {leaf_depth}");
            context.report(FindingKind::TreeShape, leaf, what);
        }
    }

    /// Checks the links between the last leaf and the next leaf.
    fn check_links(&mut self, context: &mut TreeContext<'_>, leaf: PageNumber, prev: Option<PageNumber>) {
        if let Some((left, next)) = self.last_leaf {
            if next != Some(leaf) {
                let raw = PageNumber::to_raw(next);
                let what = format!("the right link is {raw}, but the next leaf is page {leaf}");
                context.report(FindingKind::SiblingLink, left, what);
            }
            if prev != Some(left) {
                let raw = PageNumber::to_raw(prev);
                let what = format!("the left link is {raw}, but the previous leaf is page {left}");
                context.report(FindingKind::SiblingLink, leaf, what);
            }
        } else if let Some(prev) = prev.filter(|_| self.at_start) {
            let what = format!("the first leaf links to page {prev} on its left");
            context.report(FindingKind::SiblingLink, leaf, what);
        }
        self.at_start = false;
    }

    /// Adds the next leaf. The caller has checked that the page is a leaf of the tree.
    pub(crate) fn add_leaf(
        &mut self,
        context: &mut TreeContext<'_>,
        visitor: &mut impl NodeVisitor,
        (number, page, depth): (PageNumber, &Page<'_>, u32),
        (low, high): (Option<&[u8]>, Option<&[u8]>),
    ) {
        self.summary.pages += 1;
        self.check_depth(context, number, depth);
        self.check_links(context, number, page.prev());
        self.first_leaf.get_or_insert((number, page.prev()));
        self.last_leaf = Some((number, page.next()));
        let count = page.node_count();
        if count == 0 && depth > 0 {
            context.report(FindingKind::TreeShape, number, "a leaf below the root has no nodes".into());
        }
        let by_data = context.shape.non_unique();
        let order = |node: &Node<'_>, bound: &[u8]| {
            if by_data { node.cmp_key_data(bound) } else { node.cmp_key(bound) }
        };
        let outside = |node: &Node<'_>| {
            low.is_some_and(|low| order(node, low).is_lt())
                || high.is_some_and(|high| order(node, high).is_ge())
        };
        let (mut before, mut in_order, mut seen): (Option<Node<'_>>, bool, usize) = (None, true, 0);
        for node in page.nodes() {
            let above = match (&before, &self.last_key) {
                (Some(before), _) => is_greater(&node, before, by_data),
                (None, Some(last)) => order(&node, last).is_gt(),
                (None, None) => {
                    let mut whole = node.key_to_vec();
                    if by_data {
                        whole.extend_from_slice(node.data);
                    }
                    let first = FirstNode { page: number, order: whole, key: node.key_to_vec() };
                    self.first_node.get_or_insert(first);
                    true
                }
            };
            if !above {
                in_order = false;
                report_disorder(context, number, seen, &node.key_to_vec());
            }
            if node.flags.contains(NodeFlags::DELETED) {
                self.summary.deleted += 1;
                self.summary.first_deleted.get_or_insert(number);
            } else {
                self.summary.nodes += 1;
                visitor.visit(number, &node, context.findings);
            }
            before = Some(node);
            seen += 1;
        }
        if seen < count {
            context.report(FindingKind::NodeDamaged, number, format!("node {seen} cannot be decoded"));
            self.summary.incomplete = true;
        }
        // If all nodes are in order, checking only the first and last is enough. On a misplaced page, every node is
        // out of bounds, and only the first is reported.
        let doubtful = !in_order
            || page.node(0).is_some_and(|node| outside(&node))
            || before.is_some_and(|node| outside(&node));
        if doubtful && let Some((index, node)) = page.nodes().enumerate().find(|(_, node)| outside(node)) {
            let key = hex(&node.key_to_vec());
            let what = format!("node {index} ({key}) is outside the separators of the parent page");
            context.report(FindingKind::KeyOrder, number, what);
        }
        if let Some(node) = before {
            let key = self.last_key.get_or_insert_default();
            key.clear();
            node.append_key(key);
            if by_data {
                key.extend_from_slice(node.data);
            }
        }
    }

    /// Appends the sequence for the leaves that follow. `leaves` are that sequence's pages.
    pub(crate) fn join(
        &mut self,
        right: LeafSequence,
        leaves: impl Iterator<Item = PageNumber>,
        context: &mut TreeContext<'_>,
    ) {
        if let Some(depth) = right.leaf_depth {
            leaves.for_each(|leaf| self.check_depth(context, leaf, depth));
        }
        if let Some((leaf, prev)) = right.first_leaf {
            self.check_links(context, leaf, prev);
            self.first_leaf.get_or_insert((leaf, prev));
        }
        match (&self.last_key, right.first_node) {
            (Some(last), Some(first)) if first.order <= *last => {
                report_disorder(context, first.page, 0, &first.key);
            }
            (None, first) if self.first_node.is_none() => self.first_node = first,
            _ => {}
        }
        self.last_leaf = right.last_leaf.or(self.last_leaf);
        self.last_key = right.last_key.or_else(|| self.last_key.take());
        self.summary.pages += right.summary.pages;
        self.summary.nodes += right.summary.nodes;
        self.summary.deleted += right.summary.deleted;
        self.summary.incomplete |= right.summary.incomplete;
        self.summary.first_deleted = self.summary.first_deleted.or(right.summary.first_deleted);
    }
}

fn report_disorder(context: &mut TreeContext<'_>, page: PageNumber, index: usize, key: &[u8]) {
    let what = format!("node {index} ({}) is not greater than the previous node", hex(key));
    context.report(FindingKind::KeyOrder, page, what);
}

/// Returns true if the node is greater than `before`, the previous node on the same page.
fn is_greater(node: &Node<'_>, before: &Node<'_>, by_data: bool) -> bool {
    // Both nodes start with bytes from the page's prefix, so they are equal up to the shorter of the two prefix
    // lengths.
    if node.prefix.len() == before.prefix.len() {
        match compare_starts(node.suffix, before.suffix) {
            Ordering::Equal if node.suffix.len() == before.suffix.len() => {
                return by_data && node.data > before.data;
            }
            Ordering::Equal if !by_data => return node.suffix.len() > before.suffix.len(),
            Ordering::Equal => {}
            different => return different.is_gt(),
        }
    }
    let mut last = before.key_to_vec();
    if by_data {
        last.extend_from_slice(before.data);
        return node.cmp_key_data(&last).is_gt();
    }
    node.cmp_key(&last).is_gt()
}

/// Compares two slices over the length of the shorter one.
fn compare_starts(a: &[u8], b: &[u8]) -> Ordering {
    let shared = a.len().min(b.len());
    a.get(..shared).cmp(&b.get(..shared))
}
