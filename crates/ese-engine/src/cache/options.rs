//! Options of a cache, and the limits in pages that follow from them.

use ese_format::PageSize;
use jetcell_sync::Arc;
use jetcell_vfs::Clock;

/// What happens to a dirty page that is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictionPolicy {
    /// The page is written first, as in ESE and most other engines.
    WriteBack,
    /// The page is not written if the deltas since its last write are small. The cache keeps the deltas in memory and
    /// applies them when the page is read again. LLAMA calls this a delta chain on a flushed page.
    KeepDeltas {
        /// Largest share of the cache's memory that deltas may use, in parts per 1000. At most 750 counts.
        memory_permille: u32,
    },
}

impl EvictionPolicy {
    /// Largest share of the memory for deltas, in parts per 1000; 0 if none are kept.
    fn memory_permille(self) -> u32 {
        match self {
            EvictionPolicy::WriteBack => 0,
            EvictionPolicy::KeepDeltas { memory_permille } => memory_permille.min(750),
        }
    }
}

/// Options of a cache. [`CacheOptions::new`] has defaults for all but three.
#[derive(Clone)]
pub struct CacheOptions {
    /// Memory for pages, transfer buffers and deltas, in bytes; at least 16 pages are used. ESE: `JET_paramCacheSizeMax`.
    #[doc(alias = "JET_paramCacheSizeMax")]
    pub bytes: usize,
    /// The one page size of all files.
    pub page_size: PageSize,
    /// Times pauses between retries.
    pub clock: Arc<dyn Clock>,
    /// Cleaning starts when fewer frames than this share of all are available (parts per 1000).
    /// ESE: `JET_paramStartFlushThreshold`.
    #[doc(alias = "JET_paramStartFlushThreshold")]
    pub start_cleaning_permille: u32,
    /// Cleaning stops when this share of all frames is available. ESE: `JET_paramStopFlushThreshold`.
    #[doc(alias = "JET_paramStopFlushThreshold")]
    pub stop_cleaning_permille: u32,
    /// What happens to a dirty page that is evicted.
    pub eviction: EvictionPolicy,
    /// Number of evicted pages whose last use is remembered. ESE: `JET_paramLRUKHistoryMax`.
    #[doc(alias = "JET_paramLRUKHistoryMax")]
    pub history_pages: usize,
    /// Largest transfer of adjacent pages, in bytes. ESE: `JET_paramMaxCoalesceWriteSize`.
    #[doc(alias = "JET_paramMaxCoalesceWriteSize")]
    pub coalesce_bytes: usize,
    /// Seed of the sampling that selects victims.
    pub seed: u64,
}

impl CacheOptions {
    /// Defaults: cleaning between 2 % and 4 % of the frames, deltas in three quarters of the memory, a history of 100 000
    /// pages, transfers up to 512 KiB.
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

/// Limits in pages that follow from [`CacheOptions`].
pub(super) struct Limits {
    /// Number of frames.
    pub frames: usize,
    /// Pages of all transfer buffers.
    pub transfer_pages: usize,
    /// Cleaning starts with fewer available frames.
    pub start: usize,
    /// Cleaning stops with so many available frames.
    pub stop: usize,
    /// Cleaning starts with more dirty frames: there would soon be no clean victim.
    pub dirty: usize,
    /// Frames whose memory deltas may use.
    pub delta_frames: usize,
    /// Pages of memory for deltas besides those frames.
    pub delta_slack: usize,
    /// Largest transfer, in pages.
    pub run: usize,
    /// Evicted pages whose last use is remembered.
    pub history: usize,
}

/// More bytes of transfer buffers are not useful: these keep the deepest device queue busy.
const MAX_TRANSFER_BYTES: usize = 8 << 20;
/// The share of the memory for deltas that are recorded between two evictions: only evictions give frames to deltas.
const DELTA_SLACK_SHARE: usize = 64;
/// Frames that deltas never use: several sessions pin a few pages each.
const MIN_FRAMES: usize = 32;
/// A split pins about five pages, and several sessions run at once.
const MIN_PAGES: usize = 16;

impl Limits {
    pub fn new(options: &CacheOptions) -> Limits {
        let page = options.page_size.bytes();
        let delta_permille = options.eviction.memory_permille();
        let pages = (options.bytes / page).max(MIN_PAGES);
        let transfer_pages = (pages / 16).clamp(1, MAX_TRANSFER_BYTES / page);
        let delta_slack = if delta_permille == 0 { 0 } else { (pages / DELTA_SLACK_SHARE).max(1) };
        let frames = (pages - transfer_pages - delta_slack).min(u32::MAX as usize);
        let share = |permille: u32| frames * permille.min(500) as usize / 1000;
        // A small cache needs a few available frames, whatever its share is.
        let floor = (frames / 16).clamp(1, 8);
        let start = share(options.start_cleaning_permille).max(floor);
        Limits {
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

    /// Frames, transfer buffers, start and stop threshold, dirty, frames and slack for deltas, run, history.
    fn limits(pages: usize, change: impl FnOnce(&mut CacheOptions)) -> [usize; 9] {
        let mut options = CacheOptions::new(pages * 4096, PageSize::KIB_4, Arc::new(SimClock::default()));
        change(&mut options);
        let limits = Limits::new(&options);
        let Limits { frames, transfer_pages, start, stop, dirty, delta_frames, delta_slack, run, history } =
            limits;
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
