//! Tracks how the page in a frame differs from the page on disk: the log position of the first change, the deltas if
//! they are known, and whether a writer has claimed the page.
//!
//! Invariants:
//! - Every dirty page is in its file's dirty page table, whether or not it has a frame.
//! - If deltas are recorded, they contain every change since the page was read, or since it was last copied for
//!   writing.
//! - A page with pending deltas is neither given to a session nor written.

use ese_format::{LogPosition, PageSize};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::{Frame, FrameState};
use crate::Corruption;
#[cfg(debug_assertions)]
use crate::cache::deltas::digest;
use crate::cache::deltas::{EvictedDirtyPage, replay};
use crate::cache::shared::AttachedFile;

/// Outcome of [`Frame::claim_clean`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cache) enum CleanClaim {
    /// A writer has claimed the page.
    Busy,
    /// The page has changes that are not on disk.
    Dirty,
    /// The caller has the write claim until it calls [`Frame::unclaim`].
    Claimed,
}

/// Special value for the delta size of a page whose changes are not recorded as deltas.
pub(super) const UNKNOWN_DELTAS: usize = usize::MAX;

/// Tracks how a page in memory differs from the page on disk.
#[derive(Default)]
pub(super) struct Modification {
    dirty: bool,
    /// All changes since the page was read or last copied for writing. `None` if some of them are not recorded as
    /// deltas.
    deltas: Option<Vec<u8>>,
    /// Whether the deltas still have to be applied to the bytes. This is the case while a page that was evicted with
    /// deltas is being read again.
    deltas_pending: bool,
    #[cfg(debug_assertions)]
    digest: Option<u64>,
    /// Number of changes so far. When the write of an older generation completes, the page does not become clean.
    generation: u64,
    first: LogPosition,
    last: LogPosition,
    /// Whether a writer has claimed the page.
    claimed: bool,
    /// Generation of the copy that is being written.
    copied_generation: Option<u64>,
    /// Whether a copy is retained until it may be written. While it is retained, no other copy is made, and no writer
    /// has claimed the page.
    retained: bool,
    /// Log position of the first change after the copy was made.
    changed_again_at: Option<LogPosition>,
}

impl Frame {
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    /// Records a change that is not described by deltas. The caller holds the write latch.
    pub fn mark_dirty(&self, first: LogPosition) {
        let mut modification = self.modification.lock();
        self.note_change(&mut modification, first);
        modification.deltas_pending = false;
        self.set_deltas(&mut modification, None);
    }

    /// Records that the page is about to change by deltas. The caller holds the write latch, and passes the deltas to
    /// [`Frame::record_deltas`] afterwards.
    pub fn mark_dirty_by_delta(&self, first: LogPosition) {
        let mut modification = self.modification.lock();
        let equalled_disk = !modification.dirty && self.state() == FrameState::Ready;
        self.note_change(&mut modification, first);
        if equalled_disk
            && modification.dirty
            && let recorded @ Some(_) = self.shared.deltas.start_recording()
        {
            self.set_deltas(&mut modification, recorded);
        }
    }

    /// Records the changes made since [`Frame::mark_dirty_by_delta`] was called. `encode` appends their deltas, or
    /// returns `None` if it cannot encode them.
    pub fn record_deltas(&self, encode: impl FnOnce(&mut Vec<u8>) -> Option<()>) {
        let mut modification = self.modification.lock();
        let Some(deltas) = modification.deltas.as_mut() else { return };
        let before = deltas.len();
        let encoded = encode(deltas).is_some();
        let more = deltas.len() - before;
        if encoded && more > 0 && self.shared.deltas.reserve(before, more) {
            return self.update_delta_bytes(&modification);
        }
        deltas.truncate(before);
        self.set_deltas(&mut modification, None);
    }

    fn note_change(&self, modification: &mut Modification, first: LogPosition) {
        if self.state() == FrameState::Fresh {
            self.transition(FrameState::Fresh, FrameState::Ready);
        }
        let page = self.key().page;
        modification.generation += 1;
        if !modification.dirty {
            // A page of a detached file cannot be written.
            let Some(attached) = self.attached() else { return };
            modification.first = first;
            self.became_dirty(modification);
            attached.dirty_pages.lock().insert(page, first);
        } else if modification.copied_generation.is_some() {
            let again = modification.changed_again_at.map_or(first, |again| again.min(first));
            modification.changed_again_at = Some(again);
            if let Some(attached) = self.attached() {
                attached.dirty_pages.lock().changed_during_write(first);
            }
        } else if first < modification.first
            && let Some(attached) = self.attached()
        {
            attached.dirty_pages.lock().lower_first(page, modification.first, first);
            modification.first = first;
        }
    }

