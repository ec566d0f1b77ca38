//! Which frame holds which page, and when evicted pages were last used.
//!
//! Invariants: a key is in at most one frame; pinning an unpinned frame, and taking one out, happen under the lock
//! of its shard. The history is a fixed array in which a newer page displaces an older one.

use std::collections::HashMap;
use std::ops::Range;

use ese_format::LogPosition;
use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Arc, RwLock};

use super::change::Away;
use super::files::Attached;
use super::frame::{Frame, State};
use super::kept::Kept;
use super::{PageKey, PinnedPage};
use crate::splitmix::{BuildSplitMixHasher, mix64};

const SHARDS: usize = 64;

/// The map from pages to frames.
pub(super) struct Table {
    shards: Box<[Shard]>,
}

/// Aligned to cache lines, since neighbours are used by other threads.
#[repr(align(128))]
struct Shard {
    slots: RwLock<Slots>,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct Slots {
    frames: HashMap<u64, Arc<Frame>, BuildSplitMixHasher>,
    /// Dirty pages without a frame. No page is in both.
    away: HashMap<u64, Away, BuildSplitMixHasher>,
    /// Evicted pages and their last use; key 0 is an empty place.
    history: Box<[(u64, u64)]>,
}

impl Table {
    pub fn new(history: usize) -> Table {
        let places = history.div_ceil(SHARDS);
        let shard = || Shard {
            slots: RwLock::new(Slots {
                frames: HashMap::default(),
                away: HashMap::default(),
                history: vec![(0, 0); places].into(),
            }),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        Table { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    fn shard(&self, key: PageKey) -> &Shard {
        &self.shards[(mix64(key.to_u64()) >> 32) as usize % SHARDS]
    }

    /// Pins a page that has a frame, whatever the frame's state.
    pub fn pin(&self, key: PageKey) -> Option<PinnedPage> {
        let slots = self.shard(key).slots.read();
        let frame = slots.frames.get(&key.to_u64())?;
        frame.pin();
        Some(PinnedPage::adopt(frame.clone()))
    }

    /// Counts a request.
    pub fn count(&self, key: PageKey, hit: bool) {
        let shard = self.shard(key);
        let count = if hit { &shard.hits } else { &shard.misses };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests and hits so far.
    pub fn counts(&self) -> (u64, u64) {
        let sum = |pick: fn(&Shard) -> &AtomicU64| -> u64 {
            self.shards.iter().map(|s| pick(s).load(Ordering::Relaxed)).sum()
        };
        let hits = sum(|s| &s.hits);
        (hits + sum(|s| &s.misses), hits)
    }

    /// Enters an assigned frame; `now` is its first use, `None` for pages wanted only once. `false` if the page
    /// has a frame already.
    pub fn enter(&self, frame: &Arc<Frame>, now: Option<u64>) -> bool {
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
        if let Some(away) = slots.away.remove(&word) {
            frame.come_back(away);
        }
        slots.frames.insert(word, frame.clone());
        true
    }

    /// Whether the page is dirty and has no frame.
    pub fn is_away(&self, key: PageKey) -> bool {
        self.shard(key).slots.read().away.contains_key(&key.to_u64())
    }

    /// Keeps edits of a page that has no frame, without looking at it. `false`: it has one, or there is no room.
    pub fn buffer_change(
        &self,
        key: PageKey,
        attached: &Attached,
        kept: &Kept,
        positions: Range<LogPosition>,
        edits: &[u8],
    ) -> bool {
        let mut slots = self.shard(key).slots.write();
        let word = key.to_u64();
        if slots.frames.contains_key(&word) {
            return false;
        }
        let have = slots.away.get(&word).map_or(0, |away| away.edits.len());
        if have + edits.len() > kept.heaviest() || !kept.grow(have, edits.len()) {
            return false;
        }
        let away = slots.away.entry(word).or_insert_with(|| {
            attached.ledger.lock().dirtied(key.page, positions.start);
            kept.went();
            Away::unseen(positions.start)
        });
        if positions.start < away.first {
            attached.ledger.lock().predated(key.page, away.first, positions.start);
            away.first = positions.start;
        }
        away.add(positions.end, edits);
        true
    }

    /// Takes out the frame of an unpinned page, which then belongs to the caller, and remembers its use. The page is
    /// clean, or can go with at most `heaviest` bytes of edits.
    pub fn evict(&self, frame: &Frame, heaviest: usize) -> bool {
        let key = frame.key();
        let word = key.to_u64();
        let mut slots = self.shard(key).slots.write();
        let is_there = slots.frames.get(&word).is_some_and(|there| there.index == frame.index);
        if !is_there || frame.pins() > 0 || !frame.state().is_evictable() {
            return false;
        }
        if frame.is_dirty() {
            let Some(away) = frame.go_away(heaviest) else { return false };
            slots.away.insert(word, away);
        }
        slots.frames.remove(&word);
        let place = slots.place(word);
        if let Some(entry) = slots.history.get_mut(place) {
            *entry = (word, frame.references.last());
        }
        frame.set_state(State::Free);
        true
    }

    /// Lets the only holder of a page that was created but never changed read it from the disk.
    pub fn reload_fresh(&self, page: &PinnedPage) -> bool {
        let _slots = self.shard(page.key()).slots.write();
        page.frame().pins() == 1 && page.frame().turn(State::Fresh, State::Loading)
    }

    /// The state of a page that the caller has pinned, as of a moment at which nobody reloads it.
    pub fn settled_state(&self, page: &PinnedPage) -> State {
        let _slots = self.shard(page.key()).slots.read();
        page.frame().state()
    }

    /// Takes out all pages of a file; pinned ones are freed by their last pin.
    pub fn remove_file(&self, attached: &Attached, kept: &Kept) {
        for shard in &self.shards {
            let mut slots = shard.slots.write();
            let mut gone: Vec<_> =
                slots.frames.values().filter(|f| f.key().file == attached.id).cloned().collect();
            gone.sort_by_key(|frame| frame.index);
            for frame in &gone {
                slots.frames.remove(&frame.key().to_u64());
                frame.pin();
                frame.retire();
                // Only now: a retired page does not become dirty again. So no writer that has it pinned can claim it,
                // not even for another file that has come to the same id.
                frame.forget_changes(attached);
            }
            slots.away.retain(|key, away| {
                let key = PageKey::from_u64(*key);
                let stays = key.file != attached.id;
                if !stays {
                    attached.ledger.lock().forgotten(key.page, away.first);
                    kept.forgot(away.edits.len());
                }
                stays
            });
            slots
                .history
                .iter_mut()
                .filter(|e| PageKey::from_u64(e.0).file == attached.id)
                .for_each(|e| *e = (0, 0));
            drop(slots);
            for frame in gone {
                // Deferred undo refers to the database, which must not outlive its use.
                frame.forget_undo();
                frame.unpin();
            }
        }
    }
}

impl Slots {
    fn place(&self, word: u64) -> usize {
        (mix64(word) & 0xffff_ffff) as usize % self.history.len().max(1)
    }
}
