//! Checks one B+ tree: pages, key order, sibling links, separators, and flags.
//!
//! The rules are described in the section on trees in `docs/internals/formats/pages.md`. An internal entry (S, child)
//! covers the keys from the previous entry's separator up to but not including S. An empty S means infinity and occurs
//! only at the right edge. The last entry of any other internal page repeats the separator from its parent. Only
//! leaves have siblings. All leaves are at the same depth.
//!
//! The leaves of large trees are read and checked by several threads (`leaf_workers`). This module does everything
//! else.
//!
//! Invariants: a walk enters each page at most once and does not go deeper than [`MAX_DEPTH`], so no link on disk can
//! make it run forever. Pages that cannot be read are reported and skipped.

use ese_format::page::{Node, Page, PageFlags};
use ese_format::{DbTime, PageNumber};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, hex};
use crate::pages::page_set::PageSet;
use crate::pages::reader::VerifiedPageReader;
use crate::structure::leaf::{LeafSequence, NodeVisitor, TreeContext, WalkSummary};
use crate::structure::page_map::{PageMap, PageUse, TreeIndex};
use crate::structure::read_ahead::LeafReadAhead;
use crate::structure::tree_shape::{MAX_DEPTH, TreeShape};

/// Maximum number of pages that one walk remembers, which takes 16 MiB. In a larger tree, a cycle is detected only when
/// the walk has followed too many page references.
const MAX_VISITED: u32 = 1 << 27;
/// Number of a page's children to read ahead of the walk, and number of children after which more reads are
/// requested.
const PREFETCH_DISTANCE: usize = 192;
const PREFETCH_STEP: usize = 32;
/// Walks trees page by page, and records findings and page owners.
pub(crate) struct TreeWalker<'a, 'd> {
    pub(crate) reader: &'a mut VerifiedPageReader<'d>,
    pub(crate) findings: &'a mut Findings,
    /// Map in which each page is recorded as used by this tree. If absent, the pages are only visited.
    pub(crate) claims: Option<(&'a mut PageMap, TreeIndex)>,
    /// Highest dbtime that a page in a clean database can have.
    pub(crate) newest: DbTime,
    /// Read-ahead for this walk and later walks. Absent if this walk does not use read-ahead.
    pub(crate) read_ahead: Option<&'a mut LeafReadAhead>,
}

/// Callback that receives leaf nodes in order, except for nodes that are flagged as deleted.
pub(crate) type VisitNode<'v> = &'v mut dyn FnMut(PageNumber, &Node<'_>, &mut Findings);

/// Visitor that calls a [`VisitNode`].
struct FnVisitor<'v>(VisitNode<'v>);

impl NodeVisitor for FnVisitor<'_> {
    fn visit(&mut self, page: PageNumber, node: &Node<'_>, findings: &mut Findings) {
        (self.0)(page, node, findings);
    }
}

impl TreeWalker<'_, '_> {
    pub(crate) fn context<'s>(&'s mut self, shape: &'s TreeShape) -> TreeContext<'s> {
        let (database, newest) = (self.reader.database, self.newest);
        TreeContext { database, shape, findings: self.findings, newest }
    }
}

/// State of one tree walk.
pub(crate) struct WalkState<'s, V> {
    shape: &'s TreeShape,
    pub(crate) visitor: V,
    pub(crate) sequence: LeafSequence,
    /// Pages that the walk has entered, except those recorded in the map.
    visited: PageSet,
    /// Number of page references that the walk has followed.
    references: u32,
    /// Threads that check leaves. Absent while their results are being joined.
    pub(crate) workers: Option<Box<dyn LeafQueue<V> + 's>>,
}

/// A reference to a leaf page, held in its parent.
pub(crate) struct LeafReference {
    pub(crate) child: PageNumber,
    pub(crate) parent: PageNumber,
    /// Level of the child in the tree.
    pub(crate) depth: u32,
    pub(crate) low: Option<Vec<u8>>,
    pub(crate) high: Option<Vec<u8>>,
}

