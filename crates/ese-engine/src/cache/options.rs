//! Cache options, and the page limits derived from them.

use ese_format::PageSize;
use jetcell_sync::Arc;
use jetcell_vfs::Clock;

/// How to handle dirty pages on eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictionPolicy {
    /// The page is written first, as in ESE and most other engines.
    WriteBack,
    /// The page is not written if the deltas since its last write are small. The cache retains the deltas in memory
    /// and applies them when the page is read again. LLAMA calls this a delta chain on a flushed page.
    KeepDeltas {
        /// Maximum share of the cache's memory that deltas may use, in parts per 1000. Values above 750 are treated
        /// as 750.
        memory_permille: u32,
    },
}

impl EvictionPolicy {
    /// Returns the maximum share of memory for deltas, in parts per 1000, or 0 if none are retained.
    fn memory_permille(self) -> u32 {
        match self {
            EvictionPolicy::WriteBack => 0,
            EvictionPolicy::KeepDeltas { memory_permille } => memory_permille.min(750),
        }
    }
}

/// Options for creating a page cache. [`CacheOptions::new`] provides defaults for all but three options.
#[derive(Clone)]
pub struct CacheOptions {
    /// Memory for pages, transfer buffers and deltas, in bytes. The minimum is 16 pages. ESE:
    /// `JET_paramCacheSizeMax`.
    #[doc(alias = "JET_paramCacheSizeMax")]
    pub bytes: usize,
    /// Page size of all files.
    pub page_size: PageSize,
    /// Clock for the pauses between retries.
    pub clock: Arc<dyn Clock>,
    /// Cleaning starts when fewer than this share of all frames, in parts per 1000, is available. ESE:
    /// `JET_paramStartFlushThreshold`.
    #[doc(alias = "JET_paramStartFlushThreshold")]
    pub start_cleaning_permille: u32,
    /// Cleaning stops when this share of all frames, in parts per 1000, is available. ESE:
    /// `JET_paramStopFlushThreshold`.
    #[doc(alias = "JET_paramStopFlushThreshold")]
    pub stop_cleaning_permille: u32,
    /// Policy for evicting dirty pages.
    pub eviction: EvictionPolicy,
    /// Number of evicted pages whose last use is remembered. ESE: `JET_paramLRUKHistoryMax`.
    #[doc(alias = "JET_paramLRUKHistoryMax")]
    pub history_pages: usize,
    /// Maximum number of bytes of adjacent pages combined into one transfer. ESE: `JET_paramMaxCoalesceWriteSize`.
    #[doc(alias = "JET_paramMaxCoalesceWriteSize")]
    pub coalesce_bytes: usize,
    /// Seed for the random sampling that selects pages to evict.
    pub seed: u64,
}

impl CacheOptions {
    /// Creates options with default values: cleaning starts when 2 % and stops when 4 % of the frames are available,
    /// deltas use up to three quarters of the memory, the history covers 100,000 pages, and transfers are up to 512
    /// KiB.
    pub fn new(bytes: usize, page_size: PageSize, clock: Arc<dyn Clock>) -> CacheOptions {
        CacheOptions {
            bytes,
            page_size,
            clock,
            start_cleaning_permille: 20,
            stop_cleaning_permille: 40,
            eviction: EvictionPolicy::KeepDeltas { memory_permille: 750 },
            history_pages: 100_000,
            coalesce_bytes: 512 * 1024,
            seed: 0,
        }
    }
}

/// Limits in pages, derived from [`CacheOptions`].
#[derive(Clone, Copy)]
pub(super) struct CacheLimits {
    /// Number of frames.
    pub frames: usize,
    /// Total size of all transfer buffers, in pages.
    pub transfer_pages: usize,
    /// Number of available frames below which cleaning starts.
    pub start: usize,
    /// Number of available frames at which cleaning stops.
    pub stop: usize,
    /// Number of dirty frames above which cleaning starts. With more dirty frames, clean victims would soon run out.
    pub dirty: usize,
    /// Number of frames whose memory deltas may use.
    pub delta_frames: usize,
    /// Memory for deltas in addition to the memory of `delta_frames`, in pages.
    pub delta_slack: usize,
    /// Maximum size of a transfer, in pages.
    pub run: usize,
    /// Number of evicted pages whose last use is remembered.
    pub history: usize,
}

