//! Merges, logged as in ESE: a macro with one Merge2 record for each changed page on the path, from the top-most page
//! to the merged leaf. The same functions perform a merge and redo it.
//!
//! Nodes flagged as deleted do not move. A merge is therefore allowed only if these nodes are dead, which means that no
//! snapshot can still see them.

use std::ops::Range;

use ese_format::PageNumber;
use ese_format::log::record::{BeforeImageFlags, LogRecord, Merge, MergeFlags};
use ese_format::page::{NodeFlags, Page, PageMut};

use super::apply::{ApplyResult, empty_page};
use super::before_image::moving_nodes_image;
pub(crate) use super::merge_type;
use super::{AtomicGroup, GroupAbort, GroupResult, NO_TIME, TreeIdentity};

use crate::cache::PageDelta;
use crate::page_misfit::PageMisfit;

/// Change to an internal page on the path to the merged leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathEdit {
    /// The entry is deleted. If it was the last entry and had no key, the preceding entry loses its key.
    Delete(u16),
    /// The entry gets the separator of the merge as its key.
    SetKey(u16),
    /// The entry is changed to lead to the left page, and the preceding entry is deleted.
    LeadToLeft(u16, PageNumber),
    /// The page is removed from the tree.
    Empty,
    /// Only the database time of the page changes.
    None,
}

impl PathEdit {
    /// Returns the change that the record of an internal page describes. `leaf` is the record of the merged leaf.
    pub fn from_record(record: &Merge, leaf: &Merge) -> Result<PathEdit, PageMisfit> {
        let (line, flags) = (record.change.line, record.flags);
        let [deletes, changes] = [MergeFlags::DELETE_NODE, MergeFlags::KEY_CHANGE].map(|f| flags.contains(f));
        Ok(match (deletes, changes) {
            (true, true) if leaf.merge_type == merge_type::FULL_LEFT => {
                PathEdit::LeadToLeft(line, leaf.left.ok_or(PageMisfit::NoLeftPage)?)
            }
            (true, _) => PathEdit::Delete(line),
            // The nodes move to the page of the preceding entry.
            (_, true) if leaf.merge_type == merge_type::PARTIAL_LEFT => {
                PathEdit::SetKey(line.checked_sub(1).ok_or(PageMisfit::NoPreviousPage)?)
            }
            (_, true) => PathEdit::SetKey(line),
            _ if flags.contains(MergeFlags::EMPTY_PAGE) => PathEdit::Empty,
            _ => PathEdit::None,
        })
    }

    /// Applies the change to a page. `separator` is the separator of the merge.
    pub fn apply(self, page: &mut PageMut<'_>, separator: &[u8]) -> ApplyResult {
        match self {
            PathEdit::Delete(line) => {
                let line = usize::from(line);
                let view = page.as_page();
                let last = line + 1 == view.node_count();
                let keyless = view.node(line).ok_or(PageMisfit::NoEntryOfMerge)?.key_len() == 0;
                page.delete_node(line);
                match line.checked_sub(1) {
                    Some(before) if last && keyless => set_separator(page, before, &[]),
                    _ => Ok(()),
                }
            }
            PathEdit::SetKey(line) => set_separator(page, line.into(), separator),
            PathEdit::LeadToLeft(line, left) => {
                let line = usize::from(line);
                let before = line.checked_sub(1).ok_or(PageMisfit::NoEntryOfMerge)?;
                page.replace_data(line, &left.get().to_le_bytes()).map_err(|_| PageMisfit::NoEntryOfMerge)?;
                page.delete_node(before);
                Ok(())
            }
            PathEdit::Empty => {
                empty_page(page);
                Ok(())
            }
            PathEdit::None => Ok(()),
        }
    }
}

/// Returns true if the merged leaf stays in the tree.
fn is_partial(kind: u8) -> bool {
    matches!(kind, merge_type::PARTIAL_LEFT | merge_type::PARTIAL_RIGHT)
}

/// Returns true if nodes move to the right neighbour.
fn moves_right(kind: u8) -> bool {
    matches!(kind, merge_type::FULL_RIGHT | merge_type::PARTIAL_RIGHT)
}

