//! Removal of pages that are no part of their database any more.

use ese_format::PageNumber;

use super::{Cache, FileId};
use crate::Result;

impl Cache {
    /// Removes pages from the cache, with their changes: they are no part of the database any more. Until one of them is
    /// created again, it reads as an unused page. `wanted` is true for these pages, which are in `ranges`.
    ///
    /// Must not be called with a latch held, nor while someone changes these pages.
    pub(crate) fn forget_pages(
        &self,
        file: FileId,
        ranges: &[(u32, u32)],
        wanted: impl Fn(PageNumber) -> bool,
    ) -> Result<()> {
        let attached = self.shared.file(file)?;
        ranges.iter().for_each(|(first, last)| attached.given_back.add(*first, *last));
        if self.page_table.remove_pages(&attached, &self.shared.deltas, wanted) {
            // A page that is being written must be in the file before the file changes.
            attached.in_flight.wait();
        }
        Ok(())
    }

    /// Whether all of these pages were given back since the file was attached, and none is in use again.
    pub(crate) fn are_given_back(&self, file: FileId, first: u32, last: u32) -> bool {
        self.shared.find_file(file).is_some_and(|attached| attached.given_back.contains(first, last))
    }
}
