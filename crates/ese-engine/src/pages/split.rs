//! Splits leaves, internal pages and roots.
//!
//! A split is one atomic group. An insert that needs the room is part of the same group, because only a root may have
//! no nodes. Parents are split first, each in a separate group; the tree is valid after each of these splits. A leaf
//! is split alone only if it cannot share nodes with its right neighbour (`btree::share`).
//!
//! A split is logged in the same way as in ESE: a Split2 without a new page for the parent, the Split2 of the page,
//! and the Insert that needs the room. The line numbers of the Split2 include the node of the Insert. The Insert
//! names the page that is split, and the line of the node on this page before the split.

use std::ops::Range;

use ese_format::log::record::{
    BeforeImageFlags, Insert, LogRecord, NodeChange, PageChangeFlags, Split, split_operation,
};
use ese_format::page::{Node, NodeFlags, Page, PageFlags, node_space, shared_prefix_len};
use ese_format::{PageNumber, PageSize};

use super::apply::{self, split_type};
use super::before_image::moving_nodes_image;
use super::{AtomicGroup, GroupAbort, GroupResult, NO_TIME, TreeIdentity, cut_key};
use crate::cache::PageDelta;
use crate::page_misfit::PageMisfit;
use crate::{Error, InternalError};

/// A node to be inserted into a page that is being split.
#[derive(Clone, Copy)]
pub(crate) struct IncomingNode<'a> {
    pub line: usize,
    pub key: &'a [u8],
    pub data: &'a [u8],
}

impl IncomingNode<'_> {
    /// Returns the bytes by which the tree orders the node.
    pub fn order_key(&self, unique: bool) -> Vec<u8> {
        if unique { self.key.to_vec() } else { [self.key, self.data].concat() }
    }
}

/// The line at which a page is cut, and the side to which the incoming node belongs.
pub(crate) struct SplitPoint {
    /// First node that moves to the new page.
    pub line: usize,
    /// Whether the incoming node belongs to the new page.
    pub incoming_right: bool,
    /// Separator to be inserted into the parent.
    pub separator: Vec<u8>,
    /// Whether this is an append: no node moves, because the page is right-most and the incoming node comes last.
    pub append: bool,
}

/// Returns the number of bytes available for nodes on a page, excluding the header and tag 0.
pub(crate) fn capacity(size: PageSize) -> usize {
    size.bytes() - size.header_len() - 4
}

/// Returns the line whose key would be a useful shared prefix for these nodes, if any.
pub(crate) fn prefix_line(page: &Page<'_>, nodes: Range<usize>) -> Option<usize> {
    let middle = nodes.start + nodes.len() / 2;
    if nodes.len() < 3 {
        return None;
    }
    let (first, last) = (page.node(nodes.start)?.key_to_vec(), page.node(nodes.end - 1)?.key_to_vec());
    let shared = shared_prefix_len(&first, &last);
    let saved = nodes.len() * shared.saturating_sub(2);
    (shared > 0 && saved > page.node(middle)?.key_len()).then_some(middle)
}

/// Returns the number of bytes that these nodes and a prefix need on a new page.
pub(crate) fn packed_size(page: &Page<'_>, nodes: Range<usize>, prefix: &[u8]) -> usize {
    let node_size = |node: Node<'_>| {
        let key = node.key_to_vec();
        let shared = shared_prefix_len(prefix, &key);
        node_space(key.len() - shared, shared > 0, node.data.len())
    };
    prefix.len() + nodes.filter_map(|line| page.node(line)).map(node_size).sum::<usize>()
}

pub(crate) fn prefix_of(page: &Page<'_>, line: Option<usize>) -> Vec<u8> {
    line.and_then(|line| page.node(line)).map_or(Vec::new(), |node| node.key_to_vec())
}

