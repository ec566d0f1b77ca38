//! Cache counters. The decorators in `vfs` count transfers and their latencies.

use jetcell_sync::atomic::{AtomicU64, Ordering};

/// A snapshot of the cache's counters. Values are totals since the cache was created, unless the field states
/// otherwise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CacheCounters {
    /// Number of page requests. ESE: "Database Cache Requests".
    pub requests: u64,
    /// Number of requests that found the page in memory. ESE: "Database Cache % Hit".
    pub hits: u64,
    /// Number of pages read because a session needed them. ESE: "Database Page Faults".
    pub faults: u64,
    /// Number of pages that were read ahead.
    pub prereads: u64,
    /// Number of times that a session waited for a read-ahead to complete. ESE: "Database Pages Preread Stalls".
    pub preread_stalls: u64,
    /// Number of pages that were read ahead and evicted before their first use. ESE: "Database Pages Preread
    /// (Unnecessary)".
    pub prereads_unused: u64,
    /// Number of faults that found no available frame. ESE: "Database Page Fault Stalls".
    pub fault_stalls: u64,
    /// Number of evicted pages. ESE: "Database Page Evictions".
    pub evictions: u64,
    /// Number of dirty pages that were evicted without a write, because the cache retained their deltas.
    pub delta_evictions: u64,
    /// Number of pages written to advance the checkpoint. ESE: "Database Pages Flushed Checkpoint".
    pub written_checkpoint: u64,
    /// Number of pages written to make frames available. ESE: "Database Pages Flushed Scavenging".
    pub written_eviction: u64,
    /// Number of pages written by flushing a file. ESE: "Database Pages Flushed Context Flush".
    pub written_flush: u64,
    /// Number of pages written in a transfer that started with another page. ESE: "Database Pages Coalesced Written".
    pub coalesced_written: u64,
    /// Number of pages read in a transfer that started with another page. ESE: "Database Pages Coalesced Read".
    pub coalesced_read: u64,
    /// Number of flipped bits that were corrected on reading.
    pub bits_repaired: u64,
    /// Number of reads that were retried after a checksum mismatch.
    pub read_retries: u64,
    /// Current maximum number of frames.
    pub frames: u64,
    /// Current number of frames that can be used immediately.
    pub available: u64,
    /// Current number of dirty pages in frames.
    pub dirty: u64,
    /// Current number of dirty pages without a frame. The cache retains the deltas of these pages.
    pub evicted_dirty: u64,
    /// Current number of clean pages in frames.
    pub clean: u64,
    /// Current memory used by frames, transfer buffers and deltas, in bytes.
    pub resident_bytes: u64,
    /// Configured maximum memory in bytes.
    pub max_bytes: u64,
}

/// Defines the running totals, which have the same names as the corresponding fields of [`CacheCounters`].
macro_rules! totals {
    ($($name:ident)*) => {
        /// The running totals of a cache.
        #[derive(Default)]
        pub(in crate::cache) struct AtomicCacheCounters {
            $(pub $name: RelaxedCounter,)*
            /// Total time in microseconds spent on reads caused by faults.
            pub fault_us: RelaxedCounter,
        }

        impl AtomicCacheCounters {
            /// Returns the totals. All other counters are zero.
            pub fn totals(&self) -> CacheCounters {
                CacheCounters { $($name: self.$name.get(),)* ..CacheCounters::default() }
            }
        }
    };
}

totals! {
    faults prereads preread_stalls prereads_unused fault_stalls evictions delta_evictions written_checkpoint
    written_eviction written_flush coalesced_written coalesced_read bits_repaired read_retries
}

/// A running total that is updated with relaxed memory ordering.
#[derive(Default)]
pub(in crate::cache) struct RelaxedCounter(AtomicU64);

impl RelaxedCounter {
    pub fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
