//! Memory budget of a run. For any number of databases, the process stays within a fixed limit: 1.25 times the cache,
//! plus 64 MiB, plus 2 MiB for each load thread beyond eight.
//!
//! ```text
//!  1.25 x cache + 64 MiB + 2 MiB x (threads - 8)
//!      =  program  +  databases x (log buffer, versions, tables of each thread)  +  threads  +  pages
//! ```
//!
//! Pages get the remaining memory, up to the cache size. During database creation, half of this memory is used for
//! table loads.

/// Fixed part of the memory limit, in addition to 1.25 times the cache and [`BYTES_PER_ADDITIONAL_THREAD`].
const FIXED_BYTES: u64 = 64 << 20;
/// Addition to the memory limit for each load thread beyond [`BASE_THREADS`]. The allocator keeps a heap for each
/// thread, with pages for each block size, and it is not known in advance how full these pages will be.
const BYTES_PER_ADDITIONAL_THREAD: u64 = 2 << 20;
const BASE_THREADS: usize = 8;
/// Memory of a run without databases: code, counters, samples, the report, and the allocator's reserve.
const PROGRAM_BYTES: u64 = 44 << 20;
/// Memory needed by a database in addition to its pages: log buffer, versions and counters.
const BYTES_PER_DATABASE: u64 = 1 << 20;
/// Memory needed by a load thread: its stack, its latency distributions, and the part of its allocator heap that is
/// not covered by [`BYTES_PER_ADDITIONAL_THREAD`].
const BYTES_PER_THREAD: u64 = 768 << 10;
/// Memory for a thread's session on one database: open tables and rows.
const BYTES_PER_SESSION: u64 = 12 << 10;

/// Minimum memory for pages, per database and in total. Each table in a database needs a few pages.
const MIN_PAGE_BYTES_PER_DATABASE: u64 = 1 << 20;
const MIN_PAGE_BYTES: u64 = 8 << 20;

/// Memory for old record versions: per instance, in total, and the minimum per instance. Transactions of the load are
/// small, and transactions during creation contain a few dozen records.
const MAX_VERSION_STORE_BYTES: u64 = 64 << 20;
const MAX_TOTAL_VERSION_STORE_BYTES: u64 = 128 << 20;
const MIN_VERSION_STORE_BYTES: u64 = 1 << 20;

/// Parameters that determine how much memory a run needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget {
    /// Requested cache size in bytes.
    pub(crate) cache: u64,
    pub(crate) databases: usize,
    pub(crate) threads: usize,
}

impl MemoryBudget {
    fn non_page_bytes(self) -> u64 {
        let (databases, threads) = (self.databases as u64, self.threads as u64);
        PROGRAM_BYTES
            + databases * (BYTES_PER_DATABASE + threads * BYTES_PER_SESSION)
            + threads * BYTES_PER_THREAD
    }

    fn additional_thread_bytes(self) -> u64 {
        self.threads.saturating_sub(BASE_THREADS) as u64 * BYTES_PER_ADDITIONAL_THREAD
    }

    /// Returns the process's memory limit in bytes.
    pub(crate) fn memory_limit(self) -> u64 {
        self.cache
            .saturating_add(self.cache / 4)
            .saturating_add(FIXED_BYTES)
            .saturating_add(self.additional_thread_bytes())
    }

    /// Returns the memory available for pages, in bytes.
    pub(crate) fn page_bytes(self) -> u64 {
        (self.memory_limit() - self.additional_thread_bytes())
            .saturating_sub(self.non_page_bytes())
            .min(self.cache)
    }

    /// Returns the minimum cache size for this number of databases and threads, in bytes.
    pub(crate) fn min_cache(self) -> u64 {
        let pages = MIN_PAGE_BYTES.max(self.databases as u64 * MIN_PAGE_BYTES_PER_DATABASE);
        let more = (pages + self.non_page_bytes()).saturating_sub(FIXED_BYTES);
        pages.max((more * 4).div_ceil(5))
    }

    /// Returns the maximum memory for old record versions of one database, in bytes.
    pub(crate) fn version_store_bytes(self) -> u64 {
        MAX_VERSION_STORE_BYTES
            .min((MAX_TOTAL_VERSION_STORE_BYTES / self.databases.max(1) as u64).max(MIN_VERSION_STORE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(cache_mib: u64, databases: usize, threads: usize) -> MemoryBudget {
        MemoryBudget { cache: cache_mib << 20, databases, threads }
    }

    #[test]
    fn pages_get_the_cache_minus_excess_database_overhead() {
        let pages = |cache, databases, threads| budget(cache, databases, threads).page_bytes() >> 20;
        assert_eq!(pages(64, 1, 8), 64);
        assert_eq!(pages(96, 24, 4), 96);
        assert_eq!(pages(192, 64, 4), 190);
        assert_eq!(pages(192, 64, 64), 100);
        assert_eq!(pages(8, 999, 1), 0);
    }

    #[test]
    fn additional_threads_raise_the_memory_limit() {
        assert_eq!(budget(96, 24, 4).memory_limit() >> 20, 184);
        assert_eq!(budget(64, 1, 8).memory_limit() >> 20, 144);
        assert_eq!(budget(64, 1, 64).memory_limit() >> 20, 256);
        assert_eq!(budget(192, 64, 64).page_bytes() >> 20, 100, "they are not added to the pages");
        assert!(budget(u64::MAX >> 20, 1, 64).page_bytes() > 1 << 60);
    }

    #[test]
    fn the_minimum_cache_has_enough_pages_for_every_database() {
        for (databases, threads) in [(1, 1), (1, 512), (24, 4), (64, 64), (999, 8)] {
            let least = budget(0, databases, threads).min_cache();
            let pages = |cache| MemoryBudget { cache, ..budget(0, databases, threads) }.page_bytes();
            let wanted = MIN_PAGE_BYTES.max((databases as u64) << 20);
            assert!(pages(least + 4) >= wanted && least >= wanted, "{databases} {threads}");
            assert!(least == wanted || pages(least - 8) < wanted, "{databases} {threads}");
        }
        assert_eq!(budget(0, 1, 8).min_cache(), 8 << 20);
    }
}