/// A queue of leaves to be checked by threads other than the one that walks the tree.
pub(crate) trait LeafQueue<V> {
    /// Adds the next page to the queue.
    fn add(&mut self, walker: &mut TreeWalker<'_, '_>, state: &mut WalkState<'_, V>, entry: LeafReference);
    /// Waits until the state includes all added pages.
    fn drain(&mut self, walker: &mut TreeWalker<'_, '_>, state: &mut WalkState<'_, V>);
}

impl<V: NodeVisitor> WalkState<'_, V> {
    pub(crate) fn new(shape: &TreeShape, visitor: V) -> WalkState<'_, V> {
        WalkState {
            shape,
            visitor,
            sequence: LeafSequence::at_tree_start(),
            visited: PageSet::for_pages(MAX_VISITED),
            references: 0,
            workers: None,
        }
    }

    /// Waits for the leaves that were added so far, so that the next page is checked in tree order.
    fn drain(&mut self, walker: &mut TreeWalker<'_, '_>) {
        if let Some(mut workers) = self.workers.take() {
            workers.drain(walker, self);
            self.workers = Some(workers);
        }
    }

    fn skip_subtree(&mut self, walker: &mut TreeWalker<'_, '_>) {
        self.drain(walker);
        self.sequence.skip_subtree();
    }

    pub(crate) fn walk(&mut self, walker: &mut TreeWalker<'_, '_>) -> WalkSummary {
        let root = self.shape.root;
        if enter(walker, self, root, None, 0) {
            visit_page(walker, self, root, None, 0, None, None);
        }
        self.drain(walker);
        self.sequence.finish(&mut walker.context(self.shape));
        self.sequence.summary
    }
}

/// Walks the tree from its root and passes its records to `visit`.
pub(crate) fn walk(walker: &mut TreeWalker<'_, '_>, shape: &TreeShape, visit: VisitNode<'_>) -> WalkSummary {
    WalkState::new(shape, FnVisitor(visit)).walk(walker)
}

/// Returns true if the walk may enter a page, that is, if it has not entered the page before and the check has not
/// been cancelled.
fn enter<V: NodeVisitor>(
    walker: &mut TreeWalker<'_, '_>,
    state: &mut WalkState<'_, V>,
    number: PageNumber,
    parent: Option<PageNumber>,
    depth: u32,
) -> bool {
    let label = &state.shape.label;
    if walker.reader.database.pace.is_cancelled() {
        state.skip_subtree(walker);
        return false;
    }
    if depth > MAX_DEPTH {
        let what = format!("the tree is deeper than {MAX_DEPTH} levels");
        skip(walker, state, number, FindingKind::TreeShape, what);
        return false;
    }
    // The map does not distinguish a tree's own pages from those of its space trees. Only the walk does.
    let watched = walker.claims.as_ref().filter(|_| !state.shape.kind.contains(PageFlags::SPACE));
    let known = watched.and_then(|(map, tree)| Some(map.state(number)?.used == PageUse::Tree(*tree)));
    state.references = state.references.saturating_add(1);
    let endless = state.references > walker.reader.database.file_pages.saturating_add(MAX_VISITED);
    if endless || known.unwrap_or_else(|| !state.visited.insert(number)) {
        let what = format!("the page occurs twice in the tree, the second time below {}", referrer(parent));
        skip(walker, state, number, FindingKind::TreeShape, what);
        return false;
    }
    if let Some((map, tree)) = &mut walker.claims {
        if !map.contains(number) {
            let what = format!("the page is outside the owned space, but {} refers to it", referrer(parent));
            walker.findings.add_structural(FindingKind::PageBeyondOwned, number, label, what);
        }
        if let Err(before) = map.claim(number, PageUse::Tree(*tree)) {
            let from = referrer(parent);
            let what = match before {
                PageUse::Available(_) => format!("the page is listed as available, but {from} refers to it"),
                _ => format!("the page already belongs to another tree, but {from} refers to it"),
            };
            walker.findings.add_structural(FindingKind::PageUsedTwice, number, label, what);
        }
    }
    true
}