fn moves_left(kind: u8) -> bool {
    matches!(kind, merge_type::FULL_LEFT | merge_type::PARTIAL_LEFT)
}

/// Returns the nodes that a merge moves from a page with `count` nodes.
fn moving(kind: u8, line: usize, count: usize) -> Range<usize> {
    match kind {
        _ if moves_right(kind) => line.min(count)..count,
        _ if moves_left(kind) => 0..count.min(line + 1),
        _ => 0..0,
    }
}

/// Changes the key of entry `line` of an internal page.
fn set_separator(page: &mut PageMut<'_>, line: usize, separator: &[u8]) -> ApplyResult {
    let view = page.as_page();
    let entry = view.node(line).ok_or(PageMisfit::UnreadableEntry)?;
    let (child, flags) = (entry.data.to_vec(), entry.flags - NodeFlags::COMPRESSED);
    page.delete_node(line);
    page.insert_node(line, flags, separator, &child).map_err(|_| PageMisfit::NoRoom)
}

/// Inserts the nodes that are not flagged as deleted.
fn insert_live(page: &mut PageMut<'_>, mut at: usize, source: &Page<'_>, nodes: Range<usize>) -> ApplyResult {
    for line in nodes {
        let node = source.node(line).ok_or(PageMisfit::NoMovedNodes)?;
        if !node.flags.contains(NodeFlags::DELETED) {
            page.insert_nodes_from(at, source, line..line + 1).map_err(|_| PageMisfit::NoRoom)?;
            at += 1;
        }
    }
    Ok(())
}

/// Changes the right neighbour of the merged leaf.
pub(crate) fn merge_to_right(page: &mut PageMut<'_>, source: &Page<'_>, record: &Merge) -> ApplyResult {
    if moves_right(record.merge_type) {
        let first = usize::from(record.merge_line);
        if first >= source.node_count() {
            return Err(PageMisfit::NoMovedNodes);
        }
        insert_live(page, 0, source, first..source.node_count())?;
        page.set_uncommitted_free(record.destination_uncommitted.into());
    }
    if !is_partial(record.merge_type) {
        page.set_prev(record.left);
    }
    Ok(())
}

/// Changes the left neighbour of the merged leaf.
pub(crate) fn merge_to_left(page: &mut PageMut<'_>, source: &Page<'_>, record: &Merge) -> ApplyResult {
    if moves_left(record.merge_type) {
        let at = page.as_page().node_count();
        insert_live(page, at, source, 0..usize::from(record.merge_line) + 1)?;
        page.set_uncommitted_free(record.destination_uncommitted.into());
    }
    if !is_partial(record.merge_type) {
        page.set_next(record.right);
    }
    Ok(())
}

/// Returns the delta for a leaf of `count` nodes that loses some of them in a partial merge. Returns `None` if the
/// leaf is removed from the tree.
pub(crate) fn merge_source_delta(
    record: &Merge,
    count: usize,
) -> Result<Option<PageDelta<'static>>, PageMisfit> {
    if !is_partial(record.merge_type) {
        return Ok(None);
    }
    let nodes = moving(record.merge_type, record.merge_line.into(), count);
    if nodes.is_empty() || nodes.len() == count {
        Err(PageMisfit::PartialMerge)
    } else {
        Ok(Some(PageDelta::Delete { line: nodes.start, end: nodes.end }))
    }
}

/// An internal page that a merge changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathChange {
    pub page: PageNumber,
    /// Line of the entry in this page that leads to the leaf.
    pub line: usize,
    pub flags: MergeFlags,
}

/// Parameters of a leaf merge.
pub(crate) struct LeafMerge<'a> {
    pub kind: u8,
    pub page: PageNumber,
    /// Left and right neighbours, if the merge changes them.
    pub left: Option<PageNumber>,
    pub right: Option<PageNumber>,
    /// Line of the moved node that is adjacent to the remaining nodes, or 0 if no nodes remain. ESE: `ilineMerge`.
    pub line: usize,
    /// New key for entries on the path.
    pub separator: &'a [u8],
    /// The internal pages that change, from the top down. The last one is the parent of the leaf.
    pub path: &'a [PathChange],
}

