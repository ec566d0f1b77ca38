//! Keeps track of unreadable pages, and installs page images instead of reading the pages.

use std::time::Duration;

use ese_format::{LogPosition, PageNumber};
use jetcell_sync::atomic::Ordering;

use super::fetch::PageReader;
use crate::Result;
use crate::cache::frame::FrameState;
use crate::cache::{AttachedFileId, PageKey};

impl PageReader {
    /// Records that a page of a file is damaged. Called by readers that bypass the cache.
    pub(crate) fn record_damage(&self, key: PageKey) {
        if let Some(attached) = self.shared.find_file(key.file) {
            attached.damaged.insert(key.page, self.clock.monotonic());
        }
    }

    /// Returns the pages of a file that could not be read.
    pub(crate) fn damaged_pages(&self, file: AttachedFileId) -> Vec<PageNumber> {
        let attached = self.shared.find_file(file);
        attached.map(|attached| attached.damaged.list()).unwrap_or_default()
    }

    /// Records that a page is valid again.
    pub(crate) fn clear_damage(&self, file: AttachedFileId, page: PageNumber) {
        if let Some(attached) = self.shared.find_file(file) {
            attached.damaged.remove(page);
        }
    }

    /// Sets how long sessions wait for a damaged page of the file to be repaired. Zero disables waiting and ends all
    /// current waits.
    pub(crate) fn set_repair_wait(&self, file: AttachedFileId, limit: Duration) {
        if let Some(attached) = self.shared.find_file(file) {
            attached.damaged.set_limit(limit);
        }
    }

    /// Installs an image in the frame of a page that cannot be read or has not been read yet. In-memory changes to
    /// the old page are dropped, because the image includes them.
    ///
    /// The page becomes dirty. Redo needs the log from `first` on, and the log must be durable up to `last` before
    /// the page is written. Returns false if the page is already in memory. Must not be called with a latch held.
    pub(crate) fn install_image(
        &self,
        key: PageKey,
        image: &[u8],
        first: LogPosition,
        last: LogPosition,
    ) -> Result<bool> {
        loop {
            self.shared.check()?;
            let page = self.frame_of(key)?;
            let frame = page.frame();
            match frame.state() {
                FrameState::Unread if frame.transition(FrameState::Unread, FrameState::Loading) => {
                    let attached = match self.shared.file(key.file) {
                        Ok(attached) => attached,
                        Err(error) => {
                            frame.transition(FrameState::Loading, FrameState::Unread);
                            return Err(error);
                        }
                    };
                    frame.discard_changes(&attached);
                    let mut bytes = frame.take_bytes();
                    bytes.copy_from_slice(image);
                    frame.put_bytes(bytes);
                    frame.read_ahead.store(false, Ordering::Relaxed);
                    // No session may use the page before it is dirty.
                    let mut latch = page.write();
                    latch.mark_dirty(first);
                    latch.set_last(last);
                    frame.transition(FrameState::Loading, FrameState::Ready);
                    return Ok(true);
                }
                FrameState::Ready => return Ok(false),
                FrameState::Loading => frame.wait_while_loading(),
                // Only a read can determine whether the page is valid.
                FrameState::Fresh | FrameState::Unverified => {
                    drop(page);
                    if self.fetch_tentatively(key).is_ok() {
                        return Ok(false);
                    }
                }
                _ => {}
            }
        }
    }
}
