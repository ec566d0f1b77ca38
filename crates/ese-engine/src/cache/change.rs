//! How the page in a frame differs from the disk: since which log position, by which edits if they are known, and whether
//! somebody is writing it.
//!
//! Invariants: what is dirty stands in the ledger of its file, whether it is in a frame or away; edits say all that was
//! changed since the page was read, or copied to be written; who lacks its edits is neither written nor read by anybody.

use ese_format::{LogPosition, PageSize};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::files::Attached;
use super::frame::{Frame, State};

/// Outcome of [`Frame::hold`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// A writer has the page.
    Busy,
    /// The page has changes that the disk has not.
    Dirty,
    /// The caller keeps writers away until it calls [`Frame::unclaim`].
    Held,
}

/// Weight of a page whose edits are not known.
pub(super) const HEAVY: usize = usize::MAX;

/// A dirty page that has no frame: what the disk lacks of it.
pub(super) struct Away {
    pub first: LogPosition,
    pub last: LogPosition,
    pub edits: Vec<u8>,
    /// Of the page as it went, if it was here.
    #[cfg(debug_assertions)]
    digest: Option<u64>,
}

impl Away {
    /// A page that was not here.
    pub fn unseen(first: LogPosition) -> Away {
        Away {
            first,
            last: first,
            edits: Vec::new(),
            #[cfg(debug_assertions)]
            digest: None,
        }
    }

    /// More edits, made unseen.
    pub fn add(&mut self, last: LogPosition, edits: &[u8]) {
        self.last = self.last.max(last);
        self.edits.reserve_exact(edits.len());
        self.edits.extend_from_slice(edits);
        #[cfg(debug_assertions)]
        {
            self.digest = None;
        }
    }
}

/// How the page differs from the disk.
#[derive(Default)]
pub(super) struct Change {
    dirty: bool,
    /// What was changed since the page was read or copied to be written, where that is known.
    edits: Option<Vec<u8>>,
    /// The bytes do not have the edits yet: they were read without, or not read yet.
    lacks_edits: bool,
    #[cfg(debug_assertions)]
    digest: Option<u64>,
    /// Counts changes; a write that copied an older generation does not make the page clean.
    generation: u64,
    first: LogPosition,
    last: LogPosition,
    /// A writer has the page.
    claimed: bool,
    /// The generation it copied.
    copied: Option<u64>,
    /// First change after that copy.
    again: Option<LogPosition>,
}

impl Frame {
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    /// The page is changed, nobody says how. The caller holds the write latch.
    pub fn mark_dirty(&self, first: LogPosition) {
        let mut change = self.change.lock();
        self.touch_changed(&mut change, first);
        change.lacks_edits = false;
        self.drop_edits(&mut change);
    }

    /// The page is about to be changed by edits; [`Frame::keep_edits`] says by which. The caller holds the write latch.
    pub fn mark_dirty_by_delta(&self, first: LogPosition) {
        let mut change = self.change.lock();
        let was_as_on_disk = !change.dirty && self.state() == State::Ready;
        self.touch_changed(&mut change, first);
        if was_as_on_disk && change.dirty && self.books.kept.is_on() {
            self.set_edits(&mut change, Some(Vec::new()));
        }
    }

    /// The edits that were made after [`Frame::mark_dirty_by_delta`]; `say` appends them, or cannot.
    pub fn keep_edits(&self, say: impl FnOnce(&mut Vec<u8>) -> Option<()>) {
        let mut change = self.change.lock();
        let Some(edits) = change.edits.as_mut() else { return };
        let before = edits.len();
        let said = say(edits).is_some();
        let more = edits.len() - before;
        if said && more > 0 && self.books.kept.grow(before, more) {
            return self.weigh(&mut change);
        }
        edits.truncate(before);
        self.drop_edits(&mut change);
    }

    fn touch_changed(&self, change: &mut Change, first: LogPosition) {
        if self.state() == State::Fresh {
            self.turn(State::Fresh, State::Ready);
        }
        let page = self.key().page;
        change.generation += 1;
        if !change.dirty {
            // A page whose file is gone has nowhere to be written.
            let Some(attached) = self.attached() else { return };
            change.first = first;
            self.became_dirty(change);
            attached.ledger.lock().dirtied(page, first);
        } else if change.copied.is_some() {
            change.again = Some(change.again.map_or(first, |again| again.min(first)));
            if let Some(attached) = self.attached() {
                attached.ledger.lock().changed_meanwhile(first);
            }
        } else if first < change.first
            && let Some(attached) = self.attached()
        {
            attached.ledger.lock().predated(page, change.first, first);
            change.first = first;
        }
    }

    /// Bytes of edits with which the dirty page could go without being written; [`HEAVY`] if it could not.
    pub fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// The dirty page leaves the frame, and nobody writes it; the caller takes it out of the table, holding the lock
    /// of its shard. `None`: it has to be written first.
    pub fn go_away(&self, limit: usize) -> Option<Away> {
        let mut change = self.change.lock();
        let stays = change.claimed
            || self.has_undo.load(Ordering::Acquire)
            || self.weight() > limit && !change.lacks_edits;
        if stays {
            return None;
        }
        let mut edits = change.edits.take()?;
        edits.shrink_to_fit();
        #[cfg(debug_assertions)]
        let digest = match change.lacks_edits {
            true => change.digest,
            false => Some(super::edit::digest(&self.body.read().bytes, self.books.page_size)),
        };
        let away = Away {
            first: change.first,
            last: change.last,
            edits,
            #[cfg(debug_assertions)]
            digest,
        };
        self.became_clean(&mut change);
        self.books.kept.went();
        Some(away)
    }

