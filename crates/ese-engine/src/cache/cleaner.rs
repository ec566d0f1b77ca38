//! When dirty pages are written: to make frames available, to move the checkpoint, to flush a file.

use std::time::Duration;

use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::IoReason;

use super::files::{Attached, InFlight};
use super::frame::Frame;
use super::write_back::{Ahead, Why};
use super::{Cache, FileId, PageKey, PinnedPage};
use crate::{Error, Result};

/// Victims written at once by a session that found no clean page.
const FOREGROUND_WRITES: usize = 16;
/// Frames made available by one step.
const STEP: usize = 128;
/// Dirty victims worth a batch of their own.
const WORTH_WRITING: usize = 16;
/// Pages of one batch of background writes. More at once would not be faster, and reads would queue behind them.
const WRITE_BATCH: usize = 32;
/// Background transfers in flight with which no further batch is started: enough to keep a device busy.
pub(super) const WRITES_IN_FLIGHT: usize = 16;
/// The same when frames run out.
const URGENT_WRITES_IN_FLIGHT: usize = 128;
/// Pages that one round of a flush takes on.
const FLUSH_ROUND: usize = 1024;
/// How often, and for how long, a session waits for others to unpin a page.
const ROOM_ATTEMPTS: usize = 20_000;
const PAUSE: Duration = Duration::from_micros(200);

impl Cache {
    /// One bounded piece of work on the pool of available frames: evicts clean pages and starts writing dirty ones
    /// until the stop threshold is in sight. Returns how many pages it evicted or started to write; 0 means that
    /// there is nothing to do now.
    pub fn clean_step(&self) -> Result<usize> {
        let low = self.available() < self.limits.start;
        if !low
            && self.excess() == 0
            && !self.refilling.load(Ordering::Relaxed)
            && self.wanted.lock().len() < WORTH_WRITING
        {
            return Ok(0);
        }
        let mut done = 0;
        while self.available() < self.limits.stop && done < STEP {
            let Some(victim) = self.evict_clean() else { break };
            self.books.put_free(victim.index);
            done += 1;
        }
        let coming = self.available() + self.books.cleaning.load(Ordering::Relaxed);
        let missing = self.limits.stop.saturating_sub(coming).max(self.excess());
        let wanted = self.wanted.lock().len();
        // Sessions are about to wait for frames: that is worse than slow reads.
        let urgent = self.available() < self.limits.start / 2 || self.excess() > self.limits.dirty / 4;
        let (batch, in_flight) = match urgent {
            true => (STEP, URGENT_WRITES_IN_FLIGHT),
            false => (WRITE_BATCH, WRITES_IN_FLIGHT),
        };
        // The completion of a write wakes the cleaner.
        let idle = self.books.background.count() < in_flight;
        if idle && (missing > 0 || wanted >= WORTH_WRITING) {
            let count = missing.max(wanted).min(batch);
            let victims = self.with_neighbours(self.dirty_victims(count), count.max(self.limits.run));
            // Waiting for the log, which may be changing files, would let the pool run dry meanwhile.
            let mut started =
                self.write_pages(victims.clone(), Why::Eviction, Ahead::Skip, &Arc::default())?;
            if started == 0 {
                started = self.write_pages(victims, Why::Eviction, Ahead::FlushLog, &Arc::default())?;
            }
            done += started;
        }
        self.refilling.store(self.available() < self.limits.stop, Ordering::Relaxed);
        Ok(done)
    }

    /// Dirty pages beyond those that may be in frames.
    fn excess(&self) -> usize {
        let cleaning = self.books.cleaning.load(Ordering::Relaxed);
        self.books.heavy_soon().saturating_sub(self.limits.dirty + cleaning)
    }

    /// Whether the cleaner would find a batch to write that it may start.
    pub(super) fn has_batch_to_write(&self) -> bool {
        self.may_start(self.excess())
    }

    /// Whether so many pages are worth a batch now.
    fn may_start(&self, pages: usize) -> bool {
        pages >= WORTH_WRITING && self.books.background.count() < WRITES_IN_FLIGHT
    }

    /// So many victims wait to be written. The cleaner is called when they are worth a batch, and not only when frames run
    /// low: by then there can be hundreds of them, and reads and commits wait behind what is written at once.
    pub(super) fn victims_gathered(&self, wanted: usize) {
        if self.may_start(wanted) {
            self.books.wake.ring();
        }
    }

    /// Starts writing the oldest dirty pages of the file that were first changed before `position`, at most
    /// `max_pages`; returns how many were started. Pages in use, and those already being written, are passed over.
    /// Waits while the device has enough to do. Once the writes have ended, [`Cache::sync_file`] makes
    /// [`Cache::oldest_dirty`] advance.
    pub fn write_below(&self, file: FileId, position: LogPosition, max_pages: usize) -> Result<usize> {
        let attached = self.books.file(file)?;
        let mut oldest: Vec<_> = attached.ledger.lock().below(position).take(max_pages).collect();
        oldest.sort_unstable();
        let mut started = 0;
        // Pages that come back to be written must leave frames to others.
        for batch in oldest.chunks(WRITE_BATCH.min(self.limits.frames / 4).max(1)) {
            self.books.background.wait_below(WRITES_IN_FLIGHT);
            // Pages that cannot be read hold the checkpoint back; who needs them gets the error.
            let (pages, _) = self.pin_all(&attached, batch);
            started += self.write_pages(pages, Why::Checkpoint, Ahead::FlushLog, &Arc::default())?;
        }
        Ok(started)
    }

