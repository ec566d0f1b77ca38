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

/// Fixed part of the memory limit, in addition to 1.25 times the cache and [`OF_FURTHER_THREAD`].
const BESIDE_CACHE: u64 = 64 << 20;
/// Addition to the memory limit for each load thread beyond [`FEW_THREADS`]. The allocator keeps a heap for each
/// thread, with pages for each block size, and it is not known in advance how full these pages will be.
const OF_FURTHER_THREAD: u64 = 2 << 20;
const FEW_THREADS: usize = 8;
/// Memory of a run without databases: code, counters, samples, the report, and the allocator's reserve.
const OF_PROGRAM: u64 = 44 << 20;
/// Memory needed by a database in addition to its pages: log buffer, versions and counters.
const OF_DATABASE: u64 = 1 << 20;
/// Memory needed by a load thread: its stack, its latency distributions, and the part of its allocator heap that is
/// not covered by [`OF_FURTHER_THREAD`].
const OF_THREAD: u64 = 768 << 10;
/// Memory for a thread's session on one database: open tables and rows.
const OF_SESSION: u64 = 12 << 10;

/// Minimum memory for pages, per database and in total. Each table in a database needs a few pages.
const MIN_PAGES_OF_DATABASE: u64 = 1 << 20;
const MIN_PAGES: u64 = 8 << 20;

/// Memory for old record versions: per instance, in total, and the minimum per instance. Transactions of the load are
/// small, and transactions during creation contain a few dozen records.
const VERSION_STORE: u64 = 64 << 20;
const VERSION_STORES: u64 = 128 << 20;
const MIN_VERSION_STORE: u64 = 1 << 20;

/// Parameters that determine how much memory a run needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget {
    /// Requested cache size in bytes.
    pub(crate) cache: u64,
    pub(crate) databases: usize,
    pub(crate) threads: usize,
}

impl MemoryBudget {
    fn beside_pages(self) -> u64 {
        let (databases, threads) = (self.databases as u64, self.threads as u64);
        OF_PROGRAM + databases * (OF_DATABASE + threads * OF_SESSION) + threads * OF_THREAD
    }

    fn of_further_threads(self) -> u64 {
        self.threads.saturating_sub(FEW_THREADS) as u64 * OF_FURTHER_THREAD
    }

    /// Returns the process's memory limit in bytes.
    pub(crate) fn promise(self) -> u64 {
        self.cache
            .saturating_add(self.cache / 4)
            .saturating_add(BESIDE_CACHE)
            .saturating_add(self.of_further_threads())
    }

    /// Returns the memory available for pages, in bytes.
    pub(crate) fn pages(self) -> u64 {
        (self.promise() - self.of_further_threads()).saturating_sub(self.beside_pages()).min(self.cache)
    }

    /// Returns the minimum cache size for this number of databases and threads, in bytes.
    pub(crate) fn least_cache(self) -> u64 {
        let pages = MIN_PAGES.max(self.databases as u64 * MIN_PAGES_OF_DATABASE);
        let more = (pages + self.beside_pages()).saturating_sub(BESIDE_CACHE);
        pages.max((more * 4).div_ceil(5))
    }

    /// Returns the maximum memory for old record versions of one database, in bytes.
    pub(crate) fn versions(self) -> u64 {
        VERSION_STORE.min((VERSION_STORES / self.databases.max(1) as u64).max(MIN_VERSION_STORE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(cache_mib: u64, databases: usize, threads: usize) -> MemoryBudget {
        MemoryBudget { cache: cache_mib << 20, databases, threads }
    }

    #[test]
    fn pages_get_the_cache_unless_many_databases_take_more_than_the_promise_leaves() {
        let pages = |cache, databases, threads| budget(cache, databases, threads).pages() >> 20;
        assert_eq!(pages(64, 1, 8), 64);
        assert_eq!(pages(96, 24, 4), 96);
        assert_eq!(pages(192, 64, 4), 190);
        assert_eq!(pages(192, 64, 64), 100);
        assert_eq!(pages(8, 999, 1), 0);
    }

    #[test]
    fn threads_beyond_a_few_add_to_the_promise() {
        assert_eq!(budget(96, 24, 4).promise() >> 20, 184);
        assert_eq!(budget(64, 1, 8).promise() >> 20, 144);
        assert_eq!(budget(64, 1, 64).promise() >> 20, 256);
        assert_eq!(budget(192, 64, 64).pages() >> 20, 100, "they are not added to the pages");
        assert!(budget(u64::MAX >> 20, 1, 64).pages() > 1 << 60);
    }

    #[test]
    fn the_least_cache_leaves_every_database_its_pages() {
        for (databases, threads) in [(1, 1), (1, 512), (24, 4), (64, 64), (999, 8)] {
            let least = budget(0, databases, threads).least_cache();
            let pages = |cache| MemoryBudget { cache, ..budget(0, databases, threads) }.pages();
            let wanted = MIN_PAGES.max((databases as u64) << 20);
            assert!(pages(least + 4) >= wanted && least >= wanted, "{databases} {threads}");
            assert!(least == wanted || pages(least - 8) < wanted, "{databases} {threads}");
        }
        assert_eq!(budget(0, 1, 8).least_cache(), 8 << 20);
    }
}