/// Chooses where to cut a page. The cut is as close to the middle in bytes as possible while the incoming node still
/// fits on its side.
///
/// Returns `None` if no cut is possible, which the limits on record and key sizes rule out.
pub(crate) fn choose_cut(
    shape: &TreeIdentity,
    page: &Page<'_>,
    size: PageSize,
    incoming: Option<IncomingNode<'_>>,
) -> Option<SplitPoint> {
    let count = page.node_count();
    let new_size = incoming.map_or(0, |new| node_space(new.key.len(), false, new.data.len()));
    if let Some(new) = incoming
        && new.line == count
        && page.next().is_none()
        && page.is_leaf()
    {
        let separator = separator_at(shape, page, count, incoming, true)?;
        return Some(SplitPoint { line: count, incoming_right: true, separator, append: true });
    }
    // `k` stands for a cut before item `k`. The items are the nodes, including the incoming node at its position.
    let items = count + usize::from(incoming.is_some());
    let size_of = |item: usize| match incoming {
        Some(new) if item == new.line => new_size,
        Some(new) if item > new.line => page.node_size(item - 1),
        _ => page.node_size(item),
    };
    let total: usize = (0..items).map(size_of).sum();
    let mut candidates: Vec<(usize, usize)> = Vec::with_capacity(items);
    let mut left = 0;
    for k in 1..items {
        left += size_of(k - 1);
        candidates.push((left.abs_diff(total - left), k));
    }
    candidates.sort_unstable();
    let room = capacity(size);
    for (_, k) in candidates {
        let right = incoming.is_some_and(|new| new.line >= k);
        let line = if incoming.is_some() && !right { k - 1 } else { k };
        if page.flags().contains(PageFlags::LEAF) || (line > 0 && line < count) {
            let sizes = [0..line, line..count]
                .map(|half| packed_size(page, half.clone(), &prefix_of(page, prefix_line(page, half))));
            let need = if right { [0, new_size] } else { [new_size, 0] };
            if sizes[0] + need[0] <= room && sizes[1] + need[1] <= room {
                let separator = separator_at(shape, page, line, incoming, right)?;
                return Some(SplitPoint { line, incoming_right: right, separator, append: false });
            }
        }
    }
    None
}

/// Returns a cut before `line`, regardless of how large the two parts are.
pub(crate) fn cut_at(shape: &TreeIdentity, page: &Page<'_>, line: usize) -> Option<SplitPoint> {
    if line == 0 || line >= page.node_count() {
        return None;
    }
    let separator = separator_at(shape, page, line, None, false)?;
    Some(SplitPoint { line, incoming_right: false, separator, append: false })
}

/// Returns the key in the parent that separates the nodes before `line` from the remaining nodes, taking the incoming
/// node into account.
pub(crate) fn separator_at(
    shape: &TreeIdentity,
    page: &Page<'_>,
    line: usize,
    incoming: Option<IncomingNode<'_>>,
    incoming_right: bool,
) -> Option<Vec<u8>> {
    let left = line.checked_sub(1).and_then(|line| page.node(line));
    if !page.is_leaf() {
        // An entry's data is its child page number, which is not part of the sort order even in a non-unique tree.
        return left.map(|node| node.key_to_vec());
    }
    let last_left = left.map(|node| shape.order_key(&node));
    let first_right = page.node(line).map(|node| shape.order_key(&node));
    let new = incoming.map(|new| new.order_key(shape.is_unique()));
    let (left, right) = match new {
        Some(new) if incoming_right => {
            let right = first_right.map_or_else(|| new.clone(), |old| old.min(new.clone()));
            (last_left?, right)
        }
        Some(new) => (last_left.map_or_else(|| new.clone(), |old| old.max(new.clone())), first_right?),
        None => (last_left?, first_right?),
    };
    let common = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    right.get(..common + 1).map(<[u8]>::to_vec)
}

/// The insert that requires a page to be split.
#[derive(Clone, Copy)]
pub(crate) struct SplitInsert<'a> {
    pub incoming: IncomingNode<'a>,
    /// Leading fields of the insert record.
    pub node: NodeChange,
}

/// Moves all nodes of a root to a new child. Afterwards, the root has room for separators.
pub(crate) fn split_root(group: &mut AtomicGroup, shape: &TreeIdentity, new: PageNumber) -> GroupResult<()> {
    let child = group.page(shape.root)?.flags();
    raise_root(group, shape, new, child - PageFlags::ROOT - PageFlags::NEW_CHECKSUM - PageFlags::FLUSH_TYPE)
}