    /// Starts writing those of `pages` that are dirty, adjacent ones together. For who comes to the pages of a file one
    /// by one in their order. Must not be called with a latch held.
    pub fn write_behind(&self, pages: &[PageKey]) -> Result<usize> {
        self.books.background.wait_below(WRITES_IN_FLIGHT);
        let pages = pages.iter().filter_map(|key| self.table.pin(*key)).collect();
        self.write_pages(pages, Why::Checkpoint, Ahead::FlushLog, &Arc::default())
    }

    /// Writes all pages of the file that were dirty when the call began, and syncs. After success the file holds
    /// every change that was finished then. Must not be called with a latch held.
    pub fn flush_file(&self, file: FileId) -> Result<()> {
        let attached = self.books.file(file)?;
        let latest = attached.ledger.lock().latest_change();
        if let Some(latest) = latest {
            let end = LogPosition::from_u64(latest.to_u64().saturating_add(1));
            let round = FLUSH_ROUND.min(self.limits.frames / 4).max(1);
            while attached.ledger.lock().oldest_dirty().is_some_and(|first| first < end) {
                let mut pages: Vec<_> = attached.ledger.lock().below(end).collect();
                // Many of them may have to be read first: all in the order in which they lie on the device.
                pages.sort_unstable();
                let ended = Arc::default();
                let mut started = 0;
                let mut outcome = Ok(());
                for pages in pages.chunks(round) {
                    self.books.check()?;
                    let (pages, readable) = self.pin_all(&attached, pages);
                    outcome = outcome.and(readable);
                    started += self.write_pages(pages, Why::Flush, Ahead::FlushLog, &ended)?;
                    // The next ones are read while these are written.
                    ended.wait_below(round);
                }
                ended.wait();
                // All others are written by now.
                outcome?;
                if started == 0 {
                    self.books.check()?;
                    attached.in_flight.wait();
                    self.clock.sleep(PAUSE);
                }
            }
        }
        self.sync_file(file)
    }

    /// Makes all completed writes of the file durable; only now they stop counting for [`Cache::oldest_dirty`].
    /// A failure is final: the device may have dropped the pages, so nothing is written any more.
    pub fn sync_file(&self, file: FileId) -> Result<()> {
        let attached = self.books.file(file)?;
        self.books.check()?;
        let _turn = attached.sync.lock();
        attached.ledger.lock().sync_starts();
        match attached.file.sync(IoReason::CheckpointWrite) {
            Ok(()) => {
                attached.ledger.lock().sync_ended();
                self.books.check()
            }
            Err(error) => {
                self.books.fail(Error::io(attached.file.path(), &error).to_string());
                self.books.check()
            }
        }
    }

    /// Pins dirty pages to write them; those that lack their edits are read first. Pages that cannot be read stay as
    /// they are, with the first error.
    fn pin_all(&self, attached: &Attached, pages: &[PageNumber]) -> (Vec<PinnedPage>, Result<()>) {
        let keys: Vec<_> = pages.iter().map(|page| PageKey { file: attached.id, page: *page }).collect();
        let away: Vec<_> = keys.iter().filter(|key| self.table.is_away(**key)).copied().collect();
        self.books.kept.fetched_to_write(away.len());
        self.preread(&away);
        let mut outcome = Ok(());
        let mut pin = |key: PageKey| {
            let here = self.table.pin(key);
            let lacks_edits =
                here.as_ref().map_or_else(|| self.table.is_away(key), |page| page.frame().lacks_edits());
            if !lacks_edits {
                return here;
            }
            // A page that was created and never changed is read for its only holder.
            drop(here);
            self.fetch_cold(key).map_err(|error| outcome = outcome.clone().and(Err(error))).ok()
        };
        let pinned = keys.into_iter().filter_map(&mut pin).collect();
        (pinned, outcome)
    }

    /// A frame when none is available: evicts a clean page, or writes dirty ones and waits for them. Pages that the
    /// log covers already are preferred.
    pub(super) fn make_room(&self) -> Result<Arc<Frame>> {
        for _ in 0..ROOM_ATTEMPTS {
            if let Some(frame) = self.evict_clean().or_else(|| self.take_available()) {
                return Ok(frame);
            }
            self.books.check()?;
            let ended: Arc<InFlight> = Arc::default();
            let mut started = 0;
            for ahead in [Ahead::Skip, Ahead::FlushLog] {
                if started == 0 {
                    let victims = self.dirty_victims(FOREGROUND_WRITES);
                    started = self.write_pages(victims, Why::Eviction, ahead, &ended)?;
                }
            }
            ended.wait();
            if started == 0 {
                let given_up = self.books.kept.give_back_anyway();
                if let Some(frame) = given_up.and_then(|index| self.frames[index as usize].get()) {
                    return Ok(frame.clone());
                }
                self.clock.sleep(PAUSE);
            }
        }
        Err(Error::Usage(format!(
            "cache of {} pages is too small: all of them are in use",
            self.limits.frames
        )))
    }
}