    /// A page that went away comes back: the frame is entered in the table, and its bytes are yet to be read. The
    /// caller holds the lock of its shard.
    pub fn come_back(&self, away: Away) {
        self.books.kept.came_back();
        let mut change = self.change.lock();
        change.first = away.first;
        change.last = away.last;
        change.lacks_edits = true;
        change.edits = Some(away.edits);
        #[cfg(debug_assertions)]
        {
            change.digest = away.digest;
        }
        self.became_dirty(&mut change);
    }

    /// The bytes do not have the edits yet, or there are no bytes.
    pub fn lacks_edits(&self) -> bool {
        self.change.lock().lacks_edits
    }

    /// Makes the edits that the bytes in the frame were read without. From then on the page may be written at any moment,
    /// which is why the bytes have to be in the frame before. After an error they are of no use.
    pub fn catch_up(&self, size: PageSize) -> Result<(), String> {
        if !self.lacks_edits() {
            return Ok(());
        }
        let bytes = &mut self.body.write().bytes;
        let mut change = self.change.lock();
        super::edit::replay(change.edits.as_deref().unwrap_or_default(), bytes, size)?;
        #[cfg(debug_assertions)]
        if let Some(digest) = change.digest {
            let found = super::edit::digest(bytes, size);
            assert_eq!(digest, found, "{:?} came back as another page", self.key());
        }
        change.lacks_edits = false;
        self.weigh(&mut change);
        Ok(())
    }

    fn attached(&self) -> Option<Arc<Attached>> {
        self.books.find_file(self.key().file).filter(|_| self.state() != State::Retired)
    }

    pub fn set_last(&self, end: LogPosition) {
        let mut change = self.change.lock();
        change.last = change.last.max(end);
    }

    /// Position up to which the log must be durable before the page may be written.
    pub fn last(&self) -> LogPosition {
        self.change.lock().last
    }

    /// Becomes the writer of a dirty page, unless there is one.
    pub fn claim(&self) -> bool {
        let mut change = self.change.lock();
        let free = change.dirty && !change.claimed && !change.lacks_edits;
        change.claimed |= free;
        free
    }

    /// Claims a clean page to keep writers away. The page may be changed meanwhile. The caller holds a pin.
    pub fn hold(&self) -> Hold {
        let mut change = self.change.lock();
        if change.claimed {
            return Hold::Busy;
        }
        if change.dirty {
            return Hold::Dirty;
        }
        change.claimed = true;
        Hold::Held
    }

    /// Gives up being the writer before any copy was made.
    pub fn unclaim(&self) {
        self.change.lock().claimed = false;
    }

    /// The writer copied the page, under its read latch.
    pub fn copied(&self, attached: &Attached) {
        let mut change = self.change.lock();
        change.copied = Some(change.generation);
        // From now on it is the copy that the page differs from.
        self.set_edits(&mut change, self.books.kept.is_on().then(Vec::new));
        attached.ledger.lock().write_starts(self.key().page, change.first);
    }

    /// The write of the copy ended; the page may be clean now.
    pub fn written(&self, attached: &Attached, success: bool) {
        let mut change = self.change.lock();
        change.claimed = false;
        let copied = change.copied.take();
        let again = change.again.take();
        if !change.dirty {
            return; // Forgotten meanwhile.
        }
        let page = self.key().page;
        if !success {
            self.drop_edits(&mut change);
            attached.ledger.lock().write_failed(page, change.first);
            return;
        }
        let clean = copied == Some(change.generation);
        let next = if clean { None } else { Some(again.unwrap_or(change.first)) };
        attached.ledger.lock().written(page, change.first, next);
        match next {
            None => self.became_clean(&mut change),
            Some(next) => change.first = next,
        }
    }

    /// Forgets what a page before was: the frame is given to another.
    pub fn begin_unchanged(&self) {
        let mut change = self.change.lock();
        self.drop_edits(&mut change);
        *change = Change::default();
    }

    /// Forgets changes: the page leaves the cache with its file.
    pub fn forget_changes(&self, attached: &Attached) {
        let mut change = self.change.lock();
        if change.dirty {
            attached.ledger.lock().forgotten(self.key().page, change.first);
            self.became_clean(&mut change);
        }
    }

    fn became_dirty(&self, change: &mut Change) {
        change.dirty = true;
        self.dirty.store(true, Ordering::Release);
        self.books.dirty.fetch_add(1, Ordering::Relaxed);
        self.weigh(change);
    }

    fn became_clean(&self, change: &mut Change) {
        self.drop_edits(change);
        change.dirty = false;
        self.dirty.store(false, Ordering::Release);
        self.books.dirty.fetch_sub(1, Ordering::Relaxed);
    }

    fn drop_edits(&self, change: &mut Change) {
        self.set_edits(change, None);
    }

    fn set_edits(&self, change: &mut Change, edits: Option<Vec<u8>>) {
        let old = std::mem::replace(&mut change.edits, edits);
        self.books.kept.drop_edits(old.map_or(0, |old| old.len()));
        self.weigh(change);
    }

    fn weigh(&self, change: &mut Change) {
        let weight = match &change.edits {
            Some(_) if change.lacks_edits => 0,
            Some(edits) if change.dirty => edits.len(),
            _ => HEAVY,
        };
        let before = self.weight.swap(weight, Ordering::Relaxed);
        match (before == HEAVY, weight == HEAVY) {
            (true, false) => self.books.light.fetch_add(1, Ordering::Relaxed),
            (false, true) => self.books.light.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}
