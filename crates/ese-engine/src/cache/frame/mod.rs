//! A frame: memory for one page, along with its pins, references, latch and modification state.
//!
//! ```text
//!  Free ─> Loading ─> Ready <── Fresh (created and not changed yet: differs from the disk)
//!             │ ^       Unverified (read ahead, checksum not verified yet) ─> Loading
//!             v └────── Unread (the read failed, or was not started)
//!           Unread                                Retired (not in the page table, freed with its last pin)
//! ```
//!
//! Invariants:
//!
//! - Only the thread that set `Loading`, or a thread with the latch, accesses the bytes.
//! - A frame gets its first pin only while its page table shard is locked.
//! - An unpinned frame is not latched, so its page does not change.

pub(in crate::cache) mod latch;
pub(in crate::cache) mod memory_grant;
mod modification;
mod pool;

use std::collections::VecDeque;

use jetcell_sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use jetcell_sync::{Arc, Condvar, Mutex, PinCount, RwLock};
use jetcell_vfs::IoBuffer;

use self::modification::{Modification, UNKNOWN_DELTAS};
use super::{DeferredUndo, PageKey};
use crate::cache::shared::CacheInner;

pub(super) use self::modification::CleanClaim;
pub(super) use self::pool::FramePool;

/// The state of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum FrameState {
    Free,
    Loading,
    Unread,
    Unverified,
    Fresh,
    Ready,
    Retired,
}

impl FrameState {
    const ALL: [FrameState; 7] = [
        FrameState::Free,
        FrameState::Loading,
        FrameState::Unread,
        FrameState::Unverified,
        FrameState::Fresh,
        FrameState::Ready,
        FrameState::Retired,
    ];

    /// Returns true if the frame is in the page table and can be evicted. Unless the frame is dirty, the page on disk
    /// has the same content.
    pub fn is_evictable(self) -> bool {
        matches!(self, FrameState::Unread | FrameState::Unverified | FrameState::Fresh | FrameState::Ready)
    }
}

/// A cache frame, which provides memory for one page. ESE: `BF`.
#[doc(alias = "BF")]
pub(super) struct Frame {
    pub index: u32,
    pub shared: Arc<CacheInner>,
    pub body: Arc<RwLock<FrameBody>>,
    pub references: ReferenceHistory,
    /// Whether the page was read ahead and has not been requested since.
    pub read_ahead: AtomicBool,
    /// Whether the body may contain deferred undo.
    pub has_undo: AtomicBool,
    /// Deferred undo that a writer removed from the page to log it. If logging fails, the undo stays here. Accessed
    /// only by the thread with the write claim.
    pub undo_being_logged: Mutex<VecDeque<Arc<dyn DeferredUndo>>>,
    /// Flush type of the page on disk, or 0 if the bytes in memory contain the same flush type.
    pub flush_type: AtomicU8,
    key: AtomicU64,
    pins: PinCount,
    state: AtomicU8,
    dirty: AtomicBool,
    /// Number of delta bytes with which the page could be evicted, or [`UNKNOWN_DELTAS`] if it must be written first.
    delta_bytes: AtomicUsize,
    modification: Mutex<Modification>,
    state_lock: Mutex<()>,
    state_changed: Condvar,
}

/// The part of a frame that the latch protects.
pub(super) struct FrameBody {
    /// Bytes of the page. The buffer is empty while a transfer is filling the frame's memory.
    pub bytes: IoBuffer,
    pub undo: Vec<Arc<dyn DeferredUndo>>,
}

impl Frame {
    pub fn new(index: u32, shared: Arc<CacheInner>) -> Frame {
        Frame {
            index,
            shared,
            body: Arc::new(RwLock::new(FrameBody { bytes: IoBuffer::zeroed(0), undo: Vec::new() })),
            references: ReferenceHistory::default(),
            read_ahead: AtomicBool::new(false),
            has_undo: AtomicBool::new(false),
            undo_being_logged: Mutex::default(),
            flush_type: AtomicU8::new(0),
            key: AtomicU64::new(0),
            pins: PinCount::new(),
            state: AtomicU8::new(FrameState::Free as u8),
            dirty: AtomicBool::new(false),
            delta_bytes: AtomicUsize::new(UNKNOWN_DELTAS),
            modification: Mutex::default(),
            state_lock: Mutex::default(),
            state_changed: Condvar::new(),
        }
    }

