//! Moves leaves to other pages, for the sequential layout of a tree. A single record names all changed pages and
//! contains the content of the moved page. The same functions perform a move and redo it.

use ese_format::PageNumber;
use ese_format::PageSize;
use ese_format::log::record::{ImageError, LogRecord, PageMove, PageMoveFlags};
use ese_format::page::{PageFlags, PageMut};

use super::apply::{ApplyResult, empty_page, entry_of};
use super::{AtomicGroup, GroupAbort, GroupResult, TreeIdentity};
use crate::Corruption;
use crate::page_misfit::PageMisfit;

/// Builds the destination page of a move. Its checksum and flush type are set when it is written.
pub(crate) fn moved_page(bytes: &mut [u8], size: PageSize, record: &PageMove) -> Result<(), ImageError> {
    bytes.copy_from_slice(&record.page(size)?);
    let mut page = PageMut::new(bytes, size);
    page.set_number(record.destination);
    // The space between nodes can contain leftover bytes of deleted records, so the scrubbed mark is removed.
    page.set_flags(page.as_page().flags() - PageFlags::FLUSH_TYPE - PageFlags::SCRUBBED);
    Ok(())
}

/// Changes the entry in the parent of a moved page to point to the new location.
pub(crate) fn move_pointer(page: &mut PageMut<'_>, record: &PageMove) -> ApplyResult {
    let line = usize::try_from(record.parent_line).ok();
    let line = line
        .filter(|line| page.as_page().node(*line).and_then(|node| node.child()) == Some(record.change.page));
    let line = line
        .or_else(|| entry_of(&page.as_page(), record.change.page))
        .ok_or(PageMisfit::NoEntryOfMovedPage)?;
    let child = record.destination.get().to_le_bytes();
    page.replace_data(line, &child).map_err(|_| PageMisfit::NoRoom)
}

/// Parameters of a leaf move.
pub(crate) struct LeafMove {
    pub page: PageNumber,
    /// Destination page, which the tree has allocated from its available space in this group.
    pub destination: PageNumber,
    pub left: Option<PageNumber>,
    pub right: Option<PageNumber>,
    pub parent: PageNumber,
    /// Line of the leaf's entry in its parent.
    pub line: usize,
}

/// Moves a leaf. Afterwards, its old page is empty and belongs to no tree.
pub(crate) fn move_leaf(group: &mut AtomicGroup, shape: &TreeIdentity, what: &LeafMove) -> GroupResult<()> {
    let size = group.file.page_size;
    let file = group.file.clone();
    let misfit = |fault: Corruption| GroupAbort::Failed(file.corrupt(what.page, fault));
    group.log_deferred_undo(what.page)?;
    let gap = group.page(what.page)?.free_range();
    let bytes = group.copy_of(what.page)?;
    let record = PageMove {
        change: group.change(what.page, 0, shape.record_flags())?,
        destination: what.destination,
        left: what.left,
        right: what.right,
        parent: Some(what.parent),
        left_before: group.time_before(what.left)?,
        right_before: group.time_before(what.right)?,
        parent_before: group.time_of(what.parent)?,
        root: shape.root,
        tree: shape.id,
        parent_line: what.line as i32,
        flags: PageMoveFlags::empty(),
        head: bytes[..gap.start].to_vec(),
        tail: bytes[gap.end..].to_vec(),
    };
    moved_page(group.new_page(what.destination)?, size, &record).map_err(|e| misfit(e.into()))?;
    move_pointer(&mut group.page_mut(what.parent)?, &record).map_err(|e| misfit(e.into()))?;
    if let Some(left) = what.left {
        group.links_mut(left)?.set_next(Some(what.destination));
    }
    if let Some(right) = what.right {
        group.links_mut(right)?.set_prev(Some(what.destination));
    }
    empty_page(&mut group.page_mut(what.page)?);
    group.record(LogRecord::PageMove(record));
    Ok(())
}
