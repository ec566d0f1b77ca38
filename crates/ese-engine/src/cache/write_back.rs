//! Writing dirty pages: undo first, then copies, in runs of adjacent pages, then the log as far as the copies need it.
//!
//! ```text
//!  claim ─> per chunk: log deferred undo ─> latch, copy, unlatch ─> flush the log ─> seal ─> submit ─> completion
//!    └──────── a page that is latched, or has new undo by then, is left for another time
//! ```
//!
//! Invariants: the log is flushed after the copy, for what the copy holds: a page that changes faster than the log can be
//! flushed would else never be written, and hold the checkpoint back; a claimed page has no other writer; a writer claims
//! pages, and writes to their log, only while it is counted at work on their file, which leaves the cache only when nobody
//! is; latches are only tried here, never waited for, and no call below this module waits for anything while one is held.

use std::io;

use ese_format::checksum::seal_page;
use ese_format::page::PageFlags;
use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind, abort_on_panic};

use super::cleaner::WRITES_IN_FLIGHT;
use super::files::{Attached, Books, InFlight};
use super::{Cache, PinnedPage, Protection, ReadLatch};
use crate::{Error, Result};

/// Where the flags stand in a page.
const FLAGS: std::ops::Range<usize> = 36..40;

/// Why pages are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Checkpoint,
    Eviction,
    Flush,
}

/// What to do about pages that are ahead of the durable log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Make the log durable, which may take a while.
    FlushLog,
    /// Ask for it and leave them out.
    Skip,
}

/// A page with this thread as its writer, until the copy is made.
struct Claim {
    page: PinnedPage,
    handed_over: bool,
}

impl Claim {
    fn new(page: PinnedPage) -> Option<Claim> {
        page.frame().claim().then(|| Claim { page, handed_over: false })
    }

    /// From now on the completion of the write ends the claim.
    fn hand_over(mut self) -> PinnedPage {
        self.handed_over = true;
        self.page.clone()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.handed_over {
            self.page.frame().unclaim();
        }
    }
}

impl Cache {
    /// Starts writing those of `pages` that can be written now. `ended` counts the pages started, until their
    /// writes have completed.
    pub(super) fn write_pages(
        &self,
        mut pages: Vec<PinnedPage>,
        why: Why,
        ahead: Ahead,
        ended: &Arc<InFlight>,
    ) -> Result<usize> {
        self.books.check()?;
        pages.sort_by_key(PinnedPage::key);
        let (mut started, mut failed) = (0, None);
        for of_file in pages.chunk_by(|a, b| a.key().file == b.key().file) {
            let Some(attached) = of_file.first().and_then(|page| self.books.find_file(page.key().file))
            else {
                continue;
            };
            // Flushing the log may take a while. Whoever discards the file waits for that, or has come before.
            let Some(_at_work) = attached.in_flight.enter() else { continue };
            let written = self.write_of_file(&attached, of_file, why, ahead, ended, &mut started);
            failed = failed.or(written.err());
        }
        // One log that is down does not keep the pages of others in memory.
        match failed {
            Some(error) if started == 0 => Err(error),
            _ => Ok(started),
        }
    }

    fn write_of_file(
        &self,
        attached: &Arc<Attached>,
        pages: &[PinnedPage],
        why: Why,
        ahead: Ahead,
        ended: &Arc<InFlight>,
        started: &mut usize,
    ) -> Result<()> {
        let claims: Vec<Claim> = pages.iter().filter_map(|page| Claim::new(page.clone())).collect();
        let mut claims = claims.into_iter().peekable();
        while claims.peek().is_some() {
            let room = self.books.copies.reserve(claims.len().min(attached.wal.batch_limit()));
            let chunk = with_undo_logged(claims.by_ref().take(room));
            let chunk = chunk.inspect_err(|_| self.books.copies.cancel(room))?;
            *started += self.write_chunk(attached, chunk, room, why, ahead, ended)?;
        }
        Ok(())
    }

