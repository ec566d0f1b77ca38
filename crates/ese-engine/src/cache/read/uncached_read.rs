//! Reads that bypass the cache. They detect or exclude concurrent writes of the pages.
//!
//! A scan that finds a bad page assigns a frame to the page and claims it. The claim excludes writers until the page
//! has been read again.
//!
//! A read concurrent with a write of the same page can return a torn page. ESE's checksum is linear and does not
//! detect every tear. Therefore a page that was written during the read is read again while its write claim is held.
//!
//! ```text
//!  reader   announce the range ─> note claimed pages ─> read ───────────────> pages in doubt
//!  writer   claim ─────────────────────> note its pages in announced ranges ─> write ─> end of claim
//! ```
//!
//! Invariant: a writer claims a page before it checks for announced ranges, and a reader announces its range before
//! it checks for claims. At least one of the two therefore detects the other.

use std::collections::BTreeSet;
use std::io;

use ese_format::PageNumber;
use ese_format::checksum::{PageIntegrity, verify_page};
use jetcell_sync::Arc;
use jetcell_vfs::IoReason;

use super::fetch::PageReader;
use crate::Result;
use crate::cache::frame::CleanClaim;
use crate::cache::shared::{AnnouncedRange, AttachedFile};
use crate::cache::{AttachedFileId, PageKey, PinnedPage};

/// Result of verifying the on-disk copy of a cached page ([`PageReader::verify_on_disk`]).
#[derive(Debug)]
pub enum OnDiskVerification {
    /// The cache has a newer state, which will overwrite the state on disk.
    Superseded,
    /// The page is currently being written. The caller should retry.
    Busy,
    /// The page could not be read from disk.
    Unreadable(io::Error),
    /// The page was read and verified, with this result.
    Verified(PageIntegrity),
}

/// A cache-bypassing read of a range of pages.
pub(crate) struct WatchedRead {
    attached: Arc<AttachedFile>,
    range: Arc<AnnouncedRange>,
}

impl WatchedRead {
    /// Returns the pages of the range that writers may have written since it was announced.
    pub fn possibly_written(&self) -> BTreeSet<PageNumber> {
        self.range.written.lock().clone()
    }
}

impl Drop for WatchedRead {
    fn drop(&mut self) {
        self.attached.announced.withdraw(&self.range);
    }
}

impl PageReader {
    /// Announces a read that bypasses the cache, of `count` pages starting at `first`.
    pub(crate) fn watch_read(
        &self,
        file: AttachedFileId,
        first: PageNumber,
        count: u32,
    ) -> Result<WatchedRead> {
        let attached = self.shared.file(file)?;
        let pages = first.get()..first.get().saturating_add(count);
        let range = attached.announced.announce(pages.clone());
        let is_claimed = |page: &PageNumber| {
            let pinned = self.page_table().pin(PageKey { file, page: *page });
            pinned.is_some_and(|pinned| pinned.frame().is_claimed())
        };
        let claimed: Vec<PageNumber> = pages.filter_map(PageNumber::new).filter(is_claimed).collect();
        range.written.lock().extend(claimed);
        Ok(WatchedRead { attached, range })
    }

    /// Reads a page into `bytes`, bypassing the cache and excluding writers, and verifies it. Flipped bits are
    /// corrected only in `bytes`. Must not be called with a latch held.
    pub fn verify_on_disk(
        &self,
        key: PageKey,
        bytes: &mut [u8],
        reason: IoReason,
    ) -> Result<OnDiskVerification> {
        let attached = self.shared.file(key.file)?;
        let page = self.frame_of(key)?;
        match page.frame().claim_clean() {
            CleanClaim::Busy => return Ok(OnDiskVerification::Busy),
            CleanClaim::Dirty => return Ok(OnDiskVerification::Superseded),
            CleanClaim::Claimed => {}
        }
        Ok(self.read_claimed(&attached, &page, bytes, reason))
    }

    /// Reads a page from disk into `bytes`, bypassing the cache and excluding writers, and verifies it. The cache may
    /// have a newer state. Flipped bits are corrected only in `bytes`. Must not be called with a latch held.
    pub(crate) fn read_under_claim(
        &self,
        key: PageKey,
        bytes: &mut [u8],
        reason: IoReason,
    ) -> Result<OnDiskVerification> {
        let attached = self.shared.file(key.file)?;
        let page = self.frame_of(key)?;
        if !page.frame().claim_unwritten() {
            return Ok(OnDiskVerification::Busy);
        }
        Ok(self.read_claimed(&attached, &page, bytes, reason))
    }

    /// Reads and verifies a page that this thread has claimed, and releases the claim.
    fn read_claimed(
        &self,
        attached: &AttachedFile,
        page: &PinnedPage,
        bytes: &mut [u8],
        reason: IoReason,
    ) -> OnDiskVerification {
        let number = page.key().page;
        let read = attached.file.read_at(self.page_size.offset_of(number), bytes, reason);
        page.frame().unclaim();
        match read {
            Ok(()) => OnDiskVerification::Verified(verify_page(bytes, self.page_size, number)),
            Err(error) => OnDiskVerification::Unreadable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::CacheFixture;

    #[test]
    fn writers_stop_tracking_a_range_after_the_read_completes() {
        let fixture = CacheFixture::new(32, 10, false);
        let read = fixture.cache.watch_read(fixture.file, PageNumber::fixed(2), 3).unwrap();
        let range = Arc::downgrade(&read.range);
        drop(read);
        assert!(range.upgrade().is_none());
    }
}
