//! What the disk holds of a page, read while nobody writes it.
//!
//! A read beside a write of the same page may see half of it. Whoever doubts a page asks here: the page gets a frame,
//! and the frame's claim, which every writer needs, keeps writers away until the page has been read again.

use std::io;

use ese_format::checksum::{PageIntegrity, verify_page};
use jetcell_vfs::IoReason;

use super::change::Hold;
use super::frame::State;
use super::{Cache, PageKey, PinnedPage};
use crate::Result;

/// Answer of [`Cache::verify_on_disk`].
#[derive(Debug)]
pub enum OnDiskPage {
    /// Memory holds a newer state, which will be written over whatever the disk holds.
    Superseded,
    /// The page is being written just now: ask again.
    Busy,
    /// The disk does not give the page.
    Unreadable(io::Error),
    /// What the disk holds.
    Verified(PageIntegrity),
}

impl Cache {
    /// Reads a page past the cache, into `bytes`, while nobody writes it, and verifies it. Single flipped bits are put
    /// right in `bytes` only. Must not be called with a latch held.
    pub fn verify_on_disk(&self, key: PageKey, bytes: &mut [u8], reason: IoReason) -> Result<OnDiskPage> {
        let attached = self.books.file(key.file)?;
        let page = self.frame_of(key)?;
        match page.frame().hold() {
            Hold::Busy => return Ok(OnDiskPage::Busy),
            Hold::Dirty => return Ok(OnDiskPage::Superseded),
            Hold::Held => {}
        }
        let read = attached.file.read_at(self.page_size.offset_of(key.page), bytes, reason);
        page.frame().unclaim();
        Ok(match read {
            Ok(()) => OnDiskPage::Verified(verify_page(bytes, self.page_size, key.page)),
            Err(error) => OnDiskPage::Unreadable(error),
        })
    }

    /// Pins the page's frame, in whatever state; a page that has none gets an empty one, which is the next to go.
    fn frame_of(&self, key: PageKey) -> Result<PinnedPage> {
        loop {
            if let Some(page) = self.table.pin(key) {
                return Ok(page);
            }
            let frame = self.take_available().map_or_else(|| self.make_room(), Ok)?;
            frame.assign(key, State::Unread);
            let page = PinnedPage::adopt(frame);
            if self.enter_once(&page) {
                return Ok(page);
            }
        }
    }
}
