//! State that all frames share: attached files, counters, memory.

use crossbeam_utils::CachePadded;
use ese_format::PageSize;
use jetcell_sync::atomic::{AtomicUsize, Ordering};
use jetcell_sync::{Arc, Mutex, OnceLock, RwLock};
use jetcell_vfs::File;

use super::attached_file::AttachedFile;
use super::cleaner_signal::CleanerSignal;
use super::counters::AtomicCacheCounters;
use super::frame_memory::FrameMemory;
use super::in_flight::InFlightCounter;
use super::transfer_buffers::TransferBuffers;
use crate::cache::deltas::DeltaStore;
use crate::cache::{AttachedFileId, WriteAhead};
use crate::events::EventReporter;
use crate::{Error, InstanceFailure, Result, UsageError};

/// Minimum number of dirty victims before the cleaner starts a batch.
pub(in crate::cache) const MIN_BATCH: usize = 16;
/// No further batch is started while this many background transfers are in flight. This is enough to keep a device
/// busy.
pub(in crate::cache) const WRITES_IN_FLIGHT: usize = 16;

/// The shared part of a cache. It contains no frames, so frames can own a reference to it without a cycle.
#[repr(align(128))]
pub(in crate::cache) struct CacheInner {
    pub counters: CachePadded<AtomicCacheCounters>,
    pub transfer_buffers: TransferBuffers,
    pub cleaner_signal: CleanerSignal,
    /// Number of dirty pages in frames.
    pub dirty: CachePadded<AtomicUsize>,
    /// Number of dirty pages in frames whose changes are all recorded as deltas.
    pub dirty_with_deltas: CachePadded<AtomicUsize>,
    pub page_size: PageSize,
    pub frame_memory: FrameMemory,
    pub deltas: DeltaStore,
    /// Number of pages with an eviction write in flight. Their frames will soon be available.
    pub cleaning: AtomicUsize,
    /// Number of pages with a copy that is waiting for the waypoint.
    pub retained: AtomicUsize,
    /// Background write transfers that are in flight.
    pub background: InFlightCounter,
    free: CachePadded<Mutex<Vec<u32>>>,
    free_count: AtomicUsize,
    files: CachePadded<RwLock<Vec<Option<Arc<AttachedFile>>>>>,
    /// The next candidate for a file id. Modified only while `files` is write-locked.
    pub next_file: AtomicUsize,
    failed: OnceLock<InstanceFailure>,
}

impl CacheInner {
    pub fn new(
        page_size: PageSize,
        frame_memory: FrameMemory,
        transfer_buffers: TransferBuffers,
        deltas: DeltaStore,
    ) -> CacheInner {
        CacheInner {
            counters: CachePadded::default(),
            transfer_buffers,
            cleaner_signal: CleanerSignal::default(),
            dirty: CachePadded::default(),
            dirty_with_deltas: CachePadded::default(),
            page_size,
            frame_memory,
            deltas,
            cleaning: AtomicUsize::new(0),
            retained: AtomicUsize::new(0),
            background: InFlightCounter::default(),
            free: CachePadded::default(),
            free_count: AtomicUsize::new(0),
            files: CachePadded::default(),
            next_file: AtomicUsize::new(0),
            failed: OnceLock::new(),
        }
    }

    pub fn attach(
        &self,
        file: Arc<dyn File>,
        wal: Arc<dyn WriteAhead>,
        events: EventReporter,
    ) -> AttachedFileId {
        let mut files = self.files.write();
        // An id is reused as late as possible. A caller that still uses the id of a detached file is then unlikely to
        // access another file by mistake.
        let next = self.next_file.load(Ordering::Relaxed);
        let is_free = |place: &usize| files.get(*place).is_none_or(Option::is_none);
        let place = (next..=usize::from(u16::MAX)).chain(0..next).find(is_free);
        let place = place.expect("fewer files are attached than file ids exist");
        self.next_file.store((place + 1) % (usize::from(u16::MAX) + 1), Ordering::Relaxed);
        let id = AttachedFileId(place as u16);
        if place >= files.len() {
            files.resize(place + 1, None);
        }
        files[place] = Some(Arc::new(AttachedFile::new(id, file, wal, events)));
        id
    }

    pub fn remove_file(&self, id: AttachedFileId) {
        if let Some(place) = self.files.write().get_mut(usize::from(id.0)) {
            *place = None;
        }
    }

    pub fn find_file(&self, id: AttachedFileId) -> Option<Arc<AttachedFile>> {
        self.files.read().get(usize::from(id.0)).and_then(Clone::clone)
    }

    pub fn file(&self, id: AttachedFileId) -> Result<Arc<AttachedFile>> {
        self.find_file(id).ok_or_else(|| UsageError::FileNotAttached(id.0).into())
    }

    /// Stops all writes, because the contents of the device are unknown until recovery restores them. Only the first
    /// reason is recorded.
    pub fn fail(&self, failure: InstanceFailure) {
        let _ = self.failed.set(failure);
    }

    pub fn check(&self) -> Result<()> {
        self.failed.get().map_or(Ok(()), |failure| Err(Error::ReadOnly(failure.clone())))
    }

    /// Returns the number of dirty pages in frames that must be written before they can be evicted.
    pub fn must_write_pages(&self) -> usize {
        let dirty = self.dirty.load(Ordering::Relaxed);
        dirty.saturating_sub(self.deltas.evictable(self.dirty_with_deltas.load(Ordering::Relaxed)))
    }

    /// Returns an estimate of [`CacheInner::must_write_pages`] for the near future.
    ///
    /// The estimate includes a growing share of the other dirty pages as the admission budget for deltas runs out.
    /// Once the budget is empty, all of them must be written. Growing the share gradually avoids a burst of writes at
    /// that point.
    pub fn must_write_pages_soon(&self) -> usize {
        let dirty = self.dirty.load(Ordering::Relaxed);
        dirty.saturating_sub(self.deltas.evictable_soon(self.dirty_with_deltas.load(Ordering::Relaxed)))
    }

    /// Returns true if `pages` pages are enough for a batch and the number of writes in flight is low enough.
    pub fn may_start_batch(&self, pages: usize) -> bool {
        pages >= MIN_BATCH && self.background.count() < WRITES_IN_FLIGHT
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
