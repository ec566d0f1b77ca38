//! Counters of the cache. The decorators of `vfs` count transfers and their latencies.

use jetcell_sync::atomic::{AtomicU64, Ordering};

/// A snapshot of the cache's counters; sums since the cache was made unless said otherwise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CacheCounters {
    /// Pages requested. ESE: "Database Cache Requests".
    pub requests: u64,
    /// Of these, found in memory. ESE: "Database Cache % Hit".
    pub hits: u64,
    /// Pages read because a session needed them. ESE: "Database Page Faults".
    pub faults: u64,
    /// Pages that were read ahead.
    pub prereads: u64,
    /// Sessions that waited for a read-ahead to complete. ESE: "Database Pages Preread Stalls".
    pub preread_stalls: u64,
    /// Pages read ahead and evicted before their first use. ESE: "Database Pages Preread (Unnecessary)".
    pub prereads_unused: u64,
    /// Faults that found no available frame. ESE: "Database Page Fault Stalls".
    pub fault_stalls: u64,
    /// Pages evicted. ESE: "Database Page Evictions".
    pub evictions: u64,
    /// Of these, dirty pages that were not written, because the cache keeps their deltas.
    pub delta_evictions: u64,
    /// Pages written to advance the checkpoint. ESE: "Database Pages Flushed Checkpoint".
    pub written_checkpoint: u64,
    /// Pages written to make frames available. ESE: "Database Pages Flushed Scavenging".
    pub written_eviction: u64,
    /// Pages written by flushing a file. ESE: "Database Pages Flushed Context Flush".
    pub written_flush: u64,
    /// Pages written in a transfer that started with another page. ESE: "Database Pages Coalesced Written".
    pub coalesced_written: u64,
    /// Pages read in a transfer that started with another page. ESE: "Database Pages Coalesced Read".
    pub coalesced_read: u64,
    /// Single flipped bits corrected on reading.
    pub bits_repaired: u64,
    /// Reads repeated after a wrong checksum.
    pub read_retries: u64,
    /// Now: frames that may exist.
    pub frames: u64,
    /// Now: frames that can be used at once.
    pub available: u64,
    /// Now: dirty pages in frames.
    pub dirty: u64,
    /// Now: dirty pages without a frame, of which the cache keeps deltas.
    pub evicted_dirty: u64,
    /// Now: clean pages in frames.
    pub clean: u64,
    /// Now: memory of frames, transfer buffers and deltas.
    pub resident_bytes: u64,
    /// Now: the configured maximum in bytes.
    pub max_bytes: u64,
}

/// The running sums behind [`CacheCounters`].
#[derive(Default)]
pub(super) struct Counters {
    pub faults: Counter,
    pub prereads: Counter,
    pub preread_stalls: Counter,
    pub prereads_unused: Counter,
    pub fault_stalls: Counter,
    pub evictions: Counter,
    pub delta_evictions: Counter,
    pub written_checkpoint: Counter,
    pub written_eviction: Counter,
    pub written_flush: Counter,
    pub coalesced_written: Counter,
    pub coalesced_read: Counter,
    pub bits_repaired: Counter,
    pub read_retries: Counter,
    /// Microseconds that the reads of faults took.
    pub fault_us: Counter,
}

/// One running sum. It orders no other memory access.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