/// Merges a leaf with a neighbour, or removes an empty leaf from the tree.
pub(crate) fn merge(group: &mut AtomicGroup, shape: &TreeIdentity, what: &LeafMerge<'_>) -> GroupResult<()> {
    let size = group.file.page_size;
    let file = group.file.clone();
    let misfit = |fault: PageMisfit| GroupAbort::Failed(file.corrupt(what.page, fault));
    let mut records = Vec::with_capacity(what.path.len());
    for (at, change) in what.path.iter().enumerate() {
        let parent = at.checked_sub(1).map(|above| what.path[above].page);
        records.push(path_record(group, shape, change, parent)?);
    }
    let before = group.copy_of(what.page)?;
    let source = Page::new(&before, size);
    let mut leaf = leaf_record(group, shape, what, &source)?;
    let nodes = moving(what.kind, what.line, source.node_count());
    if !nodes.is_empty() {
        group.log_deferred_undo(what.page)?;
        let image = moving_nodes_image(&source, what.page, size, nodes).map_err(misfit)?;
        leaf.set_before_page(&image, size);
    }
    for (change, record) in what.path.iter().zip(&records) {
        let edit = PathEdit::from_record(record, &leaf).map_err(misfit)?;
        edit.apply(&mut group.page_mut(change.page)?, &leaf.separator).map_err(misfit)?;
    }
    if let Some(right) = what.right {
        let mut page =
            if moves_right(what.kind) { group.page_mut(right)? } else { group.links_mut(right)? };
        merge_to_right(&mut page, &source, &leaf).map_err(misfit)?;
    }
    if let Some(left) = what.left {
        let mut page = if moves_left(what.kind) { group.page_mut(left)? } else { group.links_mut(left)? };
        merge_to_left(&mut page, &source, &leaf).map_err(misfit)?;
    }
    match merge_source_delta(&leaf, source.node_count()).map_err(misfit)? {
        Some(loss) => group.edit(what.page, &loss)?.map_err(misfit)?,
        None => empty_page(&mut group.page_mut(what.page)?),
    }
    records.into_iter().chain([leaf]).for_each(|record| group.record(LogRecord::Merge2(record)));
    Ok(())
}

/// Returns the record for an internal page.
fn path_record(
    group: &mut AtomicGroup,
    shape: &TreeIdentity,
    change: &PathChange,
    parent: Option<PageNumber>,
) -> GroupResult<Merge> {
    Ok(Merge {
        change: group.change(change.page, change.line, shape.record_flags())?,
        right: None,
        right_before: NO_TIME,
        left: None,
        left_before: NO_TIME,
        parent,
        parent_before: group.time_before(parent)?,
        root: shape.root,
        tree: shape.id,
        moved: 0,
        moved_max: 0,
        destination_uncommitted: 0,
        merge_line: 0,
        flags: change.flags,
        merge_type: merge_type::PATH,
        separator: Vec::new(),
        image_flags: BeforeImageFlags::empty(),
        before_image: Vec::new(),
    })
}

/// Returns the record for the leaf, without its image.
fn leaf_record(
    group: &mut AtomicGroup,
    shape: &TreeIdentity,
    what: &LeafMerge<'_>,
    source: &Page<'_>,
) -> GroupResult<Merge> {
    let flags = if is_partial(what.kind) { MergeFlags::empty() } else { MergeFlags::EMPTY_PAGE };
    let change = PathChange { page: what.page, line: 0, flags };
    let parent = what.path.last().map(|parent| parent.page);
    let destination = if moves_right(what.kind) { what.right } else { what.left };
    let uncommitted = match destination {
        Some(page) => group.page(page)?.uncommitted_free(),
        None => 0,
    };
    let nodes = moving(what.kind, what.line, source.node_count());
    let moved = source.used_space(nodes) as u16;
    Ok(Merge {
        right: what.right,
        right_before: group.time_before(what.right)?,
        left: what.left,
        left_before: group.time_before(what.left)?,
        moved,
        moved_max: moved,
        destination_uncommitted: uncommitted as u16,
        merge_line: what.line as u16,
        merge_type: what.kind,
        separator: what.separator.to_vec(),
        ..path_record(group, shape, &change, parent)?
    })
}
