//! Which page leaves: LRU-K with K = 2, by sampling.
//!
//! A page is worth as much as its last use but one is recent; pages used once are assumed to have been used before
//! a few turnovers of the cache ago, which makes a scan leave before the working set, and lets a page that was
//! popular long ago go at last. Time is counted in pages read, so that it is the same in every run.
//!
//! Nothing is ordered in a list: a use costs two stores, a victim is the best of a sample.

use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::IoBuffer;

use super::frame::Frame;
use super::{Cache, PinnedPage};
use crate::splitmix::mix64;

/// The best of 24 is on average among the worst 4 % of all.
const SAMPLE: usize = 24;
/// Samples before a sweep.
const SAMPLES: usize = 4;
/// Frames that one sweep looks at.
const SWEEP: usize = 2048;
/// Turnovers of the cache between the last and the assumed last but one use of a page used once.
const ASSUMED_TURNOVERS: u64 = 4;
/// Dirty victims remembered for the cleaner.
const MAX_WANTED: usize = 256;

/// Orders victims, least valuable first: uses in the current operation count more than all history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Worth {
    in_use: bool,
    second_last: u64,
    last: u64,
}

impl Worth {
    /// Of pages that are next in turn after those worth this.
    pub fn and_a_little(self, interval: u64) -> Worth {
        Worth { second_last: self.second_last.saturating_add(interval), ..self }
    }
}

impl Cache {
    /// Uses closer together than this are one.
    #[doc(alias = "JET_paramLRUKCorrInterval")]
    pub(super) fn correlated_interval(&self) -> u64 {
        self.limits.frames as u64 / 16
    }

    pub(super) fn worth(&self, frame: &Frame, now: u64) -> Worth {
        let (last, previous) = (frame.references.last(), frame.references.previous());
        let assumed = ASSUMED_TURNOVERS * self.limits.frames as u64;
        // Times are shifted so that assumed ones are not cut off at zero; real ones start at 1.
        let second_last = match (last, previous) {
            (0, _) => 0,
            (last, 0) => last,
            (_, previous) => previous + assumed,
        };
        // A page read ahead is about to be used, for half a turnover.
        let in_use = match frame.read_ahead.load(Ordering::Relaxed) {
            true => self.limits.frames as u64 / 2,
            false => self.correlated_interval(),
        };
        Worth { in_use: last != 0 && now.saturating_sub(last) <= in_use, second_last, last }
    }

    /// Takes the least valuable of some pages that need not be written out of the cache; its frame belongs to the caller.
    pub(super) fn evict_clean(&self) -> Option<Arc<Frame>> {
        let used = self.used_frames();
        if used > 2 * SAMPLE {
            for _ in 0..SAMPLES {
                let start = self.samples.fetch_add(SAMPLE as u64, Ordering::Relaxed);
                let picks = (start..start + SAMPLE as u64).map(|n| (mix64(n) % used as u64) as usize);
                if let Some(victim) = self.evict_best(picks) {
                    return Some(victim);
                }
            }
        }
        if used <= self.books.free_count() + self.books.kept.lent() + self.books.heavy() {
            return None;
        }
        let length = used.min(SWEEP);
        let start = self.sweep_hand.fetch_add(length, Ordering::Relaxed);
        self.evict_best((start..start + length).map(|n| n % used))
    }

