//! Memory accounting for deltas: the number of bytes they may use, and the frames that gave up their memory for them.

use crossbeam_utils::CachePadded;
use jetcell_sync::Mutex;
use jetcell_sync::atomic::{AtomicUsize, Ordering};

use super::admission::AdmissionBudget;

/// Estimated memory that one evicted page uses in addition to its deltas, in bytes.
const ENTRY_BYTES: usize = 128;
/// Divisor of the page size. A page whose deltas exceed this share of the page is written instead of being evicted
/// with its deltas.
const MAX_SHARE_OF_PAGE: usize = 4;

/// Accounts for the deltas of all pages, both in frames and evicted. Also decides which dirty pages may be evicted
/// with their deltas.
pub(in crate::cache) struct DeltaStore {
    page_bytes: usize,
    /// Maximum number of frames whose memory the store may use. 0 means that the policy does not retain deltas.
    frame_limit: usize,
    /// Number of frames, out of `frame_limit`, whose memory recovery currently uses for the log.
    withheld: AtomicUsize,
    /// Number of delta bytes that the store may use without taking a frame.
    slack: usize,
    bytes: CachePadded<AtomicUsize>,
    evicted_pages: AtomicUsize,
    frames: Mutex<Vec<u32>>,
    frame_count: AtomicUsize,
    budget: AdmissionBudget,
}

impl DeltaStore {
    /// Creates a store that uses the memory of at most `frame_limit` of the cache's `frames`, plus `slack` bytes.
    pub fn new(page_bytes: usize, frames: usize, frame_limit: usize, slack: usize) -> DeltaStore {
        DeltaStore {
            page_bytes,
            frame_limit,
            withheld: AtomicUsize::new(0),
            slack,
            bytes: CachePadded::default(),
            evicted_pages: AtomicUsize::new(0),
            frames: Mutex::default(),
            frame_count: AtomicUsize::new(0),
            budget: AdmissionBudget::new(frames),
        }
    }

    /// Returns true if the policy retains deltas.
    pub fn is_enabled(&self) -> bool {
        self.frame_limit > 0
    }

    /// Returns an empty buffer for the deltas of a page that is identical to its copy on disk, or `None` if deltas
    /// are not recorded.
    pub fn start_recording(&self) -> Option<Vec<u8>> {
        self.is_enabled().then(Vec::new)
    }

    /// Lowers the admission budget for a checkpoint that lags the end of the log by at most `bytes`.
    pub fn bound_checkpoint_depth(&self, bytes: u64) {
        self.budget.lower_to(usize::try_from(bytes).unwrap_or(usize::MAX) / self.page_bytes);
    }

    /// Starts a recovery that requests `frames` for the log. Returns the number of frames that it gets. All
    /// recoveries together get at most `limit`.
    pub fn begin_recovery(&self, frames: usize, limit: usize) -> usize {
        self.budget.begin_recovery();
        let granted = |withheld: usize| frames.min(limit.saturating_sub(withheld));
        let add = |withheld: usize| Some(withheld + granted(withheld));
        let (Ok(withheld) | Err(withheld)) =
            self.withheld.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        granted(withheld)
    }

    /// Takes back some of the frames that recovery used.
    pub fn return_withheld(&self, frames: usize) {
        self.withheld.fetch_sub(frames, Ordering::Relaxed);
    }

    pub fn end_recovery(&self) {
        self.budget.end_recovery();
    }

    fn current_frame_limit(&self) -> usize {
        self.frame_limit.saturating_sub(self.withheld.load(Ordering::Relaxed))
    }

