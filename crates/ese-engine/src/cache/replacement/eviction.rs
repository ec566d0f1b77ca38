//! The replacement policy: LRU-K with K = 2, implemented by sampling.
//!
//! Pages are ranked by the time of their second-to-last use. A page that has been used only once ranks as if it had
//! also been used a few cache turnovers earlier. As a result, the pages of a scan are evicted before the working set,
//! and a page that was popular long ago is eventually evicted. Time is counted in pages read, so it is the same in
//! every run.
//!
//! There is no ordered list. A use costs two stores, and the victim is the page with the lowest rank in a sample.

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::resident_pages::ResidentPages;
use crate::cache::PinnedPage;
use crate::cache::frame::Frame;
use crate::splitmix::mix64;

/// Number of frames in a sample. On average, the lowest of 24 ranks is among the lowest 4 % of all.
const SAMPLE: usize = 24;
/// Number of samples tried before a sweep.
const SAMPLES: usize = 4;
/// Number of frames in a sweep.
const SWEEP: usize = 2048;
/// Number of cache turnovers between the only use of a page and the earlier use that is assumed for it.
const ASSUMED_TURNOVERS: u64 = 4;
/// Maximum number of write candidates for the cleaner.
const MAX_CANDIDATES: usize = 256;

/// Eviction rank of a page. The page with the lowest rank is evicted first. A page that a current operation is using
/// ranks above all pages that are not in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::cache) struct EvictionRank {
    in_use: bool,
    second_last: u64,
    last: u64,
}

impl EvictionRank {
    /// Returns the rank that the page would have if its second-to-last use had been `interval` later.
    pub fn plus(self, interval: u64) -> EvictionRank {
        EvictionRank { second_last: self.second_last.saturating_add(interval), ..self }
    }
}

impl ResidentPages {
    pub(in crate::cache) fn rank(&self, frame: &Frame, now: u64) -> EvictionRank {
        let (last, previous) = (frame.references.last(), frame.references.previous());
        let assumed = ASSUMED_TURNOVERS * self.frame_count;
        // Times are shifted to keep the assumed times above zero. Real times start at 1.
        let second_last = match (last, previous) {
            (0, _) => 0,
            (last, 0) => last,
            (_, previous) => previous + assumed,
        };
        // A page that was read ahead is expected to be used within half a cache turnover.
        let in_use = if frame.read_ahead.load(Ordering::Relaxed) {
            self.frame_count / 2
        } else {
            self.correlated_interval()
        };
        EvictionRank { in_use: last != 0 && now.saturating_sub(last) <= in_use, second_last, last }
    }

    /// Evicts the page with the lowest rank in a sample of pages that can be evicted without a write. The caller
    /// becomes the owner of the frame.
    pub(in crate::cache) fn evict_clean(&self) -> Option<Arc<Frame>> {
        let used = self.pool.used();
        if used > 2 * SAMPLE {
            for _ in 0..SAMPLES {
                let start = self.samples.fetch_add(SAMPLE as u64, Ordering::Relaxed);
                let picks = (start..start + SAMPLE as u64).map(|n| (mix64(n) % used as u64) as usize);
                if let Some(victim) = self.evict_lowest(picks) {
                    return Some(victim);
                }
            }
        }
        if used <= self.shared.free_count() + self.shared.deltas.frames() + self.shared.must_write_pages() {
            return None;
        }
        let length = used.min(SWEEP);
        let start = self.sweep_hand.fetch_add(length, Ordering::Relaxed);
        self.evict_lowest((start..start + length).map(|n| n % used))
    }