    /// Copies and submits the pages of one file, as many as `room` at most; returns how many could be written.
    fn write_chunk(
        &self,
        attached: &Arc<Attached>,
        claims: Vec<Claim>,
        room: usize,
        why: Why,
        ahead: Ahead,
        ended: &Arc<InFlight>,
    ) -> Result<usize> {
        let durable = attached.wal.durable();
        let (mut lacking, mut needed) = (LogPosition::MIN, LogPosition::MIN);
        let latched: Vec<(Claim, ReadLatch)> = claims
            .into_iter()
            .filter_map(|claim| {
                let latch = claim.page.try_read()?;
                let upto = explained(&claim.page, &latch)?;
                if upto > durable && ahead == Ahead::Skip {
                    lacking = lacking.max(upto);
                    return None;
                }
                needed = needed.max(upto);
                Some((claim, latch))
            })
            .collect();
        self.books.copies.cancel(room - latched.len());
        // Pages whose writer got lost in between would be waited for.
        let written = abort_on_panic(|| self.write_latched(attached, latched, needed, why, ended));
        if lacking > durable {
            attached.wal.request(lacking);
        }
        written
    }

    /// Copies pages, gives up their latches, and submits the copies once the log is durable up to `needed`.
    fn write_latched(
        &self,
        attached: &Arc<Attached>,
        latched: Vec<(Claim, ReadLatch)>,
        needed: LogPosition,
        why: Why,
        ended: &Arc<InFlight>,
    ) -> Result<usize> {
        let count = latched.len();
        if count == 0 {
            return Ok(0);
        }
        let mut runs = self.copy(attached, latched);
        if needed > attached.wal.durable()
            && let Err(error) = attached.wal.flush(needed)
        {
            for Run { pages, buffer } in runs {
                pages.iter().for_each(|page| page.frame().written(attached, false));
                self.books.copies.give(buffer);
            }
            return Err(error);
        }
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
        self.count(why, count, runs.len());
        ended.begin(count);
        attached.in_flight.begin(runs.len());
        if why != Why::Flush {
            self.books.background.begin(runs.len());
        }
        let images: Vec<(PageNumber, &[u8])> = runs
            .iter()
            .flat_map(|run| run.pages.iter().zip(run.buffer.chunks_exact(page_bytes)))
            .map(|(page, copy)| (page.key().page, copy))
            .collect();
        match attached.wal.protect(&images) {
            Ok(protection) => {
                let protection = Arc::new(protection);
                let transfer = |run| self.transfer(run, attached, why, ended, protection.clone());
                attached.file.submit(runs.into_iter().map(transfer).collect());
            }
            Err(error) => {
                // It names its own file; the first reason stays.
                self.books.fail(error.cause());
                for Run { pages, buffer } in runs {
                    let failed = Err(io::Error::other(error.cause()));
                    completed(&self.books, attached, pages, why, ended, failed, buffer);
                }
            }
        }
        Ok(count)
    }

    /// Copies pages in runs of adjacent ones, and gives up their latches; the claims go to the writes.
    fn copy(&self, attached: &Arc<Attached>, latched: Vec<(Claim, ReadLatch)>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut rest = latched.into_iter().peekable();
        while let Some(first) = rest.next() {
            let mut run = vec![first];
            while run.len() < self.limits.run
                && let Some(next) =
                    rest.next_if(|(claim, _)| follows(&run[run.len() - 1].0.page, &claim.page))
            {
                run.push(next);
            }
            let mut buffer = self.books.copies.take(run.len());
            let pages = run
                .into_iter()
                .zip(buffer.chunks_exact_mut(self.page_size.bytes()))
                .map(|((claim, latch), copy)| {
                    copy.copy_from_slice(&latch);
                    claim.page.frame().copied(attached);
                    claim.hand_over()
                })
                .collect();
            runs.push(Run { pages, buffer });
        }
        runs
    }

