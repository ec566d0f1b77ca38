//! The page cleaner: keeps frames available by evicting clean pages and writing dirty ones.

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::Cache;
use super::write_back::{UnflushedPagePolicy, WRITE_BATCH, WRITES_IN_FLIGHT, WriteReason};
use crate::Result;

/// Maximum number of frames that one step makes available.
const MAX_FRAMES_PER_STEP: usize = 128;
/// Minimum number of dirty victims before the cleaner starts a batch.
const MIN_BATCH: usize = 16;
/// Maximum number of writes in flight when frames are running out. Replaces [`WRITES_IN_FLIGHT`].
const URGENT_WRITES_IN_FLIGHT: usize = 128;

impl Cache {
    /// Performs one bounded step. It evicts clean pages and starts writes of dirty pages until the stop threshold is
    /// reached, counting writes in flight.
    ///
    /// Returns the number of pages that it evicted or started to write. Returns 0 if nothing needs to be done.
    pub fn clean_step(&self) -> Result<usize> {
        let low = self.available() < self.limits.start;
        if !low
            && self.excess() == 0
            && !self.refilling.load(Ordering::Relaxed)
            && self.write_candidates.lock().len() < MIN_BATCH
        {
            return Ok(0);
        }
        let mut done = 0;
        while self.available() < self.limits.stop && done < MAX_FRAMES_PER_STEP {
            let Some(victim) = self.evict_clean() else { break };
            self.shared.put_free(victim.index);
            done += 1;
        }
        let coming = self.available() + self.shared.cleaning.load(Ordering::Relaxed);
        let missing = self.limits.stop.saturating_sub(coming).max(self.excess());
        let candidates = self.write_candidates.lock().len();
        // Sessions are about to wait for frames, which is worse than slowing down reads.
        let urgent = self.available() < self.limits.start / 2 || self.excess() > self.limits.dirty / 4;
        let (batch, in_flight) = if urgent {
            (MAX_FRAMES_PER_STEP, URGENT_WRITES_IN_FLIGHT)
        } else {
            (WRITE_BATCH, WRITES_IN_FLIGHT)
        };
        // If too many writes are in flight, the completion of a write wakes the cleaner.
        let idle = self.shared.background.count() < in_flight;
        if idle && (missing > 0 || candidates >= MIN_BATCH) {
            let count = missing.max(candidates).min(batch);
            let victims = self.with_flush_neighbours(self.dirty_victims(count), count.max(self.limits.run));
            // The log may be in the middle of a file switch, and waiting for that could drain the pool.
            let mut started = self.write_pages(
                victims.clone(),
                WriteReason::Eviction,
                UnflushedPagePolicy::Skip,
                &Arc::default(),
            )?;
            if started == 0 {
                let flush =
                    if urgent { UnflushedPagePolicy::MoveWaypoint } else { UnflushedPagePolicy::Flush };
                started = self.write_pages(victims, WriteReason::Eviction, flush, &Arc::default())?;
            }
            done += started;
        }
        self.refilling.store(self.available() < self.limits.stop, Ordering::Relaxed);
        Ok(done)
    }

    /// Returns the number of pages that must be written to bring the number of dirty frames back within its limit.
    fn excess(&self) -> usize {
        let cleaning = self.shared.cleaning.load(Ordering::Relaxed);
        self.shared.must_write_pages_soon().saturating_sub(self.limits.dirty + cleaning)
    }

    /// Returns true if the cleaner could start a batch now.
    pub(super) fn has_batch_to_write(&self) -> bool {
        self.may_start(self.excess())
    }

    /// Returns true if `pages` pages are enough for a batch and the number of writes in flight is low enough.
    fn may_start(&self, pages: usize) -> bool {
        pages >= MIN_BATCH && self.shared.background.count() < WRITES_IN_FLIGHT
    }

    /// Notifies the cleaner when there are enough write candidates for a batch. It does not wait until frames run
    /// low: by then, there can be hundreds of candidates, and writing them would delay reads and commits.
    pub(super) fn candidates_added(&self, candidates: usize) {
        if self.may_start(candidates) {
            self.shared.cleaner_signal.notify();
        }
    }
}