/// Moves all nodes of a root to a new child that gets the flags `child_flags`. If the root is empty, any flags of a
/// page below a root are allowed.
pub(crate) fn raise_root(
    group: &mut AtomicGroup,
    shape: &TreeIdentity,
    new: PageNumber,
    child_flags: PageFlags,
) -> GroupResult<()> {
    let page = group.page(shape.root)?;
    let mut root_flags = page.flags() - PageFlags::LEAF - PageFlags::PARENT_OF_LEAF;
    root_flags.set(PageFlags::PARENT_OF_LEAF, child_flags.contains(PageFlags::LEAF));
    let count = page.node_count();
    let cut = SplitPoint { line: 0, incoming_right: false, separator: Vec::new(), append: false };
    let prefix = prefix_line(&page, 0..count);
    let target = SplitPages { page: shape.root, new, parent: None, right: None };
    finish(group, shape, split_type::VERTICAL, &cut, &target, [root_flags, child_flags], [None, prefix], None)
}

/// Splits a page below the root, and inserts the incoming node for which the cut was chosen. The parent must have
/// room for the separator.
pub(crate) fn split_page(
    group: &mut AtomicGroup,
    shape: &TreeIdentity,
    parent: PageNumber,
    page_number: PageNumber,
    new: PageNumber,
    cut: &SplitPoint,
    insert: Option<&SplitInsert<'_>>,
) -> GroupResult<()> {
    let page = group.page(page_number)?;
    let found = page.flags();
    let flags = found - PageFlags::NEW_CHECKSUM - PageFlags::FLUSH_TYPE;
    let right = if page.is_leaf() { page.next() } else { None };
    let count = page.node_count();
    let prefixes = [prefix_line(&page, 0..cut.line), prefix_line(&page, cut.line..count)];
    let kind = if cut.append { split_type::APPEND } else { split_type::RIGHT };
    let target = SplitPages { page: page_number, new, parent: Some(parent), right };
    stamp_parent(group, shape, parent)?;
    finish(group, shape, kind, cut, &target, [found, flags], prefixes, insert)
}

/// Logs a Split2 without a new page. This record gives the parent of a split page its new database time.
fn stamp_parent(group: &mut AtomicGroup, shape: &TreeIdentity, parent: PageNumber) -> GroupResult<()> {
    let record = Split {
        change: group.change(parent, 0, shape.record_flags())?,
        new_page: None,
        right: None,
        right_before: NO_TIME,
        parent: None,
        parent_before: NO_TIME,
        root: shape.root,
        tree: shape.id,
        split_type: 0,
        operation: split_operation::NONE,
        operation_line: 0,
        split_line: 0,
        line_count: 0,
        new_flags: 0,
        split_flags: 0,
        split_uncommitted: 0,
        new_uncommitted: 0,
        split_prefix_line: 0,
        new_prefix_line: 0,
        parent_key: Vec::new(),
        old_prefix: Vec::new(),
        new_prefix: Vec::new(),
        image_flags: BeforeImageFlags::empty(),
        before_image: Vec::new(),
    };
    group.record(LogRecord::Split2(record));
    Ok(())
}

struct SplitPages {
    page: PageNumber,
    new: PageNumber,
    parent: Option<PageNumber>,
    right: Option<PageNumber>,
}

/// Line numbers in the record of a split. They count the incoming node.
struct SplitLines {
    operation: u8,
    operation_line: usize,
    split_line: usize,
    count: usize,
}

impl SplitLines {
    fn new(count: usize, cut: &SplitPoint, insert: Option<&SplitInsert<'_>>) -> SplitLines {
        match insert {
            Some(insert) => SplitLines {
                operation: split_operation::INSERT,
                operation_line: insert.incoming.line,
                split_line: cut.line + usize::from(!cut.incoming_right),
                count: count + 1,
            },
            None => SplitLines {
                operation: split_operation::NONE,
                operation_line: 0,
                split_line: cut.line,
                count,
            },
        }
    }

    /// Returns the line number that the record uses for an existing node.
    fn line_in_record(&self, line: usize) -> usize {
        line + usize::from(self.operation == split_operation::INSERT && line >= self.operation_line)
    }

    /// Returns the record's fields for the lines of the two prefixes. The second number is relative to the first line
    /// of the new page.
    fn prefix_fields(&self, [split, new]: [Option<usize>; 2]) -> [i32; 2] {
        let field = |line: Option<usize>| line.map_or(-1, |line| line as i32);
        [
            field(split.map(|line| self.line_in_record(line))),
            field(new.map(|line| self.line_in_record(line) - self.split_line)),
        ]
    }
}

