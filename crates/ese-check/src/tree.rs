//! One B+ tree: pages, order of keys, links between siblings, separators, flags.
//!
//! The rules (reference: `docs/format.md`, trees): an internal entry (S, child) covers the keys below S and from the
//! entry before it on; an empty S is infinity and stands only at the right edge; the last entry of any other
//! internal page repeats the separator above it; only leaves have siblings; all leaves have the same depth.
//!
//! Invariants: a page is entered at most once per walk, and a walk goes no deeper than [`MAX_DEPTH`], so no
//! link on the disk makes it run for ever. What cannot be read is reported and left out.

use std::cmp::Ordering;
use std::collections::HashSet;

use ese_format::page::{Node, NodeFlags, Page, PageFlags, validate};
use ese_format::{DbTime, PageNumber, TreeId};

use crate::finding::{FindingKind, Findings};
use crate::page_map::{PageMap, TreeIndex, Use};
use crate::reader::PageReader;

/// No tree of 2^32 pages is deeper.
const MAX_DEPTH: u32 = 24;
/// Children of a page that are read ahead of the walk, and after how many more are asked for.
const PREFETCH_DISTANCE: usize = 192;
const PREFETCH_STEP: usize = 32;
/// Flags that all pages of a tree share.
const KIND: PageFlags =
    PageFlags::SPACE.union(PageFlags::INDEX).union(PageFlags::LONG_VALUE).union(PageFlags::NON_UNIQUE);

/// What a tree should be.
#[derive(Clone, Debug)]
pub(crate) struct TreeShape {
    pub(crate) root: PageNumber,
    pub(crate) tree: TreeId,
    /// The flags of [`KIND`] its pages have to carry.
    pub(crate) kind: PageFlags,
    /// Name for findings.
    pub(crate) label: String,
}

impl TreeShape {
    fn non_unique(&self) -> bool {
        // Extents have unique keys whatever tree they belong to.
        self.kind.contains(PageFlags::NON_UNIQUE) && !self.kind.contains(PageFlags::SPACE)
    }
}

/// What a walk needs besides the tree.
pub(crate) struct Walker<'a, 'd> {
    pub(crate) reader: &'a mut PageReader<'d>,
    pub(crate) findings: &'a mut Findings,
    /// Records each page as used by this tree; without it the pages are only visited.
    pub(crate) claims: Option<(&'a mut PageMap, TreeIndex)>,
    /// No page of a clean database is newer.
    pub(crate) newest: DbTime,
}

/// What a walk saw.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct TreeSummary {
    pub(crate) pages: u64,
    /// Nodes on leaves that are not deleted.
    pub(crate) nodes: u64,
    pub(crate) deleted: u64,
    /// First page with a deleted node.
    pub(crate) first_deleted: Option<PageNumber>,
    /// Some page could not be read, so that counts are too low.
    pub(crate) incomplete: bool,
}

/// Gets every node of a leaf that is not deleted, in order.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(PageNumber, &Node<'_>, &mut Findings);

struct State<'s, 'v> {
    shape: &'s TreeShape,
    visit: Visit<'v>,
    summary: TreeSummary,
    visited: HashSet<PageNumber>,
    leaf_depth: Option<u32>,
    /// The leaf before, and where its link to the right points. None before the first and behind a gap.
    last_leaf: Option<(PageNumber, Option<PageNumber>)>,
    /// No leaf was seen or skipped so far.
    at_start: bool,
    /// Key (with data, where these order the tree) of the last node seen.
    last_key: Option<Vec<u8>>,
}

impl State<'_, '_> {
    /// Part of the tree is not seen; what comes next has no known neighbour.
    fn gap(&mut self) {
        self.summary.incomplete = true;
        self.at_start = false;
        self.last_leaf = None;
    }
}

