//! Frames for pages that come into memory: from the available pool, by eviction, or after writes.

use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::Cache;
use super::frame::Frame;
use super::in_flight::InFlight;
use super::write_back::{UnflushedLog, WriteReason};
use crate::{Error, Result};

/// Victims written at once by a session that found no clean page.
const FOREGROUND_WRITES: usize = 16;
/// How often a session pauses while all pages are pinned, and for how long.
const ATTEMPTS: usize = 20_000;
const PAUSE: Duration = Duration::from_micros(200);

impl Cache {
    /// A frame for a page fault, which only the caller has. Evicts a page if necessary, or writes dirty pages and waits for them. Must not
    /// be called with a latch held.
    pub(super) fn take_frame(&self) -> Result<Arc<Frame>> {
        if let Some(frame) = self.take_available() {
            return Ok(frame);
        }
        self.shared.counters.fault_stalls.add(1);
        self.evict_or_write()
    }

    /// A frame with memory from the available pool, if there is one and the system has memory for it.
    pub(super) fn take_available(&self) -> Option<Arc<Frame>> {
        self.take_bare().and_then(|frame| self.with_memory(frame).ok())
    }

    /// Gives the frame memory if it has none, or puts it back.
    fn with_memory(&self, frame: Arc<Frame>) -> Result<Arc<Frame>> {
        if !frame.obtain_memory() {
            self.shared.put_free(frame.index);
            return Err(Error::OutOfMemory { bytes: self.page_size.bytes() });
        }
        Ok(frame)
    }

    /// A frame from the available pool, which may have no memory yet. A caller that finds the pool low evicts a clean page
    /// for it, if there is a clean victim. The cleaner thread writes the dirty ones.
    pub(super) fn take_bare(&self) -> Option<Arc<Frame>> {
        if self.available() <= self.limits.start {
            if let Some(victim) = self.evict_clean() {
                self.shared.put_free(victim.index);
            }
            // While there are clean victims the pool does not shrink. The cleaner must be called before they run out.
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

    /// A frame when none is available: evicts a clean page, or writes dirty ones and waits for them. Prefers dirty pages
    /// for which the log is durable already.
    pub(super) fn evict_or_write(&self) -> Result<Arc<Frame>> {
        for _ in 0..ATTEMPTS {
            if let Some(frame) = self.evict_clean().or_else(|| self.take_bare()) {
                return self.with_memory(frame);
            }
            self.shared.check()?;
            let ended: Arc<InFlight> = Arc::default();
            let mut started = 0;
            for unflushed_log in [UnflushedLog::Skip, UnflushedLog::MoveWaypoint] {
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
                self.clock.sleep(PAUSE);
            }
        }
        Err(Error::Usage(format!(
            "cache of {} pages is too small: all of them are in use",
            self.limits.frames
        )))
    }
}