#[allow(clippy::too_many_arguments, reason = "the fields of one log record, filled in one place")]
fn finish(
    group: &mut AtomicGroup,
    shape: &TreeIdentity,
    kind: u8,
    cut: &SplitPoint,
    target: &SplitPages,
    [split_flags, new_flags]: [PageFlags; 2],
    prefixes: [Option<usize>; 2],
    insert: Option<&SplitInsert<'_>>,
) -> GroupResult<()> {
    let size = group.file.page_size;
    let page = group.page(target.page)?;
    let lines = SplitLines::new(page.node_count(), cut, insert);
    let [split_prefix_line, new_prefix_line] = lines.prefix_fields(prefixes);
    let (old_prefix, new_prefix) = (page.prefix().to_vec(), prefix_of(&page, prefixes[0]));
    let mut record = Split {
        change: group.change(target.page, 0, shape.record_flags())?,
        new_page: Some(target.new),
        right: target.right,
        right_before: group.time_before(target.right)?,
        parent: target.parent,
        parent_before: group.time_before(target.parent)?,
        root: shape.root,
        tree: shape.id,
        split_type: kind,
        operation: lines.operation,
        operation_line: lines.operation_line as u16,
        split_line: lines.split_line as u16,
        line_count: lines.count as u16,
        new_flags: new_flags.bits(),
        split_flags: split_flags.bits(),
        split_uncommitted: 0,
        new_uncommitted: 0,
        split_prefix_line,
        new_prefix_line,
        parent_key: cut.separator.clone(),
        old_prefix,
        new_prefix,
        image_flags: BeforeImageFlags::empty(),
        before_image: Vec::new(),
    };
    if apply::moves_nodes(&record) {
        let page = group.page(target.page)?;
        let image = moving_nodes_image(&page, target.page, size, cut.line..page.node_count());
        let split_error = |misfit| Error::from(InternalError::Split { page: target.page, misfit });
        record.set_before_page(&image.map_err(split_error)?, size);
    }
    group.log_deferred_undo(target.page)?;
    change_pages(group, target, &record)?;
    group.record(LogRecord::Split2(record));
    match insert {
        Some(insert) => insert_incoming(group, target, cut, insert),
        None => Ok(()),
    }
}

/// Makes the changes of a split, except for the insert.
fn change_pages(group: &mut AtomicGroup, target: &SplitPages, record: &Split) -> GroupResult<()> {
    let size = group.file.page_size;
    let file = group.file.clone();
    let misfit = |fault: PageMisfit| GroupAbort::Failed(file.corrupt(target.page, fault));
    let (page, new) = group.new_page_and_other(target.page, target.new)?;
    apply::split_new(new, size, &page, record, None).map_err(misfit)?;
    match record.split_type {
        split_type::RIGHT => {
            let edit = apply::split_cut(record);
            group.edit(target.page, &edit)?.map_err(&misfit)?;
        }
        split_type::APPEND => apply::append_source(&mut group.links_mut(target.page)?, record),
        _ => apply::split_source(&mut group.page_mut(target.page)?, record).map_err(&misfit)?,
    }
    if let Some(right) = target.right {
        group.edit(right, &apply::split_right(record))?.map_err(&misfit)?;
    }
    if let Some(parent) = target.parent {
        apply::split_parent(&mut group.page_mut(parent)?, record).map_err(misfit)?;
    }
    Ok(())
}

/// Inserts the node for which the page was split.
fn insert_incoming(
    group: &mut AtomicGroup,
    target: &SplitPages,
    cut: &SplitPoint,
    insert: &SplitInsert<'_>,
) -> GroupResult<()> {
    let SplitInsert { incoming, mut node } = *insert;
    // As in ESE, this record stores no valid previous time, because the split record already gives the page its new
    // time.
    node.page.before = NO_TIME;
    node.page.page = target.page;
    node.page.line = incoming.line as u16;
    let (page, line) = if cut.incoming_right {
        (target.new, incoming.line - cut.line)
    } else {
        (target.page, incoming.line)
    };
    let [prefix, suffix] = cut_key(&group.page(page)?, incoming.key).map(<[u8]>::to_vec);
    let mut flags = NodeFlags::empty();
    flags.set(NodeFlags::VERSIONED, node.page.flags.contains(PageChangeFlags::VERSIONED));
    let delta = PageDelta::Insert { line, flags, key: incoming.key, data: incoming.data };
    let applied = group.edit(page, &delta)?;
    group.record_if_applied(
        page,
        applied,
        LogRecord::Insert(Insert { node, prefix, suffix, data: incoming.data.to_vec() }),
    )
}
