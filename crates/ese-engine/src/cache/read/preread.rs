//! Read-ahead: reads many pages with one call, and adjacent pages with one transfer. ESE: preread.
//!
//! A read-ahead is a hint. Pages for which no frame is available are skipped, and a failed read is reported when the
//! page is fetched.

use std::io;

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use super::fetch::PageReader;
use crate::cache::frame::FrameState;
use crate::cache::shared::{AttachedFile, CacheInner};
use crate::cache::{PageKey, PinnedPage};

impl PageReader {
    /// Starts reading the pages that are not in memory, and returns without waiting. Checksums are verified when a
    /// page is fetched.
    pub fn preread(&self, keys: &[PageKey]) {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        // At most a quarter of the cache is used, because the caller may be using the other pages.
        let limit = (self.limits.frames / 4).max(1);
        let mut pages = Vec::new();
        for key in keys {
            if pages.len() == limit || self.shared.find_file(key.file).is_none() {
                break;
            }
            if self.page_table().pin(key).is_some() {
                continue;
            }
            let Some(frame) = self.supply.take_available() else { break };
            frame.assign(key, FrameState::Loading);
            let page = PinnedPage::adopt(frame);
            page.frame().read_ahead.store(true, Ordering::Relaxed);
            if self.residents().insert(&page, true) {
                pages.push(page);
            }
        }
        self.shared.counters.prereads.add(pages.len());
        let mut pages = pages.into_iter().peekable();
        while let Some(first) = pages.peek().map(PinnedPage::key) {
            let mut of_file = Vec::new();
            while let Some(page) = pages.next_if(|page| page.key().file == first.file) {
                of_file.push(page);
            }
            match self.shared.find_file(first.file) {
                Some(attached) => self.submit_reads(&attached, of_file),
                None => of_file.iter().for_each(|page| arrived(page, &Err(io::ErrorKind::NotFound.into()))),
            }
        }
    }

    fn submit_reads(&self, attached: &Arc<AttachedFile>, pages: Vec<PinnedPage>) {
        let mut transfers = Vec::new();
        let mut pages = pages.into_iter().peekable();
        while let Some(first) = pages.next() {
            let mut run = vec![first];
            while run.len() < self.limits.run
                && let Some(next) =
                    pages.next_if(|next| run[run.len() - 1].key().page.plus(1) == next.key().page)
            {
                run.push(next);
            }
            let room = if run.len() > 1 { self.shared.transfer_buffers.try_reserve(run.len()) } else { 0 };
            if room == run.len() {
                self.shared.counters.coalesced_read.add(room - 1);
                transfers.push(self.run_read(attached, run, room));
            } else {
                self.shared.transfer_buffers.cancel(room);
                transfers.extend(run.into_iter().map(|page| self.page_read(attached, page)));
            }
        }
        attached.in_flight.begin(transfers.len());
        attached.file.submit(transfers);
    }

    /// Creates a transfer that reads one page into its frame.
    fn page_read(&self, attached: &Arc<AttachedFile>, page: PinnedPage) -> Transfer {
        let offset = self.page_size.offset_of(page.key().page);
        let buffer = page.frame().take_bytes();
        let attached = attached.clone();
        let done = move |result: io::Result<()>, buffer| {
            page.frame().put_bytes(buffer);
            arrived(&page, &result);
            drop(page);
            attached.in_flight.end(1);
        };
        Transfer { kind: TransferKind::Read, offset, buffer, reason: IoReason::Preread, done: Box::new(done) }
    }

    /// Creates a transfer that reads several adjacent pages into a transfer buffer.
    fn run_read(&self, attached: &Arc<AttachedFile>, run: Vec<PinnedPage>, room: usize) -> Transfer {
        let offset = run.first().map_or(0, |page| self.page_size.offset_of(page.key().page));
        let buffer = self.shared.transfer_buffers.take(room);
        let page_bytes = self.page_size.bytes();
        let (shared, attached): (Arc<CacheInner>, _) = (self.shared.clone(), attached.clone());
        let done = move |result: io::Result<()>, buffer: IoBuffer| {
            for (page, copy) in run.iter().zip(buffer.chunks_exact(page_bytes)) {
                arrived_in(page, copy, &result);
            }
            drop(run);
            shared.transfer_buffers.return_buffer(buffer);
            attached.in_flight.end(1);
        };
        Transfer { kind: TransferKind::Read, offset, buffer, reason: IoReason::Preread, done: Box::new(done) }
    }
}

/// Completes the read of a page whose bytes are in a transfer buffer.
pub(super) fn arrived_in(page: &PinnedPage, copy: &[u8], result: &io::Result<()>) {
    let mut bytes = page.frame().take_bytes();
    bytes.copy_from_slice(copy);
    page.frame().put_bytes(bytes);
    arrived(page, result);
}

fn arrived(page: &PinnedPage, result: &io::Result<()>) {
    page.frame().transition(
        FrameState::Loading,
        if result.is_ok() { FrameState::Unverified } else { FrameState::Unread },
    );
}
