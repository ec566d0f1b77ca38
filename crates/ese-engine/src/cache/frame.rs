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
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use ese_format::LogPosition;
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
        *self.change.lock() = Change::default();
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

    /// The caller holds the write latch.
    pub fn mark_dirty(&self, first: LogPosition) {
        if self.state() == State::Fresh {
            self.turn(State::Fresh, State::Ready);
        }
        let page = self.key().page;
        let mut change = self.change.lock();
        change.generation += 1;
        if !change.dirty {
            // A page whose file is gone has nowhere to be written.
            let Some(attached) = self.attached() else { return };
            change.dirty = true;
            change.first = first;
            self.dirty.store(true, Ordering::Release);
            self.books.dirty.fetch_add(1, Ordering::Relaxed);
            attached.ledger.lock().dirtied(page, first);
        } else if change.copied.is_some() {
            change.again = Some(change.again.map_or(first, |again| again.min(first)));
        } else if first < change.first
            && let Some(attached) = self.attached()
        {
            attached.ledger.lock().predated(page, change.first, first);
            change.first = first;
        }
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
        let free = change.dirty && !change.claimed;
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

    fn became_clean(&self, change: &mut Change) {
        change.dirty = false;
        self.dirty.store(false, Ordering::Release);
        self.books.dirty.fetch_sub(1, Ordering::Relaxed);
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