    fn count(&self, why: Why, pages: usize, runs: usize) {
        let tallies = &self.books.tallies;
        match why {
            Why::Checkpoint => tallies.written_checkpoint.add(pages),
            Why::Flush => tallies.written_flush.add(pages),
            Why::Eviction => {
                tallies.written_eviction.add(pages);
                self.books.cleaning.fetch_add(pages, Ordering::Relaxed);
            }
        }
        tallies.coalesced_written.add(pages - runs);
    }

    fn transfer(
        &self,
        run: Run,
        attached: &Arc<Attached>,
        why: Why,
        ended: &Arc<InFlight>,
        protection: Arc<Option<Protection>>,
    ) -> Transfer {
        let Run { pages, buffer } = run;
        let offset = pages.first().map_or(0, |page| self.page_size.offset_of(page.key().page));
        let (books, attached, ended) = (self.books.clone(), attached.clone(), ended.clone());
        let done = move |result, buffer| {
            drop(protection);
            completed(&books, &attached, pages, why, &ended, result, buffer);
        };
        let reason = if why == Why::Eviction { IoReason::EvictionWrite } else { IoReason::CheckpointWrite };
        Transfer { kind: TransferKind::Write, offset, buffer, reason, done: Box::new(done) }
    }
}

/// Adjacent pages on their way out.
struct Run {
    pages: Vec<PinnedPage>,
    buffer: IoBuffer,
}

fn follows(page: &PinnedPage, next: &PinnedPage) -> bool {
    page.key().page.plus(1) == next.key().page
}

/// Those of the pages that are not in use at this moment, with their before-images logged.
fn with_undo_logged(claims: impl Iterator<Item = Claim>) -> Result<Vec<Claim>> {
    claims.filter_map(|claim| log_undo(&claim.page).map(|done| done.then_some(claim)).transpose()).collect()
}

/// How far the log must be durable before a copy of the latched page may be written. `None`: not without more undo.
fn explained(page: &PinnedPage, latch: &ReadLatch) -> Option<LogPosition> {
    let ends = latch.deferred_undo().iter().map(|undo| undo.resolved_at());
    ends.chain([Some(page.frame().last())]).try_fold(LogPosition::MIN, |upto, end| Some(upto.max(end?)))
}

/// Logs the before-images that hang on a page, without a latch. `false`: the page is in use, try later.
fn log_undo(page: &PinnedPage) -> Result<bool> {
    if !page.frame().has_undo.load(Ordering::Acquire) {
        return Ok(true);
    }
    let Some(mut latch) = page.try_write() else { return Ok(false) };
    // Nobody else writes the page meanwhile, because it is claimed.
    let mut owed = page.frame().owed_undo.lock();
    owed.extend(latch.take_deferred_undo());
    drop(latch);
    while let Some(change) = owed.front() {
        match change.resolved_at().map_or_else(|| change.log(), |end| Ok(Some(end))) {
            Ok(position) => position.into_iter().for_each(|position| page.frame().set_last(position)),
            Err(error) => {
                page.frame().has_undo.store(true, Ordering::Release);
                return Err(error);
            }
        }
        owed.pop_front();
    }
    Ok(true)
}

/// Each write of a page carries another flush type, so that a lost write can be told from a completed one.
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
    books: &Books,
    attached: &Attached,
    pages: Vec<PinnedPage>,
    why: Why,
    ended: &InFlight,
    result: io::Result<()>,
    buffer: IoBuffer,
) {
    if let Err(error) = &result {
        books.fail(Error::io(attached.file.path(), error).to_string());
    }
    let count = pages.len();
    for page in pages {
        page.frame().written(attached, result.is_ok());
    }
    books.copies.give(buffer);
    if why == Why::Eviction {
        books.cleaning.fetch_sub(count, Ordering::Relaxed);
    }
    if why != Why::Flush {
        let left = books.background.end(1);
        // Between these two the cleaner would start nothing, or has been called.
        if left == 0 || left + 1 >= WRITES_IN_FLIGHT {
            books.wake.ring();
        }
    }
    attached.in_flight.end(1);
    ended.end(count);
}
