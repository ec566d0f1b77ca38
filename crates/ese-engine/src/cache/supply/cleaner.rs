//! The page cleaner: keeps frames available by evicting clean pages and writing dirty ones.

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::frame_supply::FrameSupply;
use crate::Result;
use crate::cache::shared::{MIN_BATCH, WRITES_IN_FLIGHT};
use crate::cache::write::{UnflushedPagePolicy, WRITE_BATCH, WriteReason};

/// Maximum number of frames that one step makes available.
const MAX_FRAMES_PER_STEP: usize = 128;
/// Maximum number of writes in flight when frames are running out. Replaces [`WRITES_IN_FLIGHT`].
const URGENT_WRITES_IN_FLIGHT: usize = 128;

impl FrameSupply {
    /// Performs one bounded step. It evicts clean pages and starts writes of dirty pages until the stop threshold is
    /// reached, counting writes in flight.
    ///
    /// Returns the number of pages that it evicted or started to write. Returns 0 if nothing needs to be done.
    pub fn clean_step(&self) -> Result<usize> {
        let low = self.residents.pool().available() < self.limits.start;
        if !low
            && self.excess() == 0
            && !self.refilling.load(Ordering::Relaxed)
            && self.residents.write_candidates() < MIN_BATCH
        {
            return Ok(0);
        }
        let mut done = 0;
        while self.residents.pool().available() < self.limits.stop && done < MAX_FRAMES_PER_STEP {
            let Some(victim) = self.residents.evict_clean() else { break };
            self.shared.put_free(victim.index);
            done += 1;
        }
        let coming = self.residents.pool().available() + self.shared.cleaning.load(Ordering::Relaxed);
        let missing = self.limits.stop.saturating_sub(coming).max(self.excess());
        let candidates = self.residents.write_candidates();
        // Sessions are about to wait for frames, which is worse than slowing down reads.
        let urgent = self.residents.pool().available() < self.limits.start / 2
            || self.excess() > self.limits.dirty / 4;
        let (batch, in_flight) = if urgent {
            (MAX_FRAMES_PER_STEP, URGENT_WRITES_IN_FLIGHT)
        } else {
            (WRITE_BATCH, WRITES_IN_FLIGHT)
        };
        // If too many writes are in flight, the completion of a write wakes the cleaner.
        let idle = self.shared.background.count() < in_flight;
        if idle && (missing > 0 || candidates >= MIN_BATCH) {
            let count = missing.max(candidates).min(batch);
            let run = self.limits.run;
            let victims = self.residents.dirty_victims(count);
            let victims = self.residents.with_flush_neighbours(victims, count.max(run), run);
            // Waiting for the log could drain the pool, because the log may be in the middle of a file switch.
            let mut started = self.writer.write_pages(
                victims.clone(),
                WriteReason::Eviction,
                UnflushedPagePolicy::Skip,
                &Arc::default(),
            )?;
            if started == 0 {
                let flush =
                    if urgent { UnflushedPagePolicy::MoveWaypoint } else { UnflushedPagePolicy::Flush };
                started = self.writer.write_pages(victims, WriteReason::Eviction, flush, &Arc::default())?;
            }
            done += started;
        }
        self.refilling.store(self.residents.pool().available() < self.limits.stop, Ordering::Relaxed);
        Ok(done)
    }

    /// Returns the number of pages that must be written to bring the number of dirty frames back within its limit.
    fn excess(&self) -> usize {
        let cleaning = self.shared.cleaning.load(Ordering::Relaxed);
        self.shared.must_write_pages_soon().saturating_sub(self.limits.dirty + cleaning)
    }

    /// Returns true if the cleaner could start a batch now.
    pub(in crate::cache) fn has_batch_to_write(&self) -> bool {
        self.shared.may_start_batch(self.excess())
    }
}
