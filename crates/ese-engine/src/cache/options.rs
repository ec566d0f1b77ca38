//! What a cache is made of.

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

/// How to make a cache; [`CacheOptions::new`] has defaults for all but the essentials.
#[derive(Clone)]
pub struct CacheOptions {
    /// Memory for pages and for copies of pages being written; at least 16 pages are used. ESE: `JET_paramCacheSizeMax`.
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
    /// Evicted pages whose last use is remembered. ESE: `JET_paramLRUKHistoryMax`.
    #[doc(alias = "JET_paramLRUKHistoryMax")]
    pub history_pages: usize,
    /// Largest transfer made of adjacent pages. ESE: `JET_paramMaxCoalesceWriteSize`.
    #[doc(alias = "JET_paramMaxCoalesceWriteSize")]
    pub coalesce_bytes: usize,
    /// Bytes of log that the checkpoint may be behind, as the instance has it. The deeper, the more pages may be away.
    pub checkpoint_depth: u64,
    /// Seed of the sampling that picks victims.
    pub seed: u64,
}

impl CacheOptions {
    /// Defaults: cleaning between 2 % and 4 % of the frames, edits in three quarters of the memory, a history of 100 000
    /// pages, transfers up to 512 KiB, a checkpoint depth of 20 MiB.
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
            checkpoint_depth: 20 << 20,
            seed: 0,
        }
    }
}

/// [`CacheOptions`] worked out in pages.
pub(super) struct Limits {
    /// Frames that may exist.
    pub frames: usize,
    /// Pages of copies that may exist.
    pub copies: usize,
    /// Fewer available frames start cleaning.
    pub start: usize,
    /// As many available frames end it.
    pub stop: usize,
    /// With more dirty frames there would soon be no clean victim: cleaning starts.
    pub dirty: usize,
    /// Frames that may be given up for edits.
    pub kept: usize,
    /// Pages of memory for edits that no frame was given up for yet.
    pub slack: usize,
    /// Pages in one transfer.
    pub run: usize,
    /// Remembered evicted pages.
    pub history: usize,
}

/// Copies need no more than this: it keeps the deepest device queue busy.
const MAX_COPY_BYTES: usize = 8 << 20;
/// Edits pile up between two evictions, which give up frames for them.
const SHARE_OF_SLACK: usize = 64;
/// Frames that are not given up for edits: several sessions that hold a few pages each.
const LEAST_FRAMES: usize = 32;
/// A split holds a handful of pages, and several sessions run at once.
const MIN_PAGES: usize = 16;

impl Limits {
    pub fn new(options: &CacheOptions) -> Limits {
        let page = options.page_size.bytes();
        let kept_permille = options.eviction.memory_permille();
        let pages = (options.bytes / page).max(MIN_PAGES);
        let copies = (pages / 16).clamp(1, MAX_COPY_BYTES / page);
        let slack = if kept_permille == 0 { 0 } else { (pages / SHARE_OF_SLACK).max(1) };
        let frames = (pages - copies - slack).min(u32::MAX as usize);
        let share = |permille: u32| frames * permille.min(500) as usize / 1000;
        // Small caches need a few frames at once, whatever their share.
        let floor = (frames / 16).clamp(1, 8);
        let start = share(options.start_cleaning_permille).max(floor);
        Limits {
            frames,
            copies,
            start,
            stop: share(options.stop_cleaning_permille).max(start + floor),
            dirty: frames / 2,
            kept: (frames * kept_permille as usize / 1000).min(frames.saturating_sub(LEAST_FRAMES)),
            slack,
            run: (options.coalesce_bytes / page).clamp(1, copies),
            history: options.history_pages.min(2 * frames).max(64),
        }
    }
}
