//! Reads adjacent pages for a scan that may change them. One transfer serves both the scan and the cache.

use std::io;

use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use super::fetch::PageReader;
use super::preread::arrived_in;
use crate::cache::frame::FrameState;
use crate::cache::{PageKey, PinnedPage};

/// Result of reading adjacent pages: the outcome, the bytes, and a pin for each page that this read brought into the
/// cache.
/// If a page has a pin, its bytes were the newest state at the time of the read. The pin keeps the page in the cache.
pub(crate) type PageReadResult = (io::Result<()>, IoBuffer, Vec<Option<PinnedPage>>);

/// Divisor of the number of frames that gives the maximum number of pages per read.
const PART: usize = 8;

impl PageReader {
    /// Starts reading adjacent pages into `buffer`, and returns without waiting.
    ///
    /// Pages up to `last` that have no frame get one if a frame is available. For these pages,
    /// [`PageReader::fetch_cold`] needs no further read. For the other pages, the cache may hold a newer state than the
    /// bytes that were read.
    pub(crate) fn read_through(
        &self,
        first: PageKey,
        last: u32,
        buffer: IoBuffer,
        done: impl FnOnce(PageReadResult) + Send + 'static,
    ) {
        let page_bytes = self.page_size.bytes();
        let count = buffer.len() / page_bytes;
        let Some(attached) = self.shared.find_file(first.file) else {
            return done((Err(io::ErrorKind::NotFound.into()), buffer, Vec::new()));
        };
        let mut room = (self.limits.frames / PART).max(1);
        let mut reserve = |index: u32| {
            let key = PageKey { page: first.page.plus(index), ..first };
            let page = if room > 0 && key.page.get() <= last { self.reserve(key) } else { None };
            room -= usize::from(page.is_some());
            page
        };
        let loading: Vec<Option<PinnedPage>> = (0..count as u32).map(&mut reserve).collect();
        attached.in_flight.begin(1);
        let file = attached.file.clone();
        let completed = move |result: io::Result<()>, buffer: IoBuffer| {
            for (page, copy) in loading.iter().zip(buffer.chunks_exact(page_bytes)) {
                let Some(page) = page else { continue };
                arrived_in(page, copy, &result);
            }
            attached.in_flight.end(1);
            done((result, buffer, loading));
        };
        file.submit(vec![Transfer {
            kind: TransferKind::Read,
            offset: self.page_size.offset_of(first.page),
            buffer,
            reason: IoReason::Scan,
            done: Box::new(completed),
        }]);
    }

    /// Reserves a frame for a page that has neither its bytes nor deltas in memory. A session that needs the page
    /// waits until it is read.
    fn reserve(&self, key: PageKey) -> Option<PinnedPage> {
        if self.contains(key) {
            return None;
        }
        let frame = self.supply.take_available()?;
        frame.assign(key, FrameState::Loading);
        let page = PinnedPage::adopt(frame);
        if !self.residents().insert(&page, false) {
            return None;
        }
        // The page was evicted with changes after the check above.
        if page.frame().deltas_pending() {
            page.frame().transition(FrameState::Loading, FrameState::Unread);
            return None;
        }
        Some(page)
    }
}
