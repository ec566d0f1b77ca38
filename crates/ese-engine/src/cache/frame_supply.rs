//! Supplies frames for pages that are read or created: from the available pool, by eviction, or after writes.

use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::Cache;
use super::frame::Frame;
use super::in_flight::InFlightCounter;
use super::write_back::{UnflushedPagePolicy, WriteReason};
use crate::{Error, Result};

/// Number of victims that a session writes at once if it finds no clean page.
const FOREGROUND_WRITES: usize = 16;
/// Maximum number of times that a session pauses while all pages are pinned. Each pause lasts
/// [`PINNED_RETRY_INTERVAL`].
const ATTEMPTS: usize = 20_000;
const PINNED_RETRY_INTERVAL: Duration = Duration::from_micros(200);

impl Cache {
    /// Takes a frame for a page fault. The caller becomes its only owner. The call evicts a page if necessary, or
    /// writes dirty pages and waits for the writes. Must not be called with a latch held.
    pub(super) fn take_frame(&self) -> Result<Arc<Frame>> {
        if let Some(frame) = self.take_available() {
            return Ok(frame);
        }
        self.shared.counters.fault_stalls.add(1);
        self.evict_or_write()
    }

    /// Takes a frame with memory from the available pool. Returns `None` if the pool is empty or the system cannot
    /// provide memory for the frame.
    pub(super) fn take_available(&self) -> Option<Arc<Frame>> {
        self.take_without_memory().and_then(|frame| self.with_memory(frame).ok())
    }

    /// Allocates memory for the frame if it has none. If this fails, the frame is returned to the pool.
    fn with_memory(&self, frame: Arc<Frame>) -> Result<Arc<Frame>> {
        if !frame.obtain_memory() {
            self.shared.put_free(frame.index);
            return Err(Error::OutOfMemory { bytes: self.page_size.bytes() });
        }
        Ok(frame)
    }

    /// Takes a frame from the available pool. The frame may not have memory yet. If the pool is low, the caller
    /// evicts a clean victim to refill it. The cleaner thread writes dirty victims.
    pub(super) fn take_without_memory(&self) -> Option<Arc<Frame>> {
        if self.available() <= self.limits.start {
            if let Some(victim) = self.evict_clean() {
                self.shared.put_free(victim.index);
            }
            // The pool does not shrink while there are clean victims, and the cleaner must be notified before they
            // run out.
            if self.available() <= self.limits.start || self.has_batch_to_write() {
                self.shared.cleaner_signal.notify();
            }
        }
        if let Some(index) = self.shared.take_free().or_else(|| self.shared.deltas.take_surplus_frame()) {
            return self.frames[index as usize].get().cloned();
        }
        let take = |used: usize| (used < self.limits.frames).then_some(used + 1);
        let index = self.used_frames.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok()?;
        let new = || Arc::new(Frame::new(index as u32, self.shared.clone()));
        Some(self.frames[index].get_or_init(new).clone())
    }

    /// Obtains a frame when none is available: evicts a clean page, or writes dirty pages and waits for the writes.
    /// Prefers dirty pages whose log records are already durable.
    pub(super) fn evict_or_write(&self) -> Result<Arc<Frame>> {
        for _ in 0..ATTEMPTS {
            if let Some(frame) = self.evict_clean().or_else(|| self.take_without_memory()) {
                return self.with_memory(frame);
            }
            self.shared.check()?;
            let ended: Arc<InFlightCounter> = Arc::default();
            let mut started = 0;
            for unflushed_log in [UnflushedPagePolicy::Skip, UnflushedPagePolicy::MoveWaypoint] {
                if started == 0 {
                    let victims = self.dirty_victims(FOREGROUND_WRITES);
                    started = self.write_pages(victims, WriteReason::Eviction, unflushed_log, &ended)?;
                }
            }
            ended.wait();
            if started == 0 {
                let of_deltas = self.shared.deltas.take_frame();
                if let Some(frame) = of_deltas.and_then(|index| self.frames[index as usize].get()) {
                    return self.with_memory(frame.clone());
                }
                self.clock.sleep(PINNED_RETRY_INTERVAL);
            }
        }
        Err(Error::Usage(format!(
            "the cache of {} pages is too small: all its pages are in use",
            self.limits.frames
        )))
    }
}
