//! What the cache counts about itself. Transfers and their latencies are counted below, in the `vfs` decorators.

use jetcell_sync::atomic::{AtomicU64, Ordering};

/// A snapshot of the cache's counters; sums since the cache was made unless said otherwise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CacheCounters {
    /// Pages asked for. ESE: "Database Cache Requests".
    pub requests: u64,
    /// Of these, found in memory. ESE: "Database Cache % Hit".
    pub hits: u64,
    /// Pages read because a session needed them. ESE: "Database Page Faults".
    pub faults: u64,
    /// Pages that were read ahead.
    pub prereads: u64,
    /// Sessions that waited for a read-ahead to complete. ESE: "Database Pages Preread Stalls".
    pub preread_stalls: u64,
    /// Pages read ahead and evicted untouched. ESE: "Database Pages Preread (Unnecessary)".
    pub prereads_unused: u64,
    /// Faults that found no available frame. ESE: "Database Page Fault Stalls".
    pub fault_stalls: u64,
    /// Pages that left the cache to make room. ESE: "Database Page Evictions".
    pub evictions: u64,
    /// Of these, dirty ones that nobody had to write.
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
    /// Single flipped bits put right on reading.
    pub bits_repaired: u64,
    /// Reads repeated after a wrong checksum.
    pub read_retries: u64,
    /// Now: frames that may exist.
    pub frames: u64,
    /// Now: frames that can be used at once.
    pub available: u64,
    /// Now: pages in frames that differ from the disk.
    pub dirty: u64,
    /// Now: pages that differ from the disk and have no frame.
    pub delta_pages: u64,
    /// Now: pages that equal the disk.
    pub clean: u64,
    /// Now: memory held by frames, copies and kept edits.
    pub resident_bytes: u64,
    /// Now: the configured maximum in bytes.
    pub max_bytes: u64,
}

/// The running sums behind [`CacheCounters`].
#[derive(Default)]
pub(super) struct Tallies {
    pub faults: Tally,
    pub prereads: Tally,
    pub preread_stalls: Tally,
    pub prereads_unused: Tally,
    pub fault_stalls: Tally,
    pub evictions: Tally,
    pub delta_evictions: Tally,
    pub written_checkpoint: Tally,
    pub written_eviction: Tally,
    pub written_flush: Tally,
    pub coalesced_written: Tally,
    pub coalesced_read: Tally,
    pub bits_repaired: Tally,
    pub read_retries: Tally,
}

/// A sum that nothing else is ordered by.
#[derive(Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    pub fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