/// Maximum total size of all transfer buffers, in bytes. This is sufficient to keep the deepest device queue busy.
const MAX_TRANSFER_BYTES: usize = 8 << 20;
/// Divisor of the cache size that gives the memory for deltas recorded between two evictions. Only evictions give
/// further frames to deltas.
const DELTA_SLACK_SHARE: usize = 64;
/// Number of frames that deltas never use, because several sessions may each pin a few pages.
const MIN_FRAMES: usize = 32;
/// Minimum size of a cache in pages. A split pins about five pages, and several sessions run concurrently.
const MIN_PAGES: usize = 16;

impl CacheLimits {
    pub fn new(options: &CacheOptions) -> CacheLimits {
        let page = options.page_size.bytes();
        let delta_permille = options.eviction.memory_permille();
        let pages = (options.bytes / page).max(MIN_PAGES);
        let transfer_pages = (pages / 16).clamp(1, MAX_TRANSFER_BYTES / page);
        let delta_slack = if delta_permille == 0 { 0 } else { (pages / DELTA_SLACK_SHARE).max(1) };
        let frames = (pages - transfer_pages - delta_slack).min(u32::MAX as usize);
        let share = |permille: u32| frames * permille.min(500) as usize / 1000;
        // A small cache needs a few available frames, regardless of its configured share.
        let floor = (frames / 16).clamp(1, 8);
        let start = share(options.start_cleaning_permille).max(floor);
        CacheLimits {
            frames,
            transfer_pages,
            start,
            stop: share(options.stop_cleaning_permille).max(start + floor),
            dirty: frames / 2,
            delta_frames: (frames * delta_permille as usize / 1000).min(frames.saturating_sub(MIN_FRAMES)),
            delta_slack,
            run: (options.coalesce_bytes / page).clamp(1, transfer_pages),
            history: options.history_pages.min(2 * frames).max(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::SimClock;

    use super::*;

    /// Returns the limits in this order: frames, transfer buffers, start threshold, stop threshold, dirty, frames for
    /// deltas, slack for deltas, run, history.
    fn limits(pages: usize, change: impl FnOnce(&mut CacheOptions)) -> [usize; 9] {
        let mut options = CacheOptions::new(pages * 4096, PageSize::KIB_4, Arc::new(SimClock::default()));
        change(&mut options);
        let limits = CacheLimits::new(&options);
        let CacheLimits {
            frames,
            transfer_pages,
            start,
            stop,
            dirty,
            delta_frames,
            delta_slack,
            run,
            history,
        } = limits;
        [frames, transfer_pages, start, stop, dirty, delta_frames, delta_slack, run, history]
    }

    #[test]
    fn limits_follow_from_the_options() {
        let deltas = |memory_permille| EvictionPolicy::KeepDeltas { memory_permille };
        assert_eq!(limits(1, |_| ()), [14, 1, 1, 2, 7, 0, 1, 1, 64], "at least 16 pages");
        assert_eq!(
            limits(16, |options| options.eviction = EvictionPolicy::WriteBack),
            [15, 1, 1, 2, 7, 0, 0, 1, 64]
        );
        assert_eq!(limits(64, |_| ()), [59, 4, 3, 6, 29, 27, 1, 4, 118], "32 frames for sessions");
        assert_eq!(limits(1000, |_| ()), [923, 62, 18, 36, 461, 692, 15, 62, 1846]);
        assert_eq!(
            limits(1000, |options| options.eviction = deltas(999)),
            [923, 62, 18, 36, 461, 692, 15, 62, 1846]
        );
        assert_eq!(
            limits(1000, |options| options.eviction = deltas(100)),
            [923, 62, 18, 36, 461, 92, 15, 62, 1846]
        );
        let cleaning = |options: &mut CacheOptions| {
            (options.start_cleaning_permille, options.stop_cleaning_permille) = (400, 900);
            (options.coalesce_bytes, options.history_pages) = (3 * 4096, 100);
        };
        assert_eq!(
            limits(1000, cleaning),
            [923, 62, 369, 461, 461, 692, 15, 3, 100],
            "at most half of the frames"
        );
        assert_eq!(limits(200_000, |_| ())[..2], [194_827, 2048], "8 MiB of transfer buffers");
    }
}