/// Walks the tree from its root; `visit` gets its records.
pub(crate) fn walk(walker: &mut Walker<'_, '_>, shape: &TreeShape, visit: Visit<'_>) -> TreeSummary {
    let mut state = State {
        shape,
        visit,
        summary: TreeSummary::default(),
        visited: HashSet::new(),
        leaf_depth: None,
        last_leaf: None,
        at_start: true,
        last_key: None,
    };
    descend(walker, &mut state, shape.root, None, 0, None, None);
    if let Some((leaf, Some(next))) = state.last_leaf {
        let what = format!("the last leaf links to page {next} on its right");
        walker.findings.structure(FindingKind::SiblingLink, leaf, &shape.label, what);
    }
    state.summary
}

fn descend(
    walker: &mut Walker<'_, '_>,
    state: &mut State<'_, '_>,
    number: PageNumber,
    parent: Option<(PageNumber, bool)>,
    depth: u32,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) {
    let shape = state.shape;
    let label = &shape.label;
    if walker.reader.database.pace.is_cancelled() {
        return state.gap();
    }
    if depth > MAX_DEPTH {
        return skip(
            walker,
            state,
            number,
            FindingKind::TreeShape,
            format!("the tree is deeper than {MAX_DEPTH} levels"),
        );
    }
    let from = parent.map_or_else(|| "the catalog".to_owned(), |(parent, _)| format!("page {parent}"));
    if !state.visited.insert(number) {
        let what = format!("the page occurs a second time in the tree, below {from}");
        return skip(walker, state, number, FindingKind::TreeShape, what);
    }
    if let Some((map, tree)) = &mut walker.claims {
        if !map.contains(number) {
            let what = format!("the page lies beyond the owned space, but {from} refers to it");
            walker.findings.structure(FindingKind::PageBeyondOwned, number, label, what);
        }
        if let Err(before) = map.claim(number, Use::Tree(*tree)) {
            let what = match before {
                Use::Available(_) => format!("the page is listed as available, but {from} refers to it"),
                _ => format!("the page belongs to another tree already, but {from} refers to it"),
            };
            walker.findings.structure(FindingKind::PageUsedTwice, number, label, what);
        }
    }
    let loaded = walker.reader.get(number);
    if let (Some(judged), true) = (&mut walker.reader.judged, walker.claims.is_some()) {
        judged.report(walker.findings);
    }
    let image = match loaded {
        Ok(image) => image,
        Err(problem) => {
            let leaf = parent.is_some_and(|(_, leaves)| leaves);
            if walker.findings.attribute(number, label, leaf) {
                return state.gap();
            }
            return skip(
                walker,
                state,
                number,
                problem.kind(),
                format!("the page {problem}, but {from} refers to it"),
            );
        }
    };
    // Its damage could be put right in memory.
    walker.findings.attribute(number, label, image.page().is_leaf());
    state.summary.pages += 1;
    let page = image.page();
    if let Err(fault) = validate(image.bytes(), walker.reader.database.page_size) {
        walker.findings.structure(FindingKind::PageLayout, number, label, fault.to_string());
    }
    if !check_header(walker, shape, number, &page, depth) {
        return skip(
            walker,
            state,
            number,
            FindingKind::PageObjectId,
            "the page is not part of this tree; what should be below it is not checked".into(),
        );
    }
    let flags = page.flags();
    if flags.contains(PageFlags::LEAF) {
        check_leaf(walker, state, number, &page, depth, low, high);
        return;
    }
    if page.prev().is_some() || page.next().is_some() {
        walker.findings.structure(
            FindingKind::SiblingLink,
            number,
            label,
            "an internal page has siblings".into(),
        );
    }
    let count = page.node_count();
    if count == 0 {
        return skip(walker, state, number, FindingKind::TreeShape, "an internal page has no entries".into());
    }
    let parent_of_leaf = flags.contains(PageFlags::PARENT_OF_LEAF);
    let children: Vec<PageNumber> = page.nodes().filter_map(|node| node.child()).collect();
    let mut below: Option<Vec<u8>> = low.map(<[u8]>::to_vec);
    for (index, node) in page.nodes().enumerate() {
        // Read-ahead keeps its distance as the walk goes on.
        if index % PREFETCH_STEP == 0 {
            let ahead = children.get(index..).unwrap_or_default().iter().copied();
            walker.reader.prefetch(ahead.take(PREFETCH_DISTANCE));
        }
        let key = node.key_to_vec();
        let last = index + 1 == count;
        if key.is_empty() && !last {
            walker.findings.structure(
                FindingKind::Separator,
                number,
                label,
                format!("entry {index} of {count} has an empty key"),
            );
        }
        if !key.is_empty() {
            if below.as_deref().is_some_and(|below| key.as_slice() <= below)
                && (index > 0 || below.as_deref() > Some(&key))
            {
                let what = format!("separator {index} ({}) is not above the one before it", hex(&key));
                walker.findings.structure(FindingKind::Separator, number, label, what);
            }
            if high.is_some_and(|high| key.as_slice() > high) {
                let what = format!("separator {index} ({}) is above the parent's separator", hex(&key));
                walker.findings.structure(FindingKind::Separator, number, label, what);
            }
        }
        if last && high != Some(key.as_slice()) && !(high.is_none() && key.is_empty()) {
            let expected = high.map_or_else(|| "empty".to_owned(), hex);
            let what = format!("the last separator is {}, not {expected}", hex(&key));
            walker.findings.structure(FindingKind::Separator, number, label, what);
        }
        let above = if key.is_empty() { high } else { Some(key.as_slice()) };
        let Some(child) = node.child() else {
            skip(walker, state, number, FindingKind::NodeDamaged, format!("entry {index} has no child page"));
            continue;
        };
        let leaf = walker.reader.get(child).is_ok_and(|image| image.page().is_leaf());
        if leaf != parent_of_leaf && walker.reader.get(child).is_ok() {
            let what = format!(
                "flag parent-of-leaf is {parent_of_leaf}, but child page {child} is {}a leaf",
                if leaf { "" } else { "not " }
            );
            walker.findings.structure(FindingKind::PageFlags, number, label, what);
        }
        descend(walker, state, child, Some((number, parent_of_leaf)), depth + 1, below.as_deref(), above);
        if !key.is_empty() {
            below = Some(key);
        }
    }
    if page.nodes().count() != count {
        skip(
            walker,
            state,
            number,
            FindingKind::NodeDamaged,
            "an entry cannot be decoded; the rest of the page is not checked".into(),
        );
    }
}