    /// Reserves `more` bytes for the deltas of a page that already uses `have` bytes. Returns false if there is no
    /// room for them.
    pub fn reserve(&self, have: usize, more: usize) -> bool {
        let cost = more + if have == 0 { ENTRY_BYTES } else { 0 };
        let covered = self.frames() * self.page_bytes + self.slack;
        let fits = |bytes: usize| (bytes + cost <= covered).then_some(bytes + cost);
        have + more <= self.page_bytes / MAX_SHARE_OF_PAGE
            && self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Releases `bytes` bytes after a page's deltas have been dropped.
    pub fn release(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes + ENTRY_BYTES, Ordering::Relaxed);
        }
    }

    /// Returns the maximum number of delta bytes with which a page may be evicted, or 0 if no deltas are retained. The
    /// maximum decreases as the store fills up, because writing a page with many changes frees more memory.
    pub fn max_delta_bytes(&self) -> usize {
        let most = self.page_bytes / MAX_SHARE_OF_PAGE;
        let limit = self.current_frame_limit() * self.page_bytes;
        let left = limit.saturating_sub(self.bytes.load(Ordering::Relaxed));
        (2 * most * left).checked_div(limit).map_or(0, |max| max.min(most))
    }

    fn admits(&self) -> bool {
        self.is_enabled() && self.budget.admits()
    }

    /// Returns true if a page with `delta_bytes` of deltas may be evicted without a write.
    pub fn admits_page(&self, delta_bytes: usize) -> bool {
        self.admits() && delta_bytes <= self.max_delta_bytes()
    }

    /// Returns true if a page whose deltas are small enough may be evicted with them. If the budget is empty, some
    /// evictions are admitted as probes.
    pub fn admits_eviction(&self) -> bool {
        self.is_enabled() && self.budget.admits_or_probes()
    }

    /// Returns how many of `pages` dirty pages with deltas may be evicted without a write now.
    pub fn evictable(&self, pages: usize) -> usize {
        if self.admits() { pages } else { 0 }
    }

    /// Estimates how many of `pages` dirty pages with deltas will be evicted before the budget is empty.
    pub fn evictable_soon(&self, pages: usize) -> usize {
        if self.is_enabled() { self.budget.estimate_admitted(pages) } else { 0 }
    }

    /// Accounts for a dirty page that was evicted with its deltas.
    pub fn page_evicted(&self) {
        self.evicted_pages.fetch_add(1, Ordering::Relaxed);
        self.budget.spend();
    }

    /// Accounts for an evicted page that has returned to a frame.
    pub fn page_restored(&self) {
        self.evicted_pages.fetch_sub(1, Ordering::Relaxed);
        self.budget.gain();
    }

    /// Accounts for an evicted page that leaves the cache together with its file.
    pub fn page_discarded(&self, delta_bytes: usize) {
        self.release(delta_bytes);
        self.evicted_pages.fetch_sub(1, Ordering::Relaxed);
    }

    /// Accounts for evicted pages that are about to be read only to be written.
    pub fn account_read_for_write(&self, pages: usize) {
        self.budget.lose(pages);
    }

    /// Returns the number of dirty pages without a frame.
    pub fn evicted_pages(&self) -> usize {
        self.evicted_pages.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of all deltas, including the overhead of their entries.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of frames whose memory the store uses.
    pub fn frames(&self) -> usize {
        self.frame_count.load(Ordering::Relaxed)
    }

    /// Returns true if the store needs the memory of another frame.
    pub fn needs_frame(&self) -> bool {
        let frames = self.frames();
        frames < self.current_frame_limit() && self.bytes() > frames * self.page_bytes
    }

    /// Adds a frame that has released its memory. The store may use that memory for deltas.
    pub fn add_frame(&self, frame: u32) {
        let mut frames = self.frames.lock();
        frames.push(frame);
        self.frame_count.store(frames.len(), Ordering::Relaxed);
    }

    /// Takes a frame that the store no longer needs.
    pub fn take_surplus_frame(&self) -> Option<u32> {
        if self.bytes() + 2 * self.page_bytes > self.frames() * self.page_bytes {
            return None;
        }
        self.take_frame()
    }

    /// Takes a frame even if the store needs it. This is necessary when sessions have pinned all other frames and
    /// wait for each other.
    pub fn take_frame(&self) -> Option<u32> {
        if self.frames() == 0 {
            return None;
        }
        let mut frames = self.frames.lock();
        let frame = frames.pop();
        self.frame_count.store(frames.len(), Ordering::Relaxed);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn a_page_is_admitted_with_few_deltas_while_the_budget_lasts() {
        let store = DeltaStore::new(PAGE, 64, 32, 0);
        let most = store.max_delta_bytes();
        assert_eq!(most, PAGE / MAX_SHARE_OF_PAGE);
        assert!(store.admits_page(most) && !store.admits_page(most + 1));
        assert_eq!((store.evictable(7), store.evictable_soon(7)), (7, 7));
        store.account_read_for_write(64 * PAGE);
        assert!(!store.admits_page(0));
        assert_eq!((store.evictable(7), store.evictable_soon(7)), (0, 0));
        let disabled = DeltaStore::new(PAGE, 64, 0, 0);
        assert!(!disabled.admits_page(0) && !disabled.admits_eviction());
        assert_eq!((disabled.evictable(7), disabled.evictable_soon(7)), (0, 0));
    }

    #[test]
    fn the_checkpoint_depth_limits_evictions_without_writes() {
        let store = DeltaStore::new(PAGE, 64, 32, 0);
        store.bound_checkpoint_depth(3 * PAGE as u64);
        for left in (0..3).rev() {
            assert!(store.admits_page(0));
            store.page_evicted();
            assert_eq!((store.evicted_pages(), store.admits_page(0)), (3 - left, left > 0));
        }
        store.page_restored();
        assert!(store.admits_page(0), "it saved a write");
        assert_eq!(store.begin_recovery(32, 40), 32);
        assert_eq!((store.max_delta_bytes(), store.needs_frame()), (0, false), "recovery uses all frames");
        store.return_withheld(8);
        assert_eq!(store.max_delta_bytes(), PAGE / MAX_SHARE_OF_PAGE);
    }

    #[test]
    fn a_frame_is_needed_when_deltas_exceed_existing_frames() {
        let (limit, slack) = (5, 2 * PAGE);
        let store = DeltaStore::new(PAGE, 64, limit, slack);
        let (mut bytes, mut frames, mut fullest) = (0, 0, usize::MAX);
        while store.reserve(0, 500) {
            bytes += 500 + ENTRY_BYTES;
            assert_eq!(store.bytes(), bytes);
            assert!(store.max_delta_bytes() <= fullest, "a fuller store takes fewer deltas of a page");
            fullest = store.max_delta_bytes();
            assert_eq!(store.needs_frame(), frames < limit && bytes > frames * PAGE);
            if store.needs_frame() {
                store.add_frame(frames as u32);
                frames += 1;
            }
        }
        assert_eq!((frames, store.max_delta_bytes()), (limit, 0));
        assert!(bytes + 500 + ENTRY_BYTES > limit * PAGE + slack, "{bytes} bytes");
        assert!(store.reserve(500, 1), "the page has its entry");
        store.release(501);
        assert_eq!(store.bytes(), bytes - 500 - ENTRY_BYTES);
    }
}