    /// Assigns a free frame to a page, with one pin. The caller must be the only owner of the frame.
    pub fn assign(&self, key: PageKey, state: FrameState) {
        self.key.store(key.to_u64(), Ordering::Relaxed);
        self.flush_type.store(0, Ordering::Relaxed);
        self.read_ahead.store(false, Ordering::Relaxed);
        self.has_undo.store(false, Ordering::Relaxed);
        self.discard_undo();
        self.reset_modification();
        self.pins.start();
        self.set_state(state);
    }

    pub fn key(&self) -> PageKey {
        PageKey::from_u64(self.key.load(Ordering::Relaxed))
    }

    /// Pins the frame. The caller must already hold a pin, or the lock of the page table shard for the key.
    pub fn pin(&self) {
        self.pins.pin();
    }

    pub fn unpin(&self) {
        // The retired flag is part of the pin count. Once unpinned, the frame can be evicted and reused immediately,
        // so this thread must not read any other field of the frame.
        if self.pins.unpin() {
            self.set_state(FrameState::Free);
            self.shared.put_free(self.index);
        }
    }

    /// Marks a frame as no longer in the page table. It is freed with its last pin. The caller holds a pin.
    pub fn retire(&self) {
        self.set_state(FrameState::Retired);
        self.pins.retire();
    }

    pub fn pins(&self) -> u32 {
        self.pins.get()
    }

    pub fn state(&self) -> FrameState {
        FrameState::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    pub fn set_state(&self, state: FrameState) {
        let _state = self.state_lock.lock();
        self.state.store(state as u8, Ordering::Release);
        self.state_changed.notify_all();
    }

    /// Changes the state from `from` to `to`. Returns false and changes nothing if the state was not `from`.
    pub fn transition(&self, from: FrameState, to: FrameState) -> bool {
        let _state = self.state_lock.lock();
        let is = self.state() == from;
        if is {
            self.state.store(to as u8, Ordering::Release);
            self.state_changed.notify_all();
        }
        is
    }

    /// Waits while another thread is reading the page. Must not be called with a latch held.
    pub fn wait_while_loading(&self) {
        let mut state = self.state_lock.lock();
        while self.state() == FrameState::Loading {
            self.state_changed.wait(&mut state);
        }
    }

    /// Gives memory to a free frame that has none. Returns false if the system does not provide more memory. The
    /// caller must be the only owner of the frame.
    pub fn obtain_memory(&self) -> bool {
        let mut body = self.body.write();
        if body.bytes.is_empty() {
            let Some(bytes) = self.shared.frame_memory.take() else { return false };
            body.bytes = bytes;
        }
        true
    }

    /// Gives a free frame to deltas, which use its share of the memory.
    pub fn give_to_deltas(&self) {
        self.shared.frame_memory.release(self.take_bytes());
        self.shared.deltas.add_frame(self.index);
    }

    /// Takes the memory out of the frame so that a transfer can fill it. The caller must have set
    /// [`FrameState::Loading`].
    pub fn take_bytes(&self) -> IoBuffer {
        std::mem::replace(&mut self.body.write().bytes, IoBuffer::zeroed(0))
    }

    pub fn put_bytes(&self, bytes: IoBuffer) {
        self.body.write().bytes = bytes;
    }

    /// Drops the deferred undo of the previous page in this frame, or of a page whose file leaves the cache.
    pub fn discard_undo(&self) {
        self.body.write().undo.clear();
        self.undo_being_logged.lock().clear();
    }
}

/// Times of the last two uncorrelated references to a page. Time is measured in pages that the cache has read so far.
#[derive(Default)]
pub(super) struct ReferenceHistory {
    last: AtomicU64,
    previous: AtomicU64,
}

impl ReferenceHistory {
    /// Records the first use after a fault. `remembered` is the last use before the page was evicted.
    pub fn start(&self, now: u64, remembered: Option<u64>) {
        self.last.store(now, Ordering::Relaxed);
        self.previous.store(remembered.unwrap_or(0), Ordering::Relaxed);
    }

    /// Records the first use of a page that was read ahead. The read-ahead itself does not count as a use. Otherwise,
    /// pages that a scan has already passed would rank above pages that it has not reached yet.
    pub fn first_use(&self, now: u64) {
        self.last.store(now, Ordering::Relaxed);
    }

    /// Records a use. Uses within `interval` of each other count as one (correlated references), because they belong
    /// to the same operation. A use can be lost in a race.
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
