//! A frame: memory for one page, with its pins, references, latch and state of change.
//!
//! ```text
//!  Free ─> Loading ─> Ready <── Fresh (created, never changed: not what the disk holds)
//!             │ ^       Unverified (read ahead, checksum not looked at yet) ─> Loading
//!             v └────── Unread (reading failed, or was given up)
//!           Unread                                Retired (out of the table, freed with its last pin)
//! ```
//!
//! Invariants: the bytes are touched only by the thread that set `Loading`, or under the latch; a frame gets its
//! first pin only under the lock of its table shard; an unpinned frame is not latched, so it does not change.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ese_format::{LogPosition, PageSize};
use parking_lot::{Condvar, Mutex, RwLock};
use vfs::IoBuffer;

use super::files::{Attached, Books};
use super::{DeferredUndo, PageKey};

/// Where a frame is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum State {
    Free,
    Loading,
    Unread,
    Unverified,
    Fresh,
    Ready,
    Retired,
}

impl State {
    const ALL: [State; 7] = [
        State::Free,
        State::Loading,
        State::Unread,
        State::Unverified,
        State::Fresh,
        State::Ready,
        State::Retired,
    ];

    /// In the table with content that can be had again from the disk, if it is not dirty.
    pub fn is_evictable(self) -> bool {
        matches!(self, State::Unread | State::Unverified | State::Fresh | State::Ready)
    }
}

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
    #[cfg(debug_assertions)]
    digest: u64,
}

/// Mark in the count of pins.
const RETIRED: u32 = 1 << 31;

/// Memory for one page. ESE: `BF`.
#[doc(alias = "BF")]
pub(super) struct Frame {
    pub index: u32,
    pub books: Arc<Books>,
    pub body: Arc<RwLock<Body>>,
    pub references: References,
    /// Filled by a read-ahead that nobody has asked for since.
    pub read_ahead: AtomicBool,
    /// Whether the body may hold deferred undo.
    pub has_undo: AtomicBool,
    /// Undo that was taken off the page to be logged, which then failed. Belongs to the page's writer.
    pub owed_undo: Mutex<VecDeque<Arc<dyn DeferredUndo>>>,
    /// Flush type on disk, 0 = as the bytes say.
    pub flush_type: AtomicU8,
    key: AtomicU64,
    pins: AtomicU32,
    state: AtomicU8,
    dirty: AtomicBool,
    /// Bytes of edits with which the page could go without being written; [`HEAVY`] if it could not.
    weight: AtomicUsize,
    change: Mutex<Change>,
    turn: Mutex<()>,
    turned: Condvar,
}

/// What the latch protects.
pub(super) struct Body {
    /// Empty while the frame is being read into.
    pub bytes: IoBuffer,
    pub undo: Vec<Arc<dyn DeferredUndo>>,
}

/// How the page differs from the disk.
#[derive(Default)]
struct Change {
    dirty: bool,
    /// What was changed since the page was read or copied to be written, where that is known.
    edits: Option<Vec<u8>>,
    /// The bytes do not have the edits yet: they were read without, or not read yet.
    lacks_edits: bool,
    #[cfg(debug_assertions)]
    digest: u64,
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
    pub fn new(index: u32, books: Arc<Books>) -> Frame {
        Frame {
            index,
            books,
            body: Arc::new(RwLock::new(Body { bytes: IoBuffer::zeroed(0), undo: Vec::new() })),
            references: References::default(),
            read_ahead: AtomicBool::new(false),
            has_undo: AtomicBool::new(false),
            owed_undo: Mutex::default(),
            flush_type: AtomicU8::new(0),
            key: AtomicU64::new(0),
            pins: AtomicU32::new(0),
            state: AtomicU8::new(State::Free as u8),
            dirty: AtomicBool::new(false),
            weight: AtomicUsize::new(HEAVY),
            change: Mutex::default(),
            turn: Mutex::default(),
            turned: Condvar::new(),
        }
    }

    /// Makes a free frame, which only the caller knows, the future home of a page, with one pin.
    pub fn assign(&self, key: PageKey, state: State) {
        self.key.store(key.to_u64(), Ordering::Relaxed);
        self.flush_type.store(0, Ordering::Relaxed);
        self.read_ahead.store(false, Ordering::Relaxed);
        self.has_undo.store(false, Ordering::Relaxed);
        self.forget_undo();
        let mut change = self.change.lock();
        self.drop_edits(&mut change);
        *change = Change::default();
        drop(change);
        self.pins.store(1, Ordering::Relaxed);
        self.set_state(state);
    }

