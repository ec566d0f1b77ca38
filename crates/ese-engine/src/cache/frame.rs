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

use jetcell_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use jetcell_sync::{Arc, Condvar, Mutex, PinCount, RwLock};
use jetcell_vfs::IoBuffer;

use super::change::{Change, HEAVY};
use super::files::Books;
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
    pins: PinCount,
    state: AtomicU8,
    pub(super) dirty: AtomicBool,
    /// Bytes of edits with which the page could go without being written; [`HEAVY`] if it could not.
    pub(super) weight: AtomicUsize,
    pub(super) change: Mutex<Change>,
    turn: Mutex<()>,
    turned: Condvar,
}

/// What the latch protects.
pub(super) struct Body {
    /// Empty while the frame is being read into.
    pub bytes: IoBuffer,
    pub undo: Vec<Arc<dyn DeferredUndo>>,
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
            pins: PinCount::new(),
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
        self.begin_unchanged();
        self.pins.start();
        self.set_state(state);
    }

    pub fn key(&self) -> PageKey {
        PageKey::from_u64(self.key.load(Ordering::Relaxed))
    }

    /// Only with a pin already held, or the lock of the key's table shard.
    pub fn pin(&self) {
        self.pins.pin();
    }

    pub fn unpin(&self) {
        // The mark is part of the count: an unpinned frame may at once be evicted and serve another page, so
        // nothing else about it may be looked at any more.
        if self.pins.unpin() {
            self.set_state(State::Free);
            self.books.put_free(self.index);
        }
    }

    /// The frame is not in the table (any more); its last pin frees it. The caller holds a pin.
    pub fn retire(&self) {
        self.set_state(State::Retired);
        self.pins.retire();
    }

    pub fn pins(&self) -> u32 {
        self.pins.get()
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

    /// Drops deferred undo: it is of another page, or of a file that leaves the cache.
    pub fn forget_undo(&self) {
        self.body.write().undo.clear();
        self.owed_undo.lock().clear();
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
