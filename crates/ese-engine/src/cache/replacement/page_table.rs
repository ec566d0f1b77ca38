//! Maps pages to their frames, and evicted pages to their deltas and their last use.
//!
//! Invariants: a key is in at most one frame. An unpinned frame is pinned or removed only while its shard is locked.
//! The history is a fixed-size array in which newer pages replace older ones.

use std::collections::HashMap;
use std::ops::Range;

use ese_format::{LogPosition, PageNumber};
use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Arc, RwLock};

use crate::cache::deltas::{DeltaStore, EvictedDirtyPage};
use crate::cache::frame::{Frame, FrameState};
use crate::cache::shared::AttachedFile;
use crate::cache::{PageKey, PinnedPage};
use crate::splitmix::{BuildSplitMixHasher, mix64};

const SHARDS: usize = 64;

/// The map from pages to frames.
pub(in crate::cache) struct PageTable {
    shards: Box<[Shard]>,
}

/// A part of the page table. Aligned to cache lines, because other threads use the adjacent shards.
#[repr(align(128))]
struct Shard {
    slots: RwLock<Slots>,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct Slots {
    frames: HashMap<u64, Arc<Frame>, BuildSplitMixHasher>,
    /// Dirty pages without a frame. A page is never in both maps.
    evicted_dirty: HashMap<u64, EvictedDirtyPage, BuildSplitMixHasher>,
    /// Evicted pages and their last use. Key 0 marks an empty entry.
    history: Box<[(u64, u64)]>,
}

impl PageTable {
    pub fn new(history: usize) -> PageTable {
        let places = history.div_ceil(SHARDS);
        let shard = || Shard {
            slots: RwLock::new(Slots {
                frames: HashMap::default(),
                evicted_dirty: HashMap::default(),
                history: vec![(0, 0); places].into(),
            }),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        PageTable { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    fn shard(&self, key: PageKey) -> &Shard {
        &self.shards[(mix64(key.to_u64()) >> 32) as usize % SHARDS]
    }

    /// Pins a page that has a frame, regardless of the state of the frame.
    pub fn pin(&self, key: PageKey) -> Option<PinnedPage> {
        let slots = self.shard(key).slots.read();
        let frame = slots.frames.get(&key.to_u64())?;
        frame.pin();
        Some(PinnedPage::adopt(frame.clone()))
    }

    /// Counts a request as a hit or a miss.
    pub fn count(&self, key: PageKey, hit: bool) {
        let shard = self.shard(key);
        let count = if hit { &shard.hits } else { &shard.misses };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of requests and the number of hits so far.
    pub fn counts(&self) -> (u64, u64) {
        let sum = |pick: fn(&Shard) -> &AtomicU64| -> u64 {
            self.shards.iter().map(|s| pick(s).load(Ordering::Relaxed)).sum()
        };
        let hits = sum(|s| &s.hits);
        (hits + sum(|s| &s.misses), hits)
    }

    /// Inserts an assigned frame. Returns false if the page already has a frame. `now` is the time of the page's
    /// first use, or `None` if the page is needed only once.
    pub fn insert(&self, frame: &Arc<Frame>, now: Option<u64>) -> bool {
        let key = frame.key();
        let mut slots = self.shard(key).slots.write();
        let word = key.to_u64();
        if slots.frames.contains_key(&word) {
            return false;
        }
        let place = slots.place(word);
        let remembered = slots.history.get_mut(place).filter(|entry| entry.0 == word);
        let remembered = remembered.map(|entry| std::mem::take(entry).1);
        match now {
            Some(now) => frame.references.start(now, remembered),
            None => frame.references.start(0, None),
        }
        if let Some(evicted) = slots.evicted_dirty.remove(&word) {
            frame.restore_evicted(evicted);
        }
        slots.frames.insert(word, frame.clone());
        true
    }

    /// Returns true if the page is dirty and has no frame.
    pub fn is_evicted_dirty(&self, key: PageKey) -> bool {
        self.shard(key).slots.read().evicted_dirty.contains_key(&key.to_u64())
    }

    /// Stores deltas for a page that has no frame. Returns false if the page has a frame, or if there is no room for
    /// the deltas.
    pub fn buffer_change(
        &self,
        key: PageKey,
        attached: &AttachedFile,
        store: &DeltaStore,
        positions: Range<LogPosition>,
        deltas: &[u8],
    ) -> bool {
        let mut slots = self.shard(key).slots.write();
        let word = key.to_u64();
        if slots.frames.contains_key(&word) {
            return false;
        }
        let have = slots.evicted_dirty.get(&word).map_or(0, |evicted| evicted.deltas.len());
        if have + deltas.len() > store.max_delta_bytes() || !store.reserve(have, deltas.len()) {
            return false;
        }
        let evicted = slots.evicted_dirty.entry(word).or_insert_with(|| {
            attached.dirty_pages.lock().insert(key.page, positions.start);
            store.page_evicted();
            EvictedDirtyPage::for_unread_page(positions.start)
        });
        if positions.start < evicted.first {
            attached.dirty_pages.lock().lower_first(key.page, evicted.first, positions.start);
            evicted.first = positions.start;
        }
        evicted.append(positions.end, deltas);
        true
    }

    /// Removes the frame of an unpinned page and remembers the page's last use. The frame then belongs to the caller.
    /// The page must be clean or have at most `max_delta_bytes` bytes of deltas. Returns false if the page cannot be
    /// evicted.
    pub fn evict(&self, frame: &Frame, max_delta_bytes: usize) -> bool {
        let key = frame.key();
        let word = key.to_u64();
        let mut slots = self.shard(key).slots.write();
        let has_frame = slots.frames.get(&word).is_some_and(|found| found.index == frame.index);
        if !has_frame || frame.pins() > 0 || !frame.state().is_evictable() {
            return false;
        }
        if frame.is_dirty() {
            let Some(evicted) = frame.evict_dirty(max_delta_bytes) else { return false };
            slots.evicted_dirty.insert(word, evicted);
        }
        slots.frames.remove(&word);
        let place = slots.place(word);
        if let Some(entry) = slots.history.get_mut(place) {
            *entry = (word, frame.references.last());
        }
        frame.set_state(FrameState::Free);
        true
    }

    /// Sets the state to `Loading` for a page that was created but never changed. Returns false if the caller does
    /// not have the only pin.
    pub fn reload_fresh(&self, page: &PinnedPage) -> bool {
        let _slots = self.shard(page.key()).slots.write();
        page.frame().pins() == 1 && page.frame().transition(FrameState::Fresh, FrameState::Loading)
    }

    /// Returns the state of a page that the caller has pinned. The lock excludes a concurrent
    /// [`PageTable::reload_fresh`].
    pub fn stable_state(&self, page: &PinnedPage) -> FrameState {
        let _slots = self.shard(page.key()).slots.read();
        page.frame().state()
    }

    /// Removes the `wanted` pages of a file. If a page is pinned, its last pin frees the frame. Returns true if a
    /// writer has claimed one of the pages.
    pub fn remove_pages(
        &self,
        attached: &AttachedFile,
        store: &DeltaStore,
        wanted: impl Fn(PageNumber) -> bool,
    ) -> bool {
        let is_wanted = |key: PageKey| key.file == attached.id && wanted(key.page);
        let mut claimed = false;
        for shard in &self.shards {
            let mut slots = shard.slots.write();
            let mut removed: Vec<_> = slots.frames.values().filter(|f| is_wanted(f.key())).cloned().collect();
            removed.sort_by_key(|frame| frame.index);
            for frame in &removed {
                claimed |= frame.is_claimed();
                slots.frames.remove(&frame.key().to_u64());
                frame.pin();
                frame.retire();
                // This must follow `retire`, because a retired page cannot become dirty again. A writer that has
                // pinned the page then cannot claim it, even if another file gets the same id.
                frame.discard_changes(attached);
            }
            slots.evicted_dirty.retain(|key, evicted| {
                let key = PageKey::from_u64(*key);
                let stays = !is_wanted(key);
                if !stays {
                    attached.dirty_pages.lock().remove(key.page, evicted.first);
                    store.page_discarded(evicted.deltas.len());
                }
                stays
            });
            slots
                .history
                .iter_mut()
                .filter(|e| e.0 != 0 && is_wanted(PageKey::from_u64(e.0)))
                .for_each(|e| *e = (0, 0));
            drop(slots);
            for frame in removed {
                // Deferred undo holds a reference to the database and must not outlive it.
                frame.discard_undo();
                frame.unpin();
            }
        }
        claimed
    }
}

impl Slots {
    fn place(&self, word: u64) -> usize {
        (mix64(word) & 0xffff_ffff) as usize % self.history.len().max(1)
    }
}