/// Describes what refers to a page. Only the catalog refers to a page without a parent.
pub(crate) fn referrer(parent: Option<PageNumber>) -> String {
    parent.map_or_else(|| "the catalog".to_owned(), |parent| format!("page {parent}"))
}

/// Checks a page and all pages below it. `parent` consists of the page that refers to this page, and whether that page
/// is flagged as a parent of leaves.
fn visit_page<V: NodeVisitor>(
    walker: &mut TreeWalker<'_, '_>,
    state: &mut WalkState<'_, V>,
    number: PageNumber,
    parent: Option<(PageNumber, bool)>,
    depth: u32,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) {
    let shape = state.shape;
    let loaded = walker.reader.get(number);
    if let (Some(judged), true) = (walker.reader.verified_pages(), walker.claims.is_some()) {
        judged.report(walker.findings);
    }
    let image = match loaded {
        Ok(image) => image,
        Err(problem) => {
            let leaf = parent.is_some_and(|(_, leaves)| leaves);
            if walker.findings.attribute(number, &shape.label, leaf) {
                return state.skip_subtree(walker);
            }
            let from = referrer(parent.map(|(parent, _)| parent));
            let what = format!("the page {problem}, but {from} refers to it");
            return skip(walker, state, number, problem.kind(), what);
        }
    };
    let page = image.page();
    // A flipped bit in this page was corrected in memory.
    walker.findings.attribute(number, &shape.label, page.is_leaf());
    let mut context = walker.context(shape);
    context.check_layout(number, image.bytes());
    context.check_header(number, &page, depth);
    if !context.belongs(&page) {
        state.sequence.summary.pages += 1;
        let what = "the page does not belong to this tree; the pages below it are not checked".into();
        return skip(walker, state, number, FindingKind::PageObjectId, what);
    }
    if page.is_leaf() {
        state.drain(walker);
        let (sequence, visitor) = (&mut state.sequence, &mut state.visitor);
        return sequence.add_leaf(&mut walker.context(shape), visitor, (number, &page, depth), (low, high));
    }
    state.sequence.summary.pages += 1;
    internal(walker, state, (number, &page, depth), low, high);
}

/// Checks a page that a parent-of-leaf page references. The walk must already have entered the page.
pub(crate) fn visit_child<V: NodeVisitor>(
    walker: &mut TreeWalker<'_, '_>,
    state: &mut WalkState<'_, V>,
    entry: &LeafReference,
) {
    check_leaf_flag(walker, state.shape, entry.parent, entry.child, true);
    let parent = Some((entry.parent, true));
    visit_page(walker, state, entry.child, parent, entry.depth, entry.low.as_deref(), entry.high.as_deref());
}

fn check_leaf_flag(
    walker: &mut TreeWalker<'_, '_>,
    shape: &TreeShape,
    parent: PageNumber,
    child: PageNumber,
    parent_of_leaf: bool,
) {
    let Ok(image) = walker.reader.get(child) else { return };
    let leaf = image.page().is_leaf();
    if leaf != parent_of_leaf {
        let not = if leaf { "" } else { "not " };
        let what = format!("flag parent-of-leaf is {parent_of_leaf}, but child page {child} is {not}a leaf");
        walker.findings.add_structural(FindingKind::PageFlags, parent, &shape.label, what);
    }
}