    fn evict_best(&self, picks: impl Iterator<Item = usize>) -> Option<Arc<Frame>> {
        let now = self.now.load(Ordering::Relaxed);
        let heaviest = self.books.kept.heaviest();
        let mut free: Option<(Worth, &Arc<Frame>)> = None;
        let mut dirty: Option<(Worth, u32)> = None;
        for frame in picks.filter_map(|pick| self.frames[pick].get()) {
            if frame.pins() > 0 || !frame.state().is_evictable() {
                continue;
            }
            let worth = self.worth(frame, now);
            if frame.is_dirty() && frame.weight() > heaviest {
                if dirty.is_none_or(|(least, _)| worth < least) {
                    dirty = Some((worth, frame.index));
                }
            } else if free.is_none_or(|(least, _)| worth < least) {
                free = Some((worth, frame));
            }
        }
        if let Some((worth, index)) = dirty
            && free.is_none_or(|(least, _)| worth < least)
        {
            self.want(index);
        }
        let (_, victim) = free?;
        let dirty = victim.is_dirty();
        // One that may not go is written early, though clean ones remain: writes in time are fewer at once.
        if dirty && (!self.books.kept.may_go() || !self.discard_resolved_undo(victim)) {
            self.want(victim.index);
            return None;
        }
        if !self.table.evict(victim, heaviest) {
            return None;
        }
        self.books.tallies.evictions.add(1);
        self.books.tallies.delta_evictions.add(usize::from(dirty));
        self.books.tallies.prereads_unused.add(usize::from(victim.read_ahead.load(Ordering::Relaxed)));
        if self.books.kept.wants_frame() {
            self.give_up_for_edits(victim);
            return None;
        }
        Some(victim.clone())
    }

    fn give_up_for_edits(&self, frame: &Frame) {
        self.books.memory.give_up(std::mem::replace(&mut frame.body.write().bytes, IoBuffer::zeroed(0)));
        self.books.kept.lend(frame.index);
    }

    /// Gives up frames for edits though none is evicted: who fills an empty cache with changed pages leaves no room for
    /// what changed.
    pub(crate) fn reserve_delta_memory(&self) {
        while self.books.kept.wants_frame()
            && let Some(frame) = self.take_available()
        {
            self.give_up_for_edits(&frame);
        }
    }

    /// Whether no before-image hangs on the page any more, or none that is needed.
    fn discard_resolved_undo(&self, frame: &Frame) -> bool {
        !frame.has_undo.load(Ordering::Acquire)
            || self
                .pin_dirty(frame.index)
                .and_then(|page| page.try_write()?.discard_resolved_undo().then_some(()))
                .is_some()
    }

    /// A dirty page should have been evicted: the cleaner will write it.
    fn want(&self, index: u32) {
        let mut wanted = self.wanted.lock();
        if wanted.len() < MAX_WANTED && !wanted.contains(&index) {
            wanted.push(index);
        }
        let count = wanted.len();
        drop(wanted);
        self.victims_gathered(count);
    }

    /// Dirty pages to write so that they can be evicted, at most `count`; those that were wanted come first.
    pub(super) fn dirty_victims(&self, count: usize) -> Vec<PinnedPage> {
        let mut indexes = std::mem::take(&mut *self.wanted.lock());
        let kept = indexes.split_off(indexes.len().min(count));
        self.wanted.lock().extend(kept);
        let used = self.used_frames();
        let now = self.now.load(Ordering::Relaxed);
        let candidate = |index: usize| {
            let frame = self.frames[index].get()?;
            let possible = self.must_be_written(frame) && frame.pins() == 0;
            possible.then(|| (self.worth(frame, now), frame.index))
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

    /// Whether the page may leave memory without being written.
    pub(crate) fn can_evict(&self, page: &PinnedPage) -> bool {
        !self.must_be_written(page.frame())
    }

    /// Whether a page is dirty and cannot go just so.
    pub(super) fn must_be_written(&self, frame: &Frame) -> bool {
        let kept = &self.books.kept;
        frame.is_dirty()
            && (!kept.pays() || frame.weight() > kept.heaviest() || frame.has_undo.load(Ordering::Relaxed))
    }

    fn pin_dirty(&self, index: u32) -> Option<PinnedPage> {
        let frame = self.frames[index as usize].get().filter(|frame| frame.is_dirty())?;
        // The key may change until the page is pinned, but then it is another frame that is found.
        self.table.pin(frame.key()).filter(|page| page.frame().index == index)
    }
}
