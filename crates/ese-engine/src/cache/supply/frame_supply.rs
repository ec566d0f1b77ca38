//! Supplies frames for pages that are read or created: from the available pool, by eviction, or after writes.

use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_sync::atomic::AtomicBool;
use jetcell_vfs::Clock;

use crate::cache::frame::Frame;
use crate::cache::options::CacheLimits;
use crate::cache::replacement::ResidentPages;
use crate::cache::shared::{CacheInner, InFlightCounter};
use crate::cache::write::{UnflushedPagePolicy, WriteBack, WriteReason};
use crate::{Error, Result, UsageError};

/// Number of victims that a session writes at once if it finds no clean page.
const FOREGROUND_WRITES: usize = 16;
/// Maximum number of times that a session pauses while all pages are pinned. Each pause lasts
/// [`PINNED_RETRY_INTERVAL`].
const ATTEMPTS: usize = 20_000;
const PINNED_RETRY_INTERVAL: Duration = Duration::from_micros(200);

/// Supplies frames, by eviction and by writes if none is available.
pub(in crate::cache) struct FrameSupply {
    pub(super) shared: Arc<CacheInner>,
    pub(super) residents: ResidentPages,
    pub(super) writer: WriteBack,
    pub(super) limits: CacheLimits,
    clock: Arc<dyn Clock>,
    /// Whether the cleaner is filling the pool up to the stop threshold.
    pub(super) refilling: AtomicBool,
}

impl FrameSupply {
    pub fn new(
        shared: Arc<CacheInner>,
        limits: CacheLimits,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> FrameSupply {
        FrameSupply {
            residents: ResidentPages::new(shared.clone(), &limits, seed),
            writer: WriteBack::new(shared.clone(), limits),
            shared,
            limits,
            clock,
            refilling: AtomicBool::new(false),
        }
    }

    pub fn residents(&self) -> &ResidentPages {
        &self.residents
    }

    pub fn writer(&self) -> &WriteBack {
        &self.writer
    }

    /// Gives available frames to deltas if deltas need them. Evictions also do this, but filling an empty cache with
    /// changed pages causes no evictions.
    pub fn reserve_delta_memory(&self) {
        while self.shared.deltas.needs_frame()
            && let Some(frame) = self.take_without_memory()
        {
            frame.give_to_deltas();
        }
    }

    /// Takes a frame for a page fault. The caller becomes its only owner. The call evicts a page if necessary, or
    /// writes dirty pages and waits for the writes. Must not be called with a latch held.
    pub(in crate::cache) fn take_frame(&self) -> Result<Arc<Frame>> {
        if let Some(frame) = self.take_available() {
            return Ok(frame);
        }
        self.shared.counters.fault_stalls.add(1);
        self.evict_or_write()
    }

    /// Takes a frame with memory from the available pool. Returns `None` if the pool is empty or the system cannot
    /// provide memory for the frame.
    pub(in crate::cache) fn take_available(&self) -> Option<Arc<Frame>> {
        self.take_without_memory().and_then(|frame| self.with_memory(frame).ok())
    }

    /// Allocates memory for the frame if it has none. If this fails, the frame is returned to the pool.
    fn with_memory(&self, frame: Arc<Frame>) -> Result<Arc<Frame>> {
        if !frame.obtain_memory() {
            self.shared.put_free(frame.index);
            return Err(Error::OutOfMemory { bytes: self.shared.page_size.bytes() });
        }
        Ok(frame)
    }

    /// Takes a frame from the available pool. The frame may not have memory yet. If the pool is low, the caller
    /// evicts a clean victim to refill it. The cleaner thread writes dirty victims.
    pub(in crate::cache) fn take_without_memory(&self) -> Option<Arc<Frame>> {
        if self.residents.pool().available() <= self.limits.start {
            if let Some(victim) = self.residents.evict_clean() {
                self.shared.put_free(victim.index);
            }
            // The pool does not shrink while there are clean victims, and the cleaner must be notified before they
            // run out.
            if self.residents.pool().available() <= self.limits.start || self.has_batch_to_write() {
                self.shared.cleaner_signal.notify();
            }
        }
        if let Some(index) = self.shared.take_free().or_else(|| self.shared.deltas.take_surplus_frame()) {
            return self.residents.pool().get(index as usize).cloned();
        }
        self.residents.pool().take_unused().cloned()
    }

    /// Obtains a frame when none is available: evicts a clean page, or writes dirty pages and waits for the writes.
    /// Prefers dirty pages whose log records are already durable.
    pub(in crate::cache) fn evict_or_write(&self) -> Result<Arc<Frame>> {
        for _ in 0..ATTEMPTS {
            if let Some(frame) = self.residents.evict_clean().or_else(|| self.take_without_memory()) {
                return self.with_memory(frame);
            }
            self.shared.check()?;
            let ended: Arc<InFlightCounter> = Arc::default();
            let mut started = 0;
            for unflushed_log in [UnflushedPagePolicy::Skip, UnflushedPagePolicy::MoveWaypoint] {
                if started == 0 {
                    let victims = self.residents.dirty_victims(FOREGROUND_WRITES);
                    started =
                        self.writer.write_pages(victims, WriteReason::Eviction, unflushed_log, &ended)?;
                }
            }
            ended.wait();
            if started == 0 {
                let of_deltas = self.shared.deltas.take_frame();
                if let Some(frame) = of_deltas.and_then(|index| self.residents.pool().get(index as usize)) {
                    return self.with_memory(frame.clone());
                }
                self.clock.sleep(PINNED_RETRY_INTERVAL);
            }
        }
        Err(UsageError::CacheTooSmall(self.limits.frames).into())
    }
}
