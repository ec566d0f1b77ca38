//! Applies log records to the bytes of a page. For merge records, see the module [`merge`](super::merge).
//!
//! Invariant: the same functions run when a change is made and when it is redone. Recovery therefore cannot differ
//! from normal operation. Each function changes one page, takes everything else from the record, and does not set the
//! dbtime.

use ese_format::log::record::{Split, split_operation};
use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
use ese_format::{PageNumber, PageSize};

use super::new_page_flags;
use crate::cache::PageDelta;
use crate::page_misfit::PageMisfit;

/// Values of `Split::split_type`.
pub(crate) mod split_type {
    /// The nodes of the root move to a new child.
    pub const VERTICAL: u8 = 0;
    /// The upper nodes move to a new right neighbour.
    pub const RIGHT: u8 = 1;
    /// The page gets a new, empty right neighbour at the right edge of the tree.
    pub const APPEND: u8 = 2;
}

/// Result of applying a record to a page.
pub(crate) type ApplyResult = Result<(), PageMisfit>;

/// Returns the flags of a node without `COMPRESSED`, for rewriting the node.
pub(crate) fn flags_of(page: &Page<'_>, line: usize) -> NodeFlags {
    page.node(line).map_or(NodeFlags::empty(), |node| node.flags - NodeFlags::COMPRESSED)
}

/// Returns the number of nodes that stay on the split page. If the split makes room for an insert, the line numbers
/// in the record include the incoming node.
pub(crate) fn remaining_nodes(record: &Split) -> usize {
    let incoming_stays =
        record.operation == split_operation::INSERT && record.operation_line < record.split_line;
    usize::from(record.split_line) - usize::from(incoming_stays)
}

/// Returns true if nodes of the split page move to the new page. In that case, redo of the new page needs the image
/// of the split page.
#[doc(alias = "FBTISplitPageBeforeImageRequired")]
pub(crate) fn moves_nodes(record: &Split) -> bool {
    let incoming = usize::from(record.operation == split_operation::INSERT);
    match record.split_type {
        split_type::APPEND => false,
        split_type::RIGHT => remaining_nodes(record) + incoming < usize::from(record.line_count),
        _ => true,
    }
}

/// Checks that the node count of the split page matches the record.
pub(crate) fn check_split_lines(record: &Split, count: usize) -> ApplyResult {
    let counted = count + usize::from(record.operation == split_operation::INSERT);
    if usize::from(record.line_count) == counted && record.split_line <= record.line_count {
        Ok(())
    } else {
        Err(PageMisfit::SplitNodeCount)
    }
}

/// Changes the split page, which loses its upper nodes (right), all nodes (vertical), or no nodes (append).
pub(crate) fn split_source(page: &mut PageMut<'_>, record: &Split) -> ApplyResult {
    match record.split_type {
        split_type::VERTICAL => {
            page.clear_nodes();
            let flush_type = page.as_page().flags() & PageFlags::FLUSH_TYPE;
            let flags = PageFlags::from_bits_retain(record.split_flags) - PageFlags::FLUSH_TYPE;
            page.set_flags(flags | flush_type);
            let child = child_bytes(record)?;
            page.insert_node(0, NodeFlags::empty(), &[], &child).map_err(|_| PageMisfit::NoRoom)?;
        }
        split_type::APPEND => append_source(page, record),
        split_type::RIGHT => split_cut(record).apply(page)?,
        _ => return Err(PageMisfit::SplitType),
    }
    page.set_uncommitted_free(record.split_uncommitted.max(0) as usize);
    Ok(())
}

/// Changes the page that is split in an append split. Only its right link changes.
pub(crate) fn append_source(page: &mut PageMut<'_>, record: &Split) {
    page.set_next(record.new_page);
}

/// Returns the delta for a page that is split to the right.
pub(crate) fn split_cut(record: &Split) -> PageDelta<'_> {
    PageDelta::Cut { line: remaining_nodes(record), prefix: &record.new_prefix, next: record.new_page }
}

/// Returns the line on the split page of the node whose key becomes the prefix of the new page. Returns `None` if the
/// prefix is the key of the incoming node, or if the new page has no prefix.
fn new_prefix_node(record: &Split) -> Option<usize> {
    let line = usize::try_from(record.new_prefix_line).ok()?.checked_add(record.split_line.into())?;
    let operation_line = usize::from(record.operation_line);
    match record.operation == split_operation::INSERT {
        true if line == operation_line => None,
        true if line > operation_line => Some(line - 1),
        _ => Some(line),
    }
}

/// Returns true if the prefix of the new page is the key of the incoming node.
pub(crate) fn prefix_is_incoming(record: &Split) -> bool {
    record.new_prefix_line >= 0 && new_prefix_node(record).is_none()
}

