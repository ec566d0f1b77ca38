//! Write-back of dirty pages: logs their undo, copies them in runs of adjacent pages, flushes the log up to the
//! changes in the copies, and writes the copies.
//!
//! ```text
//!  claim ─> per chunk: log deferred undo ─> latch, copy, unlatch ─> flush the log ─> seal ─> submit ─> completion
//!    └──────── a page that is latched, or has new undo by then, is skipped
//! ```
//!
//! Invariants:
//! - The log is flushed after the copy, for the changes in the copy. Otherwise a page that changes faster than the
//!   log can be flushed would never be written, and would block the checkpoint.
//! - A claimed page has no other writer.
//! - A writer claims pages and writes to their log only while it is counted as an active writer of their file. The
//!   file is detached only when it has no active writers.
//! - This module tries latches and never waits for them. Nothing that it calls waits while a latch is held.

use std::io;

use ese_format::checksum::seal_page;
use ese_format::page::PageFlags;
use ese_format::{LogPosition, PageNumber, PageSize};
use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind, abort_on_panic};

use super::retained_run::RetainedRun;
use crate::cache::options::CacheLimits;
use crate::cache::shared::{AttachedFile, CacheInner, InFlightCounter, WRITES_IN_FLIGHT};
use crate::cache::{PinnedPage, ProtectedBatch, ReadLatch, TornPageGuard};
use crate::{InstanceFailure, Result};

/// Number of pages per batch of background writes. Larger batches would not be faster, and reads would have
/// to wait for them.
pub(in crate::cache) const WRITE_BATCH: usize = 32;
/// Byte range of the flags in a page.
const FLAGS: std::ops::Range<usize> = 36..40;

/// Why pages are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) enum WriteReason {
    Checkpoint,
    Eviction,
    Flush,
}

/// How to handle pages with changes past the durable end of the log, or past the waypoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) enum UnflushedPagePolicy {
    /// Flush the log first, which may take some time, and advance the waypoint, which starts new log generations.
    MoveWaypoint,
    /// Flush the log first. Skip pages with changes after the waypoint.
    Flush,
    /// Flush the log first. Copy pages with changes after the waypoint, and write the copies once the waypoint has
    /// passed those changes. Otherwise, a page that changes in every generation would never be written.
    RetainCopy,
    /// Skip these pages and request a log flush.
    Skip,
}

/// This thread's claim on a page to be written, which lasts until the page is copied.
pub(in crate::cache) struct WriteClaim {
    page: PinnedPage,
    transferred: bool,
}

impl WriteClaim {
    fn new(page: PinnedPage) -> Option<WriteClaim> {
        page.frame().claim().then(|| WriteClaim { page, transferred: false })
    }

    /// Transfers the claim to the write. The completion of the write releases it.
    fn transfer_to_write(mut self) -> PinnedPage {
        self.transferred = true;
        self.page.clone()
    }
}

impl Drop for WriteClaim {
    fn drop(&mut self) {
        if !self.transferred {
            self.page.frame().unclaim();
        }
    }
}

/// Writes back dirty pages of all attached files.
pub(in crate::cache) struct WriteBack {
    pub(super) shared: Arc<CacheInner>,
    page_size: PageSize,
    pub(super) limits: CacheLimits,
    /// Page copies that are waiting for the waypoint.
    pub(super) retained_runs: Mutex<Vec<RetainedRun>>,
}

impl WriteBack {
    pub fn new(shared: Arc<CacheInner>, limits: CacheLimits) -> WriteBack {
        WriteBack { page_size: shared.page_size, shared, limits, retained_runs: Mutex::default() }
    }

    /// Starts writing the pages that can be written now, and returns their number. `ended` counts them until their
    /// writes have completed.
    pub(in crate::cache) fn write_pages(
        &self,
        mut pages: Vec<PinnedPage>,
        reason: WriteReason,
        unflushed_log: UnflushedPagePolicy,
        ended: &Arc<InFlightCounter>,
    ) -> Result<usize> {
        self.shared.check()?;
        pages.sort_by_key(PinnedPage::key);
        let (mut started, mut failed) = (0, None);
        for of_file in pages.chunk_by(|a, b| a.key().file == b.key().file) {
            let Some(attached) = of_file.first().and_then(|page| self.shared.find_file(page.key().file))
            else {
                continue;
            };
            // If the file is being discarded, the discarding thread either waits for this writer or has already
            // closed the file.
            let Some(_active) = attached.in_flight.enter() else { continue };
            let written = self.write_of_file(&attached, of_file, reason, unflushed_log, ended, &mut started);
            failed = failed.or(written.err());
        }
        // A failure of one log must not prevent writing pages of other files.
        match failed {
            Some(error) if started == 0 => Err(error),
            _ => Ok(started),
        }
    }