/// Reports why part of the tree is not looked at.
fn skip(
    walker: &mut Walker<'_, '_>,
    state: &mut State<'_, '_>,
    number: PageNumber,
    kind: FindingKind,
    what: String,
) {
    walker.findings.structure(kind, number, &state.shape.label, what);
    state.gap();
}

/// Whether the page can be taken for a page of this tree at all.
fn check_header(
    walker: &mut Walker<'_, '_>,
    shape: &TreeShape,
    number: PageNumber,
    page: &Page<'_>,
    depth: u32,
) -> bool {
    let label = &shape.label;
    let flags = page.flags();
    let mut belongs = true;
    if page.tree() != shape.tree {
        let what = format!("the page carries object id {}, the tree has {}", page.tree().0, shape.tree.0);
        walker.findings.structure(FindingKind::PageObjectId, number, label, what);
        belongs = false;
    }
    if flags.contains(PageFlags::ROOT) != (depth == 0) {
        let what = if depth == 0 {
            "the root page is not flagged as root"
        } else {
            "a page below the root is flagged as root"
        };
        walker.findings.structure(FindingKind::PageFlags, number, label, what.into());
    }
    if flags.contains(PageFlags::EMPTY) {
        walker.findings.structure(
            FindingKind::PageFlags,
            number,
            label,
            "the page is flagged as given back".into(),
        );
        belongs = false;
    }
    let kind = flags & KIND;
    if kind != shape.kind {
        let what =
            format!("the kind of tree in the page flags is {:#x}, not {:#x}", kind.bits(), shape.kind.bits());
        walker.findings.structure(FindingKind::PageFlags, number, label, what);
    }
    if flags.contains(PageFlags::LEAF | PageFlags::PARENT_OF_LEAF) {
        walker.findings.structure(
            FindingKind::PageFlags,
            number,
            label,
            "the page is flagged leaf and parent of leaf".into(),
        );
    }
    // The header of a dirty database may be older than its pages.
    if walker.reader.database.must_be_consistent() && page.db_time() > walker.newest {
        let what = format!("page time {} is later than the header's {}", page.db_time().0, walker.newest.0);
        walker.findings.structure(FindingKind::PageTime, number, label, what);
    }
    belongs
}

