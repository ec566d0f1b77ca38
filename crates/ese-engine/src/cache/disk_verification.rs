//! Verifies a page on disk while guaranteeing that the page is not being written.
//!
//! A read that runs concurrently with a write of the page can return a torn page. A scan that finds a bad page calls
//! this module, which assigns a frame to the page and claims it, to exclude writers until the page has been read
//! again.

use std::io;

use ese_format::checksum::{PageIntegrity, verify_page};
use jetcell_vfs::IoReason;

use super::frame::{CleanClaim, FrameState};
use super::{Cache, PageKey, PinnedPage};
use crate::Result;

/// Result of verifying the on-disk copy of a cached page ([`Cache::verify_on_disk`]).
#[derive(Debug)]
pub enum OnDiskVerification {
    /// The cache has a newer state, which will overwrite the state on disk.
    Superseded,
    /// The page is currently being written. The caller should retry.
    Busy,
    /// The page could not be read from disk.
    Unreadable(io::Error),
    /// The page was read and has this integrity.
    Verified(PageIntegrity),
}

impl Cache {
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
        let read = attached.file.read_at(self.page_size.offset_of(key.page), bytes, reason);
        page.frame().unclaim();
        Ok(match read {
            Ok(()) => OnDiskVerification::Verified(verify_page(bytes, self.page_size, key.page)),
            Err(error) => OnDiskVerification::Unreadable(error),
        })
    }

    /// Pins the frame of the page, in any state. A page without a frame gets an empty one, which will be evicted
    /// next.
    pub(super) fn frame_of(&self, key: PageKey) -> Result<PinnedPage> {
        loop {
            if let Some(page) = self.page_table.pin(key) {
                return Ok(page);
            }
            let frame = self.take_available().map_or_else(|| self.evict_or_write(), Ok)?;
            frame.assign(key, FrameState::Unread);
            let page = PinnedPage::adopt(frame);
            if self.insert_cold(&page) {
                return Ok(page);
            }
        }
    }
}