    fn write_of_file(
        &self,
        attached: &Arc<AttachedFile>,
        pages: &[PinnedPage],
        reason: WriteReason,
        unflushed_log: UnflushedPagePolicy,
        ended: &Arc<InFlightCounter>,
        started: &mut usize,
    ) -> Result<()> {
        let claims: Vec<WriteClaim> = pages.iter().filter_map(|page| WriteClaim::new(page.clone())).collect();
        let mut claims = claims.into_iter().peekable();
        let batch_limit = attached.wal.torn_page_guard().map_or(usize::MAX, TornPageGuard::batch_limit);
        while claims.peek().is_some() {
            let room = self.shared.transfer_buffers.reserve(claims.len().min(batch_limit));
            let chunk = with_undo_logged(claims.by_ref().take(room));
            let chunk = chunk.inspect_err(|_| self.shared.transfer_buffers.cancel(room))?;
            *started += self.write_chunk(attached, chunk, room, reason, unflushed_log, ended)?;
        }
        Ok(())
    }

    /// Copies and submits at most `room` pages of one file. Returns the number of pages that are being written.
    fn write_chunk(
        &self,
        attached: &Arc<AttachedFile>,
        claims: Vec<WriteClaim>,
        room: usize,
        reason: WriteReason,
        unflushed_log: UnflushedPagePolicy,
        ended: &Arc<InFlightCounter>,
    ) -> Result<usize> {
        let (durable, waypoint) = (attached.wal.durable(), attached.wal.waypoint());
        let (mut lacking, mut needed) = (LogPosition::MIN, LogPosition::MIN);
        let mut keeping = PagesToRetain::new(self.retained_capacity(unflushed_log));
        let latched: Vec<(WriteClaim, ReadLatch)> = claims
            .into_iter()
            .filter_map(|claim| {
                let latch = claim.page.try_read()?;
                let needed_to = log_needed_by(&claim.page, &latch)?;
                if needed_to > waypoint && unflushed_log != UnflushedPagePolicy::MoveWaypoint {
                    if unflushed_log == UnflushedPagePolicy::RetainCopy {
                        keeping.add(claim, latch, needed_to);
                    }
                    return None;
                }
                if needed_to > durable && unflushed_log == UnflushedPagePolicy::Skip {
                    lacking = lacking.max(needed_to);
                    return None;
                }
                needed = needed.max(needed_to);
                Some((claim, latch))
            })
            .collect();
        self.shared.transfer_buffers.cancel(room - latched.len() - keeping.pages.len());
        // After a panic, the claims would never be released, and other threads would wait for them forever.
        let written = abort_on_panic(|| {
            self.retain_copies(attached, keeping);
            self.write_latched(attached, latched, needed, reason, ended)
        });
        if lacking > durable {
            attached.wal.request_flush(lacking);
        }
        written
    }

    /// Copies pages, releases their latches, flushes the log up to `needed`, and submits the copies. Returns the
    /// number of pages.
    fn write_latched(
        &self,
        attached: &Arc<AttachedFile>,
        latched: Vec<(WriteClaim, ReadLatch)>,
        needed: LogPosition,
        reason: WriteReason,
        ended: &Arc<InFlightCounter>,
    ) -> Result<usize> {
        let count = latched.len();
        if count == 0 {
            return Ok(0);
        }
        let runs = self.copy(attached, latched, |pages| self.shared.transfer_buffers.take(pages));
        if needed > attached.wal.durable()
            && let Err(error) = attached.wal.flush(needed)
        {
            for PageRun { pages, buffer } in runs {
                pages.iter().for_each(|page| page.frame().written(attached, false));
                self.shared.transfer_buffers.return_buffer(buffer);
            }
            return Err(error);
        }
        self.submit(attached, runs, reason, ended);
        Ok(count)
    }

