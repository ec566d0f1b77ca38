//! The pages in memory: their frames, the map from pages to frames, and the history of their uses.

use crossbeam_utils::CachePadded;
use jetcell_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use jetcell_sync::{Arc, Mutex};

use super::page_table::PageTable;
use crate::cache::PinnedPage;
use crate::cache::frame::Frame;
use crate::cache::frame::FramePool;
use crate::cache::options::CacheLimits;
use crate::cache::shared::CacheInner;

/// All pages in memory, with the state of the replacement policy.
pub(in crate::cache) struct ResidentPages {
    pub(super) shared: Arc<CacheInner>,
    pub(super) page_table: PageTable,
    pub(super) pool: FramePool,
    /// Maximum number of frames.
    pub(super) frame_count: u64,
    /// Logical time for the replacement policy: the number of pages read so far. It does not depend on a clock, and
    /// advances only when a page gets a frame.
    pub(super) now: CachePadded<AtomicU64>,
    pub(super) samples: CachePadded<AtomicU64>,
    pub(super) sweep_hand: AtomicUsize,
    /// Dirty frames that would have been evicted if they had been clean.
    pub(super) write_candidates: CachePadded<Mutex<Vec<u32>>>,
}

impl ResidentPages {
    pub fn new(shared: Arc<CacheInner>, limits: &CacheLimits, seed: u64) -> ResidentPages {
        ResidentPages {
            page_table: PageTable::new(limits.history),
            pool: FramePool::new(shared.clone(), limits.frames),
            frame_count: limits.frames as u64,
            now: CachePadded::new(AtomicU64::new(1)),
            samples: CachePadded::new(AtomicU64::new(seed)),
            sweep_hand: AtomicUsize::new(0),
            write_candidates: CachePadded::default(),
            shared,
        }
    }

    pub fn page_table(&self) -> &PageTable {
        &self.page_table
    }

    pub fn pool(&self) -> &FramePool {
        &self.pool
    }

    /// Returns the number of dirty pages that are recorded for the cleaner to write.
    pub fn write_candidates(&self) -> usize {
        self.write_candidates.lock().len()
    }

    /// Returns the interval within which several uses of a page count as one.
    #[doc(alias = "JET_paramLRUKCorrInterval")]
    pub(super) fn correlated_interval(&self) -> u64 {
        self.frame_count / 16
    }

    /// Records a use of the page in a frame.
    pub fn touch(&self, frame: &Frame) {
        let now = self.now.load(Ordering::Relaxed);
        if frame.read_ahead.load(Ordering::Relaxed) {
            frame.read_ahead.store(false, Ordering::Relaxed);
            frame.references.first_use(now);
        }
        frame.references.touch(now, self.correlated_interval());
    }

    /// Inserts a newly assigned page into the page table. Returns false if another thread has inserted the page
    /// first; the frame is then freed. `counts_as_use` is false if the page is needed only once.
    pub fn insert(&self, page: &PinnedPage, counts_as_use: bool) -> bool {
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        let inserted = self.page_table.insert(page.shared_frame(), counts_as_use.then_some(now));
        if !inserted {
            // The frame is freed when the pin is dropped.
            page.frame().retire();
        }
        inserted
    }

    /// Returns true if the page is dirty and must be written because it cannot be evicted with its deltas.
    pub fn must_be_written(&self, frame: &Frame) -> bool {
        frame.is_dirty()
            && (!self.shared.deltas.admits_page(frame.delta_bytes())
                || frame.has_undo.load(Ordering::Relaxed))
    }
}