    pub fn key(&self) -> PageKey {
        PageKey::from_u64(self.key.load(Ordering::Relaxed))
    }

    /// Only with a pin already held, or the lock of the key's table shard.
    pub fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Relaxed);
    }

    pub fn unpin(&self) {
        // The mark is part of the count: an unpinned frame may at once be evicted and serve another page, so
        // nothing else about it may be looked at any more.
        if self.pins.fetch_sub(1, Ordering::AcqRel) == RETIRED | 1 {
            self.set_state(State::Free);
            self.books.put_free(self.index);
        }
    }

    /// The frame is not in the table (any more); its last pin frees it. The caller holds a pin.
    pub fn retire(&self) {
        self.set_state(State::Retired);
        self.pins.fetch_or(RETIRED, Ordering::AcqRel);
    }

    pub fn pins(&self) -> u32 {
        self.pins.load(Ordering::Acquire) & !RETIRED
    }

    pub fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    pub fn set_state(&self, state: State) {
        let _turn = self.turn.lock();
        self.state.store(state as u8, Ordering::Release);
        self.turned.notify_all();
    }

    /// Changes the state if it is `from`.
    pub fn turn(&self, from: State, to: State) -> bool {
        let _turn = self.turn.lock();
        let is = self.state() == from;
        if is {
            self.state.store(to as u8, Ordering::Release);
            self.turned.notify_all();
        }
        is
    }

    /// Waits while somebody reads the page. Must not be called with a latch held.
    pub fn wait_while_loading(&self) {
        let mut turn = self.turn.lock();
        while self.state() == State::Loading {
            self.turned.wait(&mut turn);
        }
    }

    /// Takes the memory out, to be filled by a transfer; the caller set [`State::Loading`].
    pub fn take_bytes(&self) -> IoBuffer {
        let bytes = std::mem::replace(&mut self.body.write().bytes, IoBuffer::zeroed(0));
        if bytes.is_empty() {
            return self.books.memory.take();
        }
        bytes
    }

    pub fn put_bytes(&self, bytes: IoBuffer) {
        self.body.write().bytes = bytes;
    }

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
    pub fn mark_edited(&self, first: LogPosition) {
        let mut change = self.change.lock();
        let was_as_on_disk = !change.dirty && self.state() == State::Ready;
        self.touch_changed(&mut change, first);
        if was_as_on_disk && change.dirty && self.books.kept.is_on() {
            self.set_edits(&mut change, Some(Vec::new()));
        }
    }

    /// The edits that were made after [`Frame::mark_edited`]; `say` appends them, or cannot.
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
            false => super::edit::digest(&self.body.read().bytes, self.books.page_size),
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

    /// Makes the edits on bytes that were read without them. After an error the bytes are of no use.
    pub fn catch_up(&self, bytes: &mut [u8], size: PageSize) -> Result<(), &'static str> {
        let mut change = self.change.lock();
        if change.lacks_edits {
            super::edit::replay(change.edits.as_deref().unwrap_or_default(), bytes, size)?;
            #[cfg(debug_assertions)]
            assert_eq!(
                change.digest,
                super::edit::digest(bytes, size),
                "{:?} came back as another page",
                self.key()
            );
            change.lacks_edits = false;
            self.weigh(&mut change);
        }
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

    /// Drops deferred undo: it is of another page, or of a file that leaves the cache.
    pub fn forget_undo(&self) {
        self.body.write().undo.clear();
        self.owed_undo.lock().clear();
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

/// The last two uncorrelated uses of a page, in faults of the whole cache.
#[derive(Default)]
pub(super) struct References {
    last: AtomicU64,
    previous: AtomicU64,
}

impl References {
    /// First use after a fault; `remembered` is the last use before the page was evicted.
    pub fn start(&self, now: u64, remembered: Option<u64>) {
        self.last.store(now, Ordering::Relaxed);
        self.previous.store(remembered.unwrap_or(0), Ordering::Relaxed);
    }

    /// A page read ahead is used: that it was read was no use. Otherwise a page left behind by a scan would be worth
    /// more than one still ahead of it.
    pub fn first_use(&self, now: u64) {
        self.last.store(now, Ordering::Relaxed);
    }

    /// Uses within `interval` of each other count as one: the second touch of an operation says nothing about
    /// the next operation. Races lose a use at worst.
    pub fn touch(&self, now: u64, interval: u64) {
        let last = self.last.load(Ordering::Relaxed);
        if last == now {
            return;
        }
        if now.saturating_sub(last) > interval {
            self.previous.store(last, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
    }

    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    pub fn previous(&self) -> u64 {
        self.previous.load(Ordering::Relaxed)
    }
}