    fn evict_lowest(&self, picks: impl Iterator<Item = usize>) -> Option<Arc<Frame>> {
        let now = self.now.load(Ordering::Relaxed);
        let max_delta_bytes = self.shared.deltas.max_delta_bytes();
        let mut free: Option<(EvictionRank, &Arc<Frame>)> = None;
        let mut dirty: Option<(EvictionRank, u32)> = None;
        for frame in picks.filter_map(|pick| self.pool.get(pick)) {
            if frame.pins() > 0 || !frame.state().is_evictable() {
                continue;
            }
            let rank = self.rank(frame, now);
            if frame.is_dirty() && frame.delta_bytes() > max_delta_bytes {
                if dirty.is_none_or(|(least, _)| rank < least) {
                    dirty = Some((rank, frame.index));
                }
            } else if free.is_none_or(|(least, _)| rank < least) {
                free = Some((rank, frame));
            }
        }
        if let Some((rank, index)) = dirty
            && free.is_none_or(|(least, _)| rank < least)
        {
            self.add_write_candidate(index);
        }
        let (_, victim) = free?;
        let dirty = victim.is_dirty();
        // A page that is not admitted for eviction with deltas is written early, even if clean victims remain. This
        // spreads the writes over time.
        if dirty && (!self.shared.deltas.admits_eviction() || !self.discard_resolved_undo(victim)) {
            self.add_write_candidate(victim.index);
            return None;
        }
        if !self.page_table.evict(victim, max_delta_bytes) {
            return None;
        }
        self.shared.counters.evictions.add(1);
        self.shared.counters.delta_evictions.add(usize::from(dirty));
        self.shared.counters.prereads_unused.add(usize::from(victim.read_ahead.load(Ordering::Relaxed)));
        if self.shared.deltas.needs_frame() {
            victim.give_to_deltas();
            return None;
        }
        Some(victim.clone())
    }

    /// Drops before-images of the page that are no longer needed. Returns true if no before-image is left.
    fn discard_resolved_undo(&self, frame: &Frame) -> bool {
        !frame.has_undo.load(Ordering::Acquire)
            || self
                .pin_dirty(frame.index)
                .and_then(|page| page.try_write()?.discard_resolved_undo().then_some(()))
                .is_some()
    }

    /// Records a dirty page that would have been evicted if it were clean, for the cleaner to write.
    fn add_write_candidate(&self, index: u32) {
        let mut candidates = self.write_candidates.lock();
        if candidates.len() < MAX_CANDIDATES && !candidates.contains(&index) {
            candidates.push(index);
        }
        let count = candidates.len();
        drop(candidates);
        // The cleaner is woken before frames run low. Otherwise, hundreds of candidates could accumulate, and writing
        // them would delay reads and commits.
        if self.shared.may_start_batch(count) {
            self.shared.cleaner_signal.notify();
        }
    }

    /// Returns at most `count` dirty pages that should be written to make them evictable. Write candidates come
    /// first.
    pub(in crate::cache) fn dirty_victims(&self, count: usize) -> Vec<PinnedPage> {
        let mut indexes = std::mem::take(&mut *self.write_candidates.lock());
        let rest = indexes.split_off(indexes.len().min(count));
        self.write_candidates.lock().extend(rest);
        let used = self.pool.used();
        let now = self.now.load(Ordering::Relaxed);
        let candidate = |index: usize| {
            let frame = self.pool.get(index)?;
            let possible = self.must_be_written(frame) && frame.pins() == 0;
            possible.then(|| (self.rank(frame, now), frame.index))
        };
        if used <= 2 * SAMPLE {
            let mut all: Vec<_> = (0..used).filter_map(candidate).collect();
            all.sort_unstable();
            indexes.extend(all.into_iter().map(|(_, index)| index));
        } else {
            for _ in indexes.len()..count {
                let start = self.samples.fetch_add(SAMPLE as u64, Ordering::Relaxed);
                let picks = (start..start + SAMPLE as u64).map(|n| (mix64(n) % used as u64) as usize);
                indexes.extend(picks.filter_map(candidate).min().map(|(_, index)| index));
            }
            if indexes.is_empty() {
                let length = used.min(SWEEP);
                let start = self.sweep_hand.fetch_add(length, Ordering::Relaxed);
                let swept = (start..start + length).filter_map(|n| candidate(n % used));
                indexes.extend(swept.take(count).map(|(_, index)| index));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        indexes.retain(|index| seen.insert(*index));
        indexes.truncate(count);
        indexes.into_iter().filter_map(|index| self.pin_dirty(index)).collect()
    }

    fn pin_dirty(&self, index: u32) -> Option<PinnedPage> {
        let frame = self.pool.get(index as usize).filter(|frame| frame.is_dirty())?;
        // The key may change before the page is pinned. In that case, the index does not match.
        self.page_table.pin(frame.key()).filter(|page| page.frame().index == index)
    }
}