    /// Returns the number of delta bytes with which the dirty page could be evicted, or [`UNKNOWN_DELTAS`] if it must
    /// be written first.
    pub fn delta_bytes(&self) -> usize {
        self.delta_bytes.load(Ordering::Relaxed)
    }

    /// Evicts the dirty page with its deltas if the deltas are at most `limit` bytes long. Returns `None` if the page
    /// must be written first. The caller holds the page table shard's lock and removes the frame from the table.
    pub fn evict_dirty(&self, limit: usize) -> Option<EvictedDirtyPage> {
        let mut modification = self.modification.lock();
        let stays = modification.claimed
            || modification.retained
            || self.has_undo.load(Ordering::Acquire)
            || self.delta_bytes() > limit && !modification.deltas_pending;
        if stays {
            return None;
        }
        let mut deltas = modification.deltas.take()?;
        deltas.shrink_to_fit();
        #[cfg(debug_assertions)]
        let digest = if modification.deltas_pending {
            modification.digest
        } else {
            Some(digest(&self.body.read().bytes, self.shared.page_size))
        };
        let evicted = EvictedDirtyPage {
            first: modification.first,
            last: modification.last,
            deltas,
            #[cfg(debug_assertions)]
            digest,
        };
        self.became_clean(&mut modification);
        self.shared.deltas.page_evicted();
        Some(evicted)
    }

    /// Assigns an evicted dirty page to this frame. The bytes have not been read yet. The caller holds the page table
    /// shard's lock and adds the frame to the table.
    pub fn restore_evicted(&self, evicted: EvictedDirtyPage) {
        self.shared.deltas.page_restored();
        let mut modification = self.modification.lock();
        modification.first = evicted.first;
        modification.last = evicted.last;
        modification.deltas_pending = true;
        modification.deltas = Some(evicted.deltas);
        #[cfg(debug_assertions)]
        {
            modification.digest = evicted.digest;
        }
        self.became_dirty(&mut modification);
    }

    /// Returns true if deltas still have to be applied to the bytes. The bytes may not have been read yet.
    pub fn deltas_pending(&self) -> bool {
        self.modification.lock().deltas_pending
    }

    /// Applies pending deltas to the bytes that were read. The bytes must already be in the frame, because another
    /// thread may write the page as soon as the deltas are applied. After an error, the bytes are unusable.
    pub fn apply_pending_deltas(&self, size: PageSize) -> Result<(), Corruption> {
        if !self.deltas_pending() {
            return Ok(());
        }
        let bytes = &mut self.body.write().bytes;
        let mut modification = self.modification.lock();
        replay(modification.deltas.as_deref().unwrap_or_default(), bytes, size)?;
        #[cfg(debug_assertions)]
        if let Some(expected) = modification.digest {
            assert_eq!(
                expected,
                digest(bytes, size),
                "{:?} differs from the page that was evicted",
                self.key()
            );
        }
        modification.deltas_pending = false;
        self.update_delta_bytes(&modification);
        Ok(())
    }

    fn attached(&self) -> Option<Arc<AttachedFile>> {
        self.shared.find_file(self.key().file).filter(|_| self.state() != FrameState::Retired)
    }

    pub fn set_last(&self, end: LogPosition) {
        let mut modification = self.modification.lock();
        modification.last = modification.last.max(end);
    }

    /// Returns the log position that must be durable before the page may be written.
    pub fn last(&self) -> LogPosition {
        self.modification.lock().last
    }

    /// Claims a dirty page to write it. Returns false if the page is clean or claimed by another writer, or if its
    /// bytes are incomplete.
    pub fn claim(&self) -> bool {
        let mut modification = self.modification.lock();
        let taken = modification.claimed || modification.retained;
        let free = modification.dirty && !taken && !modification.deltas_pending;
        modification.claimed |= free;
        free
    }

    /// Claims a clean page. The page is not written until the claim ends, but it may still change. The caller holds a
    /// pin.
    pub fn claim_clean(&self) -> CleanClaim {
        let mut modification = self.modification.lock();
        if modification.claimed {
            return CleanClaim::Busy;
        }
        if modification.dirty {
            return CleanClaim::Dirty;
        }
        modification.claimed = true;
        CleanClaim::Claimed
    }