    /// Seals and submits copies of claimed pages. The log must already be durable up to their last changes.
    pub(in crate::cache) fn submit(
        &self,
        attached: &Arc<AttachedFile>,
        mut runs: Vec<PageRun>,
        reason: WriteReason,
        ended: &Arc<InFlightCounter>,
    ) {
        let count = runs.iter().map(|run| run.pages.len()).sum();
        let page_bytes = self.page_size.bytes();
        for run in &mut runs {
            for (page, copy) in run.pages.iter().zip(run.buffer.chunks_exact_mut(page_bytes)) {
                cycle_flush_type(page, copy);
                debug_assert_eq!(
                    ese_format::page::validate(copy, self.page_size),
                    Ok(()),
                    "{page:?} is malformed"
                );
                seal_page(copy, self.page_size, page.key().page);
            }
        }
        self.count(reason, count, runs.len());
        attached.announced.about_to_write(runs.iter().flat_map(|run| &run.pages).map(|page| page.key().page));
        ended.begin(count);
        attached.in_flight.begin(runs.len());
        if reason != WriteReason::Flush {
            self.shared.background.begin(runs.len());
        }
        let images: Vec<(PageNumber, &[u8])> = runs
            .iter()
            .flat_map(|run| run.pages.iter().zip(run.buffer.chunks_exact(page_bytes)))
            .map(|(page, copy)| (page.key().page, copy))
            .collect();
        match attached.wal.torn_page_guard().map(|guard| guard.protect(&images)).transpose() {
            Ok(protection) => {
                let protection = Arc::new(protection);
                let transfer = |run| self.transfer(run, attached, reason, ended, protection.clone());
                attached.file.submit(runs.into_iter().map(transfer).collect());
            }
            Err(error) => {
                // The error names the file it concerns. The cache records only the first reason.
                self.shared.fail(error.cause());
                for PageRun { pages, buffer } in runs {
                    let failed = Err(io::Error::other(error.cause()));
                    completed(&self.shared, attached, pages, reason, ended, failed, buffer);
                }
            }
        }
    }

    /// Copies pages in runs of adjacent pages, and releases their latches. The completion of the write releases the
    /// claims.
    pub(in crate::cache) fn copy(
        &self,
        attached: &Arc<AttachedFile>,
        latched: Vec<(WriteClaim, ReadLatch)>,
        take_buffer: impl Fn(usize) -> IoBuffer,
    ) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        let mut rest = latched.into_iter().peekable();
        while let Some(first) = rest.next() {
            let mut run = vec![first];
            while run.len() < self.limits.run
                && let Some(next) =
                    rest.next_if(|(claim, _)| follows(&run[run.len() - 1].0.page, &claim.page))
            {
                run.push(next);
            }
            let mut buffer = take_buffer(run.len());
            let pages = run
                .into_iter()
                .zip(buffer.chunks_exact_mut(self.page_size.bytes()))
                .map(|((claim, latch), copy)| {
                    copy.copy_from_slice(&latch);
                    claim.page.frame().copied(attached);
                    claim.transfer_to_write()
                })
                .collect();
            runs.push(PageRun { pages, buffer });
        }
        runs
    }

    fn count(&self, reason: WriteReason, pages: usize, runs: usize) {
        let counters = &self.shared.counters;
        match reason {
            WriteReason::Checkpoint => counters.written_checkpoint.add(pages),
            WriteReason::Flush => counters.written_flush.add(pages),
            WriteReason::Eviction => {
                counters.written_eviction.add(pages);
                self.shared.cleaning.fetch_add(pages, Ordering::Relaxed);
            }
        }
        counters.coalesced_written.add(pages - runs);
    }

    fn transfer(
        &self,
        run: PageRun,
        attached: &Arc<AttachedFile>,
        reason: WriteReason,
        ended: &Arc<InFlightCounter>,
        protection: Arc<Option<ProtectedBatch>>,
    ) -> Transfer {
        let PageRun { pages, buffer } = run;
        let offset = pages.first().map_or(0, |page| self.page_size.offset_of(page.key().page));
        let (shared, attached, ended) = (self.shared.clone(), attached.clone(), ended.clone());
        let done = move |result, buffer| {
            drop(protection);
            completed(&shared, &attached, pages, reason, &ended, result, buffer);
        };
        let reason =
            if reason == WriteReason::Eviction { IoReason::EvictionWrite } else { IoReason::CheckpointWrite };
        Transfer { kind: TransferKind::Write, offset, buffer, reason, done: Box::new(done) }
    }
}

/// Pages to be copied and written later.
pub(in crate::cache) struct PagesToRetain {
    pub pages: Vec<(WriteClaim, ReadLatch)>,
    pub needed: LogPosition,
    room: usize,
}