/// Builds the page that a split adds, without the incoming node. The old content of `bytes` is overwritten.
/// `incoming_key` is required if the prefix is the key of the incoming node.
pub(crate) fn split_new<'a>(
    bytes: &'a mut [u8],
    size: PageSize,
    before: &Page<'_>,
    record: &Split,
    incoming_key: Option<&[u8]>,
) -> Result<PageMut<'a>, PageMisfit> {
    let new_page = record.new_page.ok_or(PageMisfit::NoNewPage)?;
    let flags = new_page_flags(record.new_flags);
    let mut page = PageMut::format(bytes, size, new_page, record.tree, flags);
    let prefix = match new_prefix_node(record) {
        Some(line) => Some(before.node(line).ok_or(PageMisfit::NoPrefixNode)?.key_to_vec()),
        None if record.new_prefix_line >= 0 => Some(incoming_key.ok_or(PageMisfit::NoIncomingNode)?.to_vec()),
        None => None,
    };
    if let Some(prefix) = prefix {
        page.set_external_header(&prefix).map_err(|_| PageMisfit::NoRoomForHeader)?;
    }
    let from = match record.split_type {
        split_type::VERTICAL => 0,
        split_type::APPEND => before.node_count(),
        _ => remaining_nodes(record),
    };
    page.copy_nodes_from(before, from..before.node_count()).map_err(|_| PageMisfit::NoRoom)?;
    if record.split_type != split_type::VERTICAL && flags.contains(PageFlags::LEAF) {
        page.set_prev(Some(record.change.page));
        page.set_next(record.right);
    }
    page.set_uncommitted_free(record.new_uncommitted.max(0) as usize);
    Ok(page)
}

/// Returns the delta for the right neighbour of a split leaf.
pub(crate) fn split_right(record: &Split) -> PageDelta<'static> {
    PageDelta::SetPrev(record.new_page)
}

/// Changes the parent of a split page. The new separator points to the split page, and the old entry points to the
/// new page.
pub(crate) fn split_parent(page: &mut PageMut<'_>, record: &Split) -> ApplyResult {
    let line = entry_near(&page.as_page(), record.change.page, &record.parent_key)
        .ok_or(PageMisfit::NoEntryOfSplitPage)?;
    page.replace_data(line, &child_bytes(record)?).map_err(|_| PageMisfit::NoRoom)?;
    let child = record.change.page.get().to_le_bytes();
    page.insert_node(line, NodeFlags::empty(), &record.parent_key, &child).map_err(|_| PageMisfit::NoRoom)
}

/// Inserts the separator of a split page as entry `line` of the parent. The parent itself is being split, too.
pub(crate) fn insert_separator(page: &mut PageMut<'_>, line: usize, record: &Split) -> ApplyResult {
    let child = record.change.page.get().to_le_bytes();
    page.insert_node(line, NodeFlags::empty(), &record.parent_key, &child).map_err(|_| PageMisfit::NoRoom)
}

/// Changes entry `line` of a parent to point to the new page instead of the split page.
pub(crate) fn set_pointer(page: &mut PageMut<'_>, line: usize, record: &Split) -> ApplyResult {
    let view = page.as_page();
    if view.node(line).and_then(|node| node.child()) != Some(record.change.page) {
        return Err(PageMisfit::NoEntryOfSplitPage);
    }
    page.replace_data(line, &child_bytes(record)?).map_err(|_| PageMisfit::NoRoom)
}

/// Clears a page that is removed from its tree: removes all nodes and the prefix, and marks the page as empty. A root
/// keeps its external header, which is not a prefix.
pub(crate) fn empty_page(page: &mut PageMut<'_>) {
    page.clear_nodes();
    let flags = page.as_page().flags();
    if !flags.contains(PageFlags::ROOT) {
        // This cannot fail: a shorter external header always fits.
        let _ = page.set_external_header(&[]);
    }
    page.set_flags(flags | PageFlags::EMPTY);
}

fn child_bytes(record: &Split) -> Result<[u8; 4], PageMisfit> {
    record.new_page.map(|page| page.get().to_le_bytes()).ok_or(PageMisfit::NoNewPage)
}

/// Returns the entry of an internal page that leads to `child`. The entry at the position of `key` is checked first.
pub(crate) fn entry_near(page: &Page<'_>, child: PageNumber, key: &[u8]) -> Option<usize> {
    let near = page.child_for(key).filter(|(_, found)| *found == child);
    near.map(|(line, _)| line).or_else(|| entry_of(page, child))
}

/// Returns the entry of an internal page that leads to `child`. The search starts at the end, because inserts in key
/// order split the last leaf.
pub(crate) fn entry_of(page: &Page<'_>, child: PageNumber) -> Option<usize> {
    (0..page.node_count()).rev().find(|&line| page.node(line).and_then(|node| node.child()) == Some(child))
}

/// Empties the root of a tree whose other pages have all been removed.
pub(crate) fn empty_root(page: &mut PageMut<'_>) {
    page.clear_nodes();
    let flags = page.as_page().flags() - PageFlags::PARENT_OF_LEAF;
    page.set_flags(flags | PageFlags::LEAF);
}
