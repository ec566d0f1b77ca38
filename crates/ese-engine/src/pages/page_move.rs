//! Moves pages, as the defragmentation of ESE does. Jetcell redoes these records and writes none.

use ese_format::PageSize;
use ese_format::log::record::{ImageError, PageMove};
use ese_format::page::{PageFlags, PageMut};

use super::apply::{Applied, NO_ROOM, entry_of};

/// Builds the page to which a page moves. Its checksum and flush type are set when it is written.
pub(crate) fn moved_page(bytes: &mut [u8], size: PageSize, record: &PageMove) -> Result<(), ImageError> {
    bytes.copy_from_slice(&record.page(size)?);
    let mut page = PageMut::new(bytes, size);
    page.set_number(record.destination);
    page.set_flags(page.as_page().flags() - PageFlags::FLUSH_TYPE);
    Ok(())
}

/// Makes the parent of a moved page lead to its new place.
pub(crate) fn move_pointer(page: &mut PageMut<'_>, record: &PageMove) -> Applied {
    let line = usize::try_from(record.parent_line).ok();
    let line = line
        .filter(|line| page.as_page().node(*line).and_then(|node| node.child()) == Some(record.change.page));
    let line = line
        .or_else(|| entry_of(&page.as_page(), record.change.page))
        .ok_or("parent has no entry for the moved page")?;
    let child = record.destination.get().to_le_bytes();
    page.replace_data(line, &child).map_err(|_| NO_ROOM)
}
