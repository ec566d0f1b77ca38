//! Overwrites deleted data, like ESE's maintenance. The scan and redo call these functions.

use ese_format::compression::erase;
use ese_format::log::record::Scrub;
use ese_format::page::{NodeFlags, PageFlags, PageMut};

use super::apply::ApplyResult;
use crate::page_misfit::PageMisfit;

/// Fill bytes with which ESE overwrites data. In order: deleted data, long-value chunks, unused bytes of pages in use,
/// and pages that are not in use.
const DELETED_DATA: u8 = b'D';
const LONG_VALUE: u8 = b'L';
const FREE_OF_USED_PAGE: u8 = b'Z';
const UNUSED_PAGE: u8 = b'U';

/// Flag of a [`Scrub`] record: the page is not in use.
pub(crate) const NOT_IN_USE: u32 = 1;
/// Operations on a node: keep it, overwrite its data, or overwrite a long-value chunk.
pub(crate) const KEEP: u8 = 0;
pub(crate) const SCRUB_DATA: u8 = 1;
pub(crate) const SCRUB_LONG_VALUE: u8 = 2;

/// Overwrites the nodes that the record lists, and all unused bytes.
pub(crate) fn scrub(page: &mut PageMut<'_>, record: &Scrub) -> ApplyResult {
    if record.flags & NOT_IN_USE != 0 {
        page.clear_nodes();
        page.overwrite_unused(UNUSED_PAGE);
    } else {
        let count = page.as_page().node_count();
        let operations = record.operations().filter(|operations| operations.len() == count);
        let operations = operations.ok_or(PageMisfit::ScrubNodeCount)?;
        for (line, operation) in operations.iter().enumerate() {
            scrub_node(page, line, *operation)?;
        }
        overwrite_unused(page);
    }
    page.set_flags(page.as_page().flags() | PageFlags::SCRUBBED);
    Ok(())
}

/// Overwrites the bytes of a page that no node uses. The page must not contain deleted nodes.
pub(crate) fn overwrite_unused(page: &mut PageMut<'_>) {
    page.overwrite_unused(FREE_OF_USED_PAGE);
    page.set_flags(page.as_page().flags() | PageFlags::SCRUBBED);
}

fn scrub_node(page: &mut PageMut<'_>, line: usize, operation: u8) -> ApplyResult {
    let view = page.as_page();
    let node = view.node(line).ok_or(PageMisfit::UnreadableNode)?;
    let (mut data, flags) = (node.data.to_vec(), node.flags - NodeFlags::VERSIONED);
    match operation {
        KEEP => return Ok(()),
        SCRUB_DATA => data.fill(DELETED_DATA),
        SCRUB_LONG_VALUE => erase(&mut data, LONG_VALUE),
        _ => return Err(PageMisfit::ScrubOperation),
    }
    page.replace_data(line, &data).map_err(|_| PageMisfit::ScrubLength)?;
    page.set_node_flags(line, flags);
    Ok(())
}