fn check_leaf(
    walker: &mut Walker<'_, '_>,
    state: &mut State<'_, '_>,
    number: PageNumber,
    page: &Page<'_>,
    depth: u32,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) {
    let shape = state.shape;
    let label = &shape.label;
    let leaf_depth = *state.leaf_depth.get_or_insert(depth);
    if depth != leaf_depth {
        let what = format!("the leaf is at level {depth}, the first leaf at level {leaf_depth}");
        walker.findings.structure(FindingKind::TreeShape, number, label, what);
    }
    if let Some((left, next)) = state.last_leaf {
        if next != Some(number) {
            let what = format!(
                "the link to the right is {}, the next leaf is page {number}",
                PageNumber::to_raw(next)
            );
            walker.findings.structure(FindingKind::SiblingLink, left, label, what);
        }
        if page.prev() != Some(left) {
            let raw = PageNumber::to_raw(page.prev());
            walker.findings.structure(
                FindingKind::SiblingLink,
                number,
                label,
                format!("the link to the left is {raw}, the leaf before is page {left}"),
            );
        }
    } else if state.at_start
        && let Some(prev) = page.prev()
    {
        walker.findings.structure(
            FindingKind::SiblingLink,
            number,
            label,
            format!("the first leaf links to page {prev} on its left"),
        );
    }
    state.at_start = false;
    state.last_leaf = Some((number, page.next()));
    let count = page.node_count();
    if count == 0 && depth > 0 {
        walker.findings.structure(
            FindingKind::TreeShape,
            number,
            label,
            "a leaf below the root has no nodes".into(),
        );
    }
    let non_unique = shape.non_unique();
    let mut outside = false;
    for index in 0..count {
        let Some(node) = page.node(index) else {
            walker.findings.structure(
                FindingKind::NodeDamaged,
                number,
                label,
                format!("node {index} cannot be decoded"),
            );
            state.summary.incomplete = true;
            break;
        };
        let order = |bound: &[u8]| if non_unique { node.cmp_key_data(bound) } else { node.cmp_key(bound) };
        if state.last_key.as_deref().is_some_and(|last| order(last) != Ordering::Greater) {
            let what = format!("node {index} ({}) is not above the node before it", hex(&node.key_to_vec()));
            walker.findings.structure(FindingKind::KeyOrder, number, label, what);
        }
        let below = low.is_some_and(|low| order(low) == Ordering::Less);
        // A misplaced page has all its nodes outside; the first one tells.
        if !outside && (below || high.is_some_and(|high| order(high) != Ordering::Less)) {
            let what =
                format!("node {index} ({}) is outside the separators of its parent", hex(&node.key_to_vec()));
            walker.findings.structure(FindingKind::KeyOrder, number, label, what);
            outside = true;
        }
        let mut key = state.last_key.take().unwrap_or_default();
        key.clear();
        node.append_key(&mut key);
        if non_unique {
            key.extend_from_slice(node.data);
        }
        state.last_key = Some(key);
        if node.flags.contains(NodeFlags::DELETED) {
            state.summary.deleted += 1;
            state.summary.first_deleted.get_or_insert(number);
        } else {
            state.summary.nodes += 1;
            (state.visit)(number, &node, walker.findings);
        }
    }
}

/// The leaf on which a node with this key and data has its place, as far as the way there can be read.
pub(crate) fn leaf_for(
    reader: &mut PageReader<'_>,
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

/// Bytes for a message, cut when long.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > 40 { format!("{digits}... {} bytes", bytes.len()) } else { digits }
}