fn internal<V: NodeVisitor>(
    walker: &mut TreeWalker<'_, '_>,
    state: &mut WalkState<'_, V>,
    (number, page, depth): (PageNumber, &Page<'_>, u32),
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) {
    let label = &state.shape.label;
    if page.prev().is_some() || page.next().is_some() {
        let what = "an internal page has siblings".into();
        walker.findings.add_structural(FindingKind::SiblingLink, number, label, what);
    }
    let count = page.node_count();
    if count == 0 {
        return skip(walker, state, number, FindingKind::TreeShape, "an internal page has no entries".into());
    }
    let parent_of_leaf = page.flags().contains(PageFlags::PARENT_OF_LEAF);
    let together = parent_of_leaf && state.workers.is_some();
    let children: Vec<PageNumber> = page.nodes().filter_map(|node| node.child()).collect();
    let mut below: Option<Vec<u8>> = low.map(<[u8]>::to_vec);
    for (index, node) in page.nodes().enumerate() {
        // This keeps read-ahead at a constant distance.
        if index % PREFETCH_STEP == 0 && !together {
            let ahead = children.get(index..).unwrap_or_default().iter().copied();
            walker.reader.prefetch(ahead.take(PREFETCH_DISTANCE));
        }
        let key = node.key_to_vec();
        let last = index + 1 == count;
        if key.is_empty() && !last {
            let what = format!("entry {index} of {count} has an empty key");
            walker.findings.add_structural(FindingKind::Separator, number, label, what);
        }
        if !key.is_empty() {
            if below.as_deref().is_some_and(|below| key.as_slice() <= below)
                && (index > 0 || below.as_deref() > Some(&key))
            {
                let what =
                    format!("separator {index} ({}) is not greater than the previous separator", hex(&key));
                walker.findings.add_structural(FindingKind::Separator, number, label, what);
            }
            if high.is_some_and(|high| key.as_slice() > high) {
                let what =
                    format!("separator {index} ({}) is greater than the separator of the parent", hex(&key));
                walker.findings.add_structural(FindingKind::Separator, number, label, what);
            }
        }
        if last && high != Some(key.as_slice()) && !(high.is_none() && key.is_empty()) {
            let expected = high.map_or_else(|| "empty".to_owned(), hex);
            let what = format!("the last separator is {}, expected {expected}", hex(&key));
            walker.findings.add_structural(FindingKind::Separator, number, label, what);
        }
        let above = if key.is_empty() { high } else { Some(key.as_slice()) };
        let Some(child) = node.child() else {
            skip(
                walker,
                state,
                number,
                FindingKind::NodeDamaged,
                format!("entry {index} does not have a child page"),
            );
            continue;
        };
        let entered = enter(walker, state, child, Some(number), depth + 1);
        match state.workers.take_if(|_| together && entered) {
            Some(mut workers) => {
                let (low, high) = (below.clone(), above.map(<[u8]>::to_vec));
                let entry = LeafReference { child, parent: number, depth: depth + 1, low, high };
                workers.add(walker, state, entry);
                state.workers = Some(workers);
            }
            None => {
                check_leaf_flag(walker, state.shape, number, child, parent_of_leaf);
                if entered {
                    let parent = Some((number, parent_of_leaf));
                    visit_page(walker, state, child, parent, depth + 1, below.as_deref(), above);
                }
            }
        }
        if !key.is_empty() {
            below = Some(key);
        }
    }
    if page.nodes().count() != count {
        let what = "an entry cannot be decoded; the rest of the page is not checked".into();
        skip(walker, state, number, FindingKind::NodeDamaged, what);
    }
}

/// Reports why part of the tree is not checked.
fn skip<V: NodeVisitor>(
    walker: &mut TreeWalker<'_, '_>,
    state: &mut WalkState<'_, V>,
    number: PageNumber,
    kind: FindingKind,
    what: String,
) {
    walker.findings.add_structural(kind, number, &state.shape.label, what);
    state.skip_subtree(walker);
}

/// Returns the leaf to which a node with this key and data belongs, or the last readable page on the path to it.
pub(crate) fn find_leaf(
    reader: &mut VerifiedPageReader<'_>,
    shape: &TreeShape,
    key: &[u8],
    data: &[u8],
) -> PageNumber {
    let wanted = if shape.non_unique() { [key, data].concat() } else { key.to_vec() };
    let mut number = shape.root;
    for _ in 0..MAX_DEPTH {
        let Ok(image) = reader.get(number) else { break };
        let page = image.page();
        match page.child_for(&wanted) {
            Some((_, child)) if !page.is_leaf() => number = child,
            _ => break,
        }
    }
    number
}