    /// Claims a clean or dirty page. The page is not written until the caller calls [`Frame::unclaim`]. Returns false
    /// if a writer has already claimed it. The caller holds a pin.
    pub fn claim_unwritten(&self) -> bool {
        let mut modification = self.modification.lock();
        !std::mem::replace(&mut modification.claimed, true)
    }

    /// Retains the copy of a claimed page for a later write. Until the copy is written, readers that exclude writers
    /// can claim the page.
    pub fn retain(&self) {
        let mut modification = self.modification.lock();
        (modification.retained, modification.claimed) = (true, false);
    }

    /// Claims a page to write its retained copy. Returns false if a reader has claimed the page.
    pub fn claim_retained(&self) -> bool {
        let mut modification = self.modification.lock();
        if modification.claimed {
            return false;
        }
        (modification.retained, modification.claimed) = (false, true);
        true
    }

    /// Returns true if a writer, or a reader that excludes writers, has claimed the page.
    pub fn is_claimed(&self) -> bool {
        self.modification.lock().claimed
    }

    /// Releases the claim on a page that was not copied.
    pub fn unclaim(&self) {
        self.modification.lock().claimed = false;
    }

    /// Records that the writer has copied the page. The writer holds the read latch.
    pub fn copied(&self, attached: &AttachedFile) {
        let mut modification = self.modification.lock();
        modification.copied_generation = Some(modification.generation);
        // Later deltas are relative to the copy.
        self.set_deltas(&mut modification, self.shared.deltas.start_recording());
        attached.dirty_pages.lock().begin_write(self.key().page, modification.first);
    }

    /// Records that the write of the copy has ended. If it succeeded, the page is clean unless it has changed again.
    pub fn written(&self, attached: &AttachedFile, success: bool) {
        let mut modification = self.modification.lock();
        (modification.claimed, modification.retained) = (false, false);
        let copied = modification.copied_generation.take();
        let again = modification.changed_again_at.take();
        if !modification.dirty {
            return; // The changes were discarded during the write.
        }
        let page = self.key().page;
        if !success {
            self.set_deltas(&mut modification, None);
            attached.dirty_pages.lock().fail_write(page, modification.first);
            return;
        }
        let clean = copied == Some(modification.generation);
        let next = if clean { None } else { Some(again.unwrap_or(modification.first)) };
        attached.dirty_pages.lock().complete_write(page, modification.first, next);
        match next {
            None => self.became_clean(&mut modification),
            Some(next) => modification.first = next,
        }
    }

    /// Resets the modification state before the frame is assigned to another page.
    pub(super) fn reset_modification(&self) {
        let mut modification = self.modification.lock();
        self.set_deltas(&mut modification, None);
        *modification = Modification::default();
    }

    /// Discards the changes to a page that leaves the cache together with its file.
    pub fn discard_changes(&self, attached: &AttachedFile) {
        let mut modification = self.modification.lock();
        if modification.dirty {
            attached.dirty_pages.lock().remove(self.key().page, modification.first);
            self.became_clean(&mut modification);
        }
    }

    fn became_dirty(&self, modification: &mut Modification) {
        modification.dirty = true;
        self.dirty.store(true, Ordering::Release);
        self.shared.dirty.fetch_add(1, Ordering::Relaxed);
        self.update_delta_bytes(modification);
    }

    fn became_clean(&self, modification: &mut Modification) {
        self.set_deltas(modification, None);
        modification.dirty = false;
        self.dirty.store(false, Ordering::Release);
        self.shared.dirty.fetch_sub(1, Ordering::Relaxed);
    }

    fn set_deltas(&self, modification: &mut Modification, deltas: Option<Vec<u8>>) {
        let old = std::mem::replace(&mut modification.deltas, deltas);
        self.shared.deltas.release(old.map_or(0, |old| old.len()));
        self.update_delta_bytes(modification);
    }

    fn update_delta_bytes(&self, modification: &Modification) {
        let bytes = match &modification.deltas {
            Some(_) if modification.deltas_pending => 0,
            Some(deltas) if modification.dirty => deltas.len(),
            _ => UNKNOWN_DELTAS,
        };
        let before = self.delta_bytes.swap(bytes, Ordering::Relaxed);
        match (before == UNKNOWN_DELTAS, bytes == UNKNOWN_DELTAS) {
            (true, false) => self.shared.dirty_with_deltas.fetch_add(1, Ordering::Relaxed),
            (false, true) => self.shared.dirty_with_deltas.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}
