//! Removal of pages that are no longer part of their database.

use ese_format::PageNumber;

use super::{AttachedFileId, Cache};
use crate::Result;

impl Cache {
    /// Removes pages that are no longer part of the database from the cache, together with their changes.
    ///
    /// `wanted` returns true for the pages to remove, all of which are within `ranges`. Until such a page is created
    /// again, it reads as an unused page. Must not be called with a latch held, nor while another thread changes
    /// these pages.
    pub(crate) fn drop_pages(
        &self,
        file: AttachedFileId,
        ranges: &[(u32, u32)],
        wanted: impl Fn(PageNumber) -> bool,
    ) -> Result<()> {
        let attached = self.shared.file(file)?;
        ranges.iter().for_each(|(first, last)| attached.released.add(*first, *last));
        if self.page_table.remove_pages(&attached, &self.shared.deltas, wanted) {
            // Page writes must complete before the caller changes the file.
            attached.in_flight.wait();
        }
        Ok(())
    }

    /// Returns true if all of these pages were returned to the file system since the file was attached, and are still
    /// unused.
    pub(crate) fn are_released(&self, file: AttachedFileId, first: u32, last: u32) -> bool {
        self.shared.find_file(file).is_some_and(|attached| attached.released.contains(first, last))
    }
}
