//! Attached files and the books kept across all frames.

use crossbeam_utils::CachePadded;
use ese_format::PageSize;
use jetcell_sync::atomic::{AtomicUsize, Ordering};
use jetcell_sync::{Arc, Condvar, Mutex, OnceLock, RwLock};
use jetcell_vfs::File;

use super::copies::Copies;
use super::counters::Tallies;
use super::kept::Kept;
use super::ledger::Ledger;
use super::memory::Memory;
use super::threads::Wake;
use super::{FileId, WriteAhead};
use crate::{Error, Result};

/// An attached file.
pub(super) struct Attached {
    pub id: FileId,
    pub file: Arc<dyn File>,
    pub wal: Arc<dyn WriteAhead>,
    pub ledger: Mutex<Ledger>,
    /// Serialises syncs, so that the ledger knows what the last one covered.
    pub sync: Mutex<()>,
    /// Writers at work, and transfers whose completion is still to come. Closed when the file is about to leave.
    pub in_flight: InFlight,
}

/// What frames share; holds no frame, so that frames may hold it.
#[repr(align(128))]
pub(super) struct Books {
    pub tallies: CachePadded<Tallies>,
    pub copies: Copies,
    pub wake: Wake,
    /// Pages in frames that differ from the disk.
    pub dirty: CachePadded<AtomicUsize>,
    /// Of these, in frames and with edits that are known.
    pub light: CachePadded<AtomicUsize>,
    pub page_size: PageSize,
    pub memory: Memory,
    pub kept: Kept,
    /// Eviction writes in flight, in pages; they will soon be available.
    pub cleaning: AtomicUsize,
    /// Transfers in flight that write pages in the background.
    pub background: InFlight,
    free: CachePadded<Mutex<Vec<u32>>>,
    free_count: AtomicUsize,
    files: CachePadded<RwLock<Vec<Option<Arc<Attached>>>>>,
    /// The file id that is given next, if nobody has it. Changes while `files` is taken.
    pub next_file: AtomicUsize,
    failed: OnceLock<String>,
}

impl Books {
    pub fn new(page_size: PageSize, memory: Memory, copies: Copies, kept: Kept) -> Books {
        Books {
            tallies: CachePadded::default(),
            copies,
            wake: Wake::default(),
            dirty: CachePadded::default(),
            light: CachePadded::default(),
            page_size,
            memory,
            kept,
            cleaning: AtomicUsize::new(0),
            background: InFlight::default(),
            free: CachePadded::default(),
            free_count: AtomicUsize::new(0),
            files: CachePadded::default(),
            next_file: AtomicUsize::new(0),
            failed: OnceLock::new(),
        }
    }

    pub fn attach(&self, file: Arc<dyn File>, wal: Arc<dyn WriteAhead>) -> FileId {
        let mut files = self.files.write();
        // Ids come again as late as possible: who still has one of a file that has left must not meet another file.
        let next = self.next_file.load(Ordering::Relaxed);
        let is_free = |place: &usize| files.get(*place).is_none_or(Option::is_none);
        let place = (next..=usize::from(u16::MAX)).chain(0..next).find(is_free);
        let place = place.expect("fewer files are attached than file ids exist");
        self.next_file.store((place + 1) % (usize::from(u16::MAX) + 1), Ordering::Relaxed);
        let id = FileId(place as u16);
        let attached = Arc::new(Attached {
            id,
            file,
            wal,
            ledger: Mutex::default(),
            sync: Mutex::default(),
            in_flight: InFlight::default(),
        });
        if place >= files.len() {
            files.resize(place + 1, None);
        }
        files[place] = Some(attached);
        id
    }

    pub fn remove_file(&self, id: FileId) {
        if let Some(place) = self.files.write().get_mut(usize::from(id.0)) {
            *place = None;
        }
    }

    pub fn find_file(&self, id: FileId) -> Option<Arc<Attached>> {
        self.files.read().get(usize::from(id.0)).and_then(Clone::clone)
    }

    pub fn file(&self, id: FileId) -> Result<Arc<Attached>> {
        self.find_file(id).ok_or_else(|| Error::Usage(format!("file {} is not attached", id.0)))
    }

    /// From now on nothing is written any more: what the device holds is uncertain, recovery sorts it out.
    pub fn fail(&self, what: String) {
        let _ = self.failed.set(what);
    }

    pub fn check(&self) -> Result<()> {
        self.failed.get().map_or(Ok(()), |what| Err(Error::ReadOnly(what.clone())))
    }

    /// Dirty pages in frames that have to be written before they can go.
    pub fn heavy(&self) -> usize {
        let dirty = self.dirty.load(Ordering::Relaxed);
        let light = if self.kept.pays() { self.light.load(Ordering::Relaxed) } else { 0 };
        dirty.saturating_sub(light)
    }

    /// The same, and more and more of the others as credit for letting them go runs out: they would all be to be written at
    /// once when it has.
    pub fn heavy_soon(&self) -> usize {
        let dirty = self.dirty.load(Ordering::Relaxed);
        dirty.saturating_sub(self.kept.will_pay_for(self.light.load(Ordering::Relaxed)))
    }

    pub fn put_free(&self, frame: u32) {
        let mut free = self.free.lock();
        free.push(frame);
        self.free_count.store(free.len(), Ordering::Release);
    }

    pub fn take_free(&self) -> Option<u32> {
        if self.free_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut free = self.free.lock();
        let frame = free.pop();
        self.free_count.store(free.len(), Ordering::Release);
        frame
    }

    pub fn free_count(&self) -> usize {
        self.free_count.load(Ordering::Acquire)
    }
}

/// Counts what is under way, transfers and writers, and lets one wait until they have ended.
#[derive(Default)]
pub(super) struct InFlight {
    state: Mutex<UnderWay>,
    ended: Condvar,
}

#[derive(Default)]
struct UnderWay {
    count: usize,
    closed: bool,
}

/// A writer at work, counted until it is dropped.
pub(super) struct AtWork<'a>(&'a InFlight);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.end(1);
    }
}

impl InFlight {
    pub fn begin(&self, count: usize) {
        self.state.lock().count += count;
    }

    /// Returns how many are left.
    pub fn end(&self, count: usize) -> usize {
        let mut state = self.state.lock();
        state.count -= count;
        self.ended.notify_all();
        state.count
    }

    /// A writer begins. `None`: it is too late for that.
    pub fn enter(&self) -> Option<AtWork<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.count += 1;
        Some(AtWork(self))
    }

    /// From now on no writer begins. Those at work go on, and begin their transfers.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    pub fn count(&self) -> usize {
        self.state.lock().count
    }

    /// Must not be called with a latch held.
    pub fn wait(&self) {
        self.wait_below(1);
    }

    /// Waits until fewer than `limit` are under way. Must not be called with a latch held.
    pub fn wait_below(&self, limit: usize) {
        let mut state = self.state.lock();
        while state.count >= limit {
            self.ended.wait(&mut state);
        }
    }
}