impl PagesToRetain {
    pub fn new(room: usize) -> PagesToRetain {
        PagesToRetain { pages: Vec::new(), needed: LogPosition::MIN, room }
    }

    /// Adds a page with changes up to `needed` if there is room for it.
    pub fn add(&mut self, claim: WriteClaim, latch: ReadLatch, needed: LogPosition) {
        if self.pages.len() < self.room {
            self.pages.push((claim, latch));
            self.needed = self.needed.max(needed);
        }
    }
}

/// Adjacent pages that are written together.
pub(in crate::cache) struct PageRun {
    pub pages: Vec<PinnedPage>,
    pub buffer: IoBuffer,
}

fn follows(page: &PinnedPage, next: &PinnedPage) -> bool {
    page.key().page.plus(1) == next.key().page
}

/// Logs the before-images of the pages. Pages that are latched by another thread are skipped.
fn with_undo_logged(claims: impl Iterator<Item = WriteClaim>) -> Result<Vec<WriteClaim>> {
    claims.filter_map(|claim| log_undo(&claim.page).map(|done| done.then_some(claim)).transpose()).collect()
}

/// Returns the log position that must be durable before a copy of the latched page can be written, or `None` if
/// before-images must be logged first.
fn log_needed_by(page: &PinnedPage, latch: &ReadLatch) -> Option<LogPosition> {
    let ends = latch.deferred_undo().iter().map(|undo| undo.resolved_at());
    ends.chain([Some(page.frame().last())]).try_fold(LogPosition::MIN, |upto, end| Some(upto.max(end?)))
}

/// Logs the before-images of a page without holding a latch. Returns false if the page is latched or its
/// before-images cannot be logged. The caller should then retry later.
fn log_undo(page: &PinnedPage) -> Result<bool> {
    if !page.frame().has_undo.load(Ordering::Acquire) {
        return Ok(true);
    }
    let Some(mut latch) = page.try_write() else { return Ok(false) };
    // No other thread can write the page during this time, because it is claimed.
    let mut undo = page.frame().undo_being_logged.lock();
    undo.extend(latch.take_deferred_undo());
    drop(latch);
    while let Some(change) = undo.front() {
        if change.resolved_at().is_none() && !change.can_log() {
            page.frame().has_undo.store(true, Ordering::Release);
            return Ok(false);
        }
        match change.resolved_at().map_or_else(|| change.log(), |end| Ok(Some(end))) {
            Ok(position) => position.into_iter().for_each(|position| page.frame().set_last(position)),
            Err(error) => {
                page.frame().has_undo.store(true, Ordering::Release);
                return Err(error);
            }
        }
        undo.pop_front();
    }
    Ok(true)
}

/// Gives each write of a page a different flush type, so that lost writes can be detected.
fn cycle_flush_type(page: &PinnedPage, copy: &mut [u8]) {
    let Some(flags) = copy.get_mut(FLAGS).and_then(|bytes| bytes.first_chunk_mut::<4>()) else { return };
    let mut current = PageFlags::from_bits_retain(u32::from_le_bytes(*flags));
    let on_disk = page.frame().flush_type.load(Ordering::Relaxed);
    if on_disk != 0 {
        current.remove(PageFlags::FLUSH_TYPE);
        current |= PageFlags::from_bits_retain(u32::from(on_disk) << 15);
    }
    let next = current.with_next_flush_type();
    page.frame().flush_type.store((next.bits() >> 15 & 3) as u8, Ordering::Relaxed);
    *flags = next.bits().to_le_bytes();
}

fn completed(
    shared: &CacheInner,
    attached: &AttachedFile,
    pages: Vec<PinnedPage>,
    reason: WriteReason,
    ended: &InFlightCounter,
    result: io::Result<()>,
    buffer: IoBuffer,
) {
    if let Err(error) = &result {
        shared.fail(InstanceFailure::io(attached.file.path(), error));
    }
    let count = pages.len();
    for page in pages {
        page.frame().written(attached, result.is_ok());
    }
    shared.transfer_buffers.return_buffer(buffer);
    if reason == WriteReason::Eviction {
        shared.cleaning.fetch_sub(count, Ordering::Relaxed);
    }
    if reason != WriteReason::Flush {
        let left = shared.background.end(1);
        // At any other count, the cleaner could not start a batch, or it has already been notified.
        if left == 0 || left + 1 >= WRITES_IN_FLIGHT {
            shared.cleaner_signal.notify();
        }
    }
    attached.in_flight.end(1);
    ended.end(count);
}
