//! How the memory of a run is shared out, so that the process keeps one promise with any number of databases: at most 1.25
//! times the cache and 64 MiB, and 2 MiB for each thread of the load beyond eight.
//!
//! ```text
//!  1.25 x cache + 64 MiB + 2 MiB x (threads - 8)
//!      =  program  +  databases x (log buffer, versions, tables of each thread)  +  threads  +  pages
//! ```
//!
//! Pages have what is left, at most the cache. While databases are created, half of that is for the loads of tables.

/// The promise, beside 1.25 times the cache and [`OF_FURTHER_THREAD`].
const BESIDE_CACHE: u64 = 64 << 20;
/// What each further thread of the load adds to the promise. The allocator keeps a heap for each thread, with pages for each size of block, and
/// how full these are is not known beforehand.
const OF_FURTHER_THREAD: u64 = 2 << 20;
const FEW_THREADS: usize = 8;
/// What a run takes without databases: code, counters, samples, the report, and the reserve of the allocator.
const OF_PROGRAM: u64 = 44 << 20;
/// What a database takes beside its pages: its log buffer, versions and counters.
const OF_DATABASE: u64 = 1 << 20;
/// What a thread of the load takes: its stack, its distributions of latencies, its part of the allocator, as far as that is
/// not [`OF_FURTHER_THREAD`].
const OF_THREAD: u64 = 768 << 10;
/// What the session of a thread takes in one database: open tables and rows.
const OF_SESSION: u64 = 12 << 10;

/// The least memory for pages, for each database and for all: the tables of a database take a few pages each.
const LEAST_PAGES_OF_DATABASE: u64 = 1 << 20;
const LEAST_PAGES: u64 = 8 << 20;

/// Memory for old versions: of one instance, of all instances together, and the least of each. The transactions of the
/// load are small, and those of a creation have a few dozen records.
const VERSION_STORE: u64 = 64 << 20;
const VERSION_STORES: u64 = 128 << 20;
const LEAST_VERSION_STORE: u64 = 1 << 20;

/// What decides how much memory a run takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget {
    /// The cache that was asked for, in bytes.
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

    /// Most bytes of memory of the process.
    pub(crate) fn promise(self) -> u64 {
        self.cache
            .saturating_add(self.cache / 4)
            .saturating_add(BESIDE_CACHE)
            .saturating_add(self.of_further_threads())
    }

    /// Bytes of memory for pages.
    pub(crate) fn pages(self) -> u64 {
        (self.promise() - self.of_further_threads()).saturating_sub(self.beside_pages()).min(self.cache)
    }

    /// The smallest cache with which so many databases and threads work, in bytes.
    pub(crate) fn least_cache(self) -> u64 {
        let pages = LEAST_PAGES.max(self.databases as u64 * LEAST_PAGES_OF_DATABASE);
        let more = (pages + self.beside_pages()).saturating_sub(BESIDE_CACHE);
        pages.max((more * 4).div_ceil(5))
    }

    /// Most bytes of old versions of one database.
    pub(crate) fn versions(self) -> u64 {
        VERSION_STORE.min((VERSION_STORES / self.databases.max(1) as u64).max(LEAST_VERSION_STORE))
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
        assert_eq!(budget(192, 64, 64).pages() >> 20, 100, "they do not add to pages");
        assert!(budget(u64::MAX >> 20, 1, 64).pages() > 1 << 60);
    }

    #[test]
    fn the_least_cache_leaves_every_database_its_pages() {
        for (databases, threads) in [(1, 1), (1, 512), (24, 4), (64, 64), (999, 8)] {
            let least = budget(0, databases, threads).least_cache();
            let pages = |cache| MemoryBudget { cache, ..budget(0, databases, threads) }.pages();
            let wanted = LEAST_PAGES.max((databases as u64) << 20);
            assert!(pages(least + 4) >= wanted && least >= wanted, "{databases} {threads}");
            assert!(least == wanted || pages(least - 8) < wanted, "{databases} {threads}");
        }
        assert_eq!(budget(0, 1, 8).least_cache(), 8 << 20);
    }
}
