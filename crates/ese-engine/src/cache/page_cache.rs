//! The page cache: its components, attaching and detaching files, counters.

use crossbeam_utils::CachePadded;
use ese_format::{LogPosition, PageSize};
use jetcell_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Mutex, OnceLock};
use jetcell_vfs::{Clock, File};

use super::cache_inner::CacheInner;
use super::deltas::DeltaStore;
use super::frame::Frame;
use super::frame_memory::FrameMemory;
use super::options::CacheLimits;
use super::page_table::PageTable;
use super::retained_run::RetainedRun;
use super::transfer_buffers::TransferBuffers;
use super::{AttachedFileId, CacheCounters, CacheOptions, WriteAhead};
use crate::events::EventReporter;
use crate::{Error, InstanceFailure, Result};

/// A page cache for all attached databases, with a fixed amount of memory. The module documentation lists its
/// invariants.
#[repr(align(128))]
pub struct Cache {
    pub(super) page_size: PageSize,
    pub(super) limits: CacheLimits,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) shared: Arc<CacheInner>,
    pub(super) page_table: PageTable,
    pub(super) frames: Box<[OnceLock<Arc<Frame>>]>,
    /// Number of `frames` that have ever been used.
    pub(super) used_frames: AtomicUsize,
    /// Logical time for the replacement policy: the number of pages read so far. It does not depend on a clock, and
    /// does not advance while no page is evicted.
    pub(super) now: CachePadded<AtomicU64>,
    pub(super) samples: CachePadded<AtomicU64>,
    pub(super) sweep_hand: AtomicUsize,
    /// Dirty frames that would have been evicted if they had been clean.
    pub(super) write_candidates: CachePadded<Mutex<Vec<u32>>>,
    pub(super) refilling: AtomicBool,
    /// Page copies that are waiting for the waypoint.
    pub(super) retained_runs: Mutex<Vec<RetainedRun>>,
    pub(super) cleaner: Mutex<Option<JoinHandle<()>>>,
    max_bytes: usize,
}

impl Cache {
    /// Creates an empty cache. Memory is allocated when pages are read.
    pub fn new(options: CacheOptions) -> Arc<Cache> {
        let limits = CacheLimits::new(&options);
        let page_bytes = options.page_size.bytes();
        Arc::new(Cache {
            page_size: options.page_size,
            clock: options.clock,
            shared: Arc::new(CacheInner::new(
                options.page_size,
                FrameMemory::new(page_bytes, limits.frames),
                TransferBuffers::new(page_bytes, limits.transfer_pages),
                DeltaStore::new(
                    page_bytes,
                    limits.frames,
                    limits.delta_frames,
                    limits.delta_slack * page_bytes,
                ),
            )),
            page_table: PageTable::new(limits.history),
            frames: (0..limits.frames).map(|_| OnceLock::new()).collect(),
            used_frames: AtomicUsize::new(0),
            now: CachePadded::new(AtomicU64::new(1)),
            samples: CachePadded::new(AtomicU64::new(options.seed)),
            sweep_hand: AtomicUsize::new(0),
            write_candidates: CachePadded::default(),
            refilling: AtomicBool::new(false),
            retained_runs: Mutex::default(),
            cleaner: Mutex::default(),
            max_bytes: (limits.frames + limits.transfer_pages + limits.delta_slack) * page_bytes,
            limits,
        })
    }

    /// Records that an instance lets its checkpoint lag the log by at most `bytes`. A larger lag allows more dirty
    /// pages to be evicted with their deltas. The smallest lag among all instances is used.
    pub(crate) fn bound_checkpoint_depth(&self, bytes: u64) {
        self.shared.deltas.bound_checkpoint_depth(bytes);
    }

    /// Returns the page size of all files.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Attaches a file. Its pages are written according to the rules of `wal`.
    pub fn attach(&self, file: Arc<dyn File>, wal: Arc<dyn WriteAhead>) -> AttachedFileId {
        self.attach_reporting(file, wal, EventReporter::discarding())
    }

    /// Attaches a file, like [`Cache::attach`], and reports events about damaged pages to `events`.
    pub(crate) fn attach_reporting(
        &self,
        file: Arc<dyn File>,
        wal: Arc<dyn WriteAhead>,
        events: EventReporter,
    ) -> AttachedFileId {
        self.shared.attach(file, wal, events)
    }

    /// Detaches a file whose changes have been flushed. Remaining pins keep their memory allocated, but no longer
    /// refer to a page.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the file has dirty pages. If the cache has failed, the changes are lost anyway, so the
    /// file is detached.
    pub fn detach(&self, file: AttachedFileId) -> Result<()> {
        let attached = self.shared.file(file)?;
        attached.in_flight.wait();
        let dirty = attached.dirty_pages.lock().dirty_count();
        if dirty > 0 && self.shared.check().is_ok() {
            return Err(Error::Usage(format!("file {} has {dirty} dirty pages", file.0)));
        }
        self.discard(file)
    }

    /// Detaches a file and discards its changes, as a crash would. The call waits for active writers of its pages.
    /// Afterwards, the cache writes neither to the file nor, on behalf of its pages, to the log, and both may be
    /// opened again. Must not be called with a latch held.
    pub fn discard(&self, file: AttachedFileId) -> Result<()> {
        let attached = self.shared.file(file)?;
        // The cleaner, and sessions that need a frame, write pages of any file. Active writers must finish before the
        // pages are discarded, because a page must not be written after its before-images have been dropped. Later
        // writers find the file closed.
        attached.in_flight.close();
        attached.in_flight.wait();
        self.drop_retained(&attached);
        self.page_table.remove_pages(&attached, &self.shared.deltas, |_| true);
        // A read-ahead may have started in the meantime.
        attached.in_flight.wait();
        self.shared.remove_file(file);
        Ok(())
    }

    /// Returns the log position at which redo of `file` would have to start, or `None` if all changes are durable.
    ///
    /// This is the lowest first position of all pages that are dirty, being written, or written and not yet synced by
    /// [`Cache::sync_file`]. Call `sync_file` before advancing a checkpoint; otherwise, completed writes are still
    /// included.
    #[doc(alias = "OB0")]
    pub fn oldest_dirty(&self, file: AttachedFileId) -> Option<LogPosition> {
        self.shared.find_file(file)?.dirty_pages.lock().oldest()
    }

    /// Returns the number of dirty pages of the file, including those with a write in flight.
    pub fn dirty_pages(&self, file: AttachedFileId) -> usize {
        self.shared.find_file(file).map_or(0, |attached| attached.dirty_pages.lock().dirty_count())
    }

    /// Returns [`Error::ReadOnly`] after a write or sync of any file has failed. Callers must check this before they
    /// change pages: marking a page dirty succeeds even then, but the change would never be written to disk.
    pub fn check_writable(&self) -> Result<()> {
        self.shared.check()
    }

    /// Rejects all further changes after a failure outside the cache (log, header). Only the first reason is
    /// recorded.
    pub fn fail(&self, failure: InstanceFailure) {
        self.shared.fail(failure);
    }

    /// Returns the number of frames that can be used without an eviction.
    pub(super) fn available(&self) -> usize {
        self.shared.free_count() + self.limits.frames
            - self.used_frames.load(Ordering::Relaxed).min(self.limits.frames)
    }

    pub(super) fn used_frames(&self) -> usize {
        self.used_frames.load(Ordering::Acquire).min(self.limits.frames)
    }

    /// Returns all counters. They are read one by one while the cache is in use, so they are not an atomic snapshot.
    pub fn counters(&self) -> CacheCounters {
        let counters = &self.shared.counters;
        let (requests, hits) = self.page_table.counts();
        let used = self.used_frames();
        let dirty = self.shared.dirty.load(Ordering::Relaxed);
        let resident = self.shared.frame_memory.taken() + self.shared.transfer_buffers.pages();
        let deltas = &self.shared.deltas;
        CacheCounters {
            requests,
            hits,
            faults: counters.faults.get(),
            prereads: counters.prereads.get(),
            preread_stalls: counters.preread_stalls.get(),
            prereads_unused: counters.prereads_unused.get(),
            fault_stalls: counters.fault_stalls.get(),
            evictions: counters.evictions.get(),
            delta_evictions: counters.delta_evictions.get(),
            written_checkpoint: counters.written_checkpoint.get(),
            written_eviction: counters.written_eviction.get(),
            written_flush: counters.written_flush.get(),
            coalesced_written: counters.coalesced_written.get(),
            coalesced_read: counters.coalesced_read.get(),
            bits_repaired: counters.bits_repaired.get(),
            read_retries: counters.read_retries.get(),
            frames: self.limits.frames as u64,
            available: self.available() as u64,
            dirty: dirty as u64,
            evicted_dirty: deltas.evicted_pages() as u64,
            clean: used.saturating_sub(self.shared.free_count() + deltas.frames() + dirty) as u64,
            resident_bytes: (resident * self.page_size.bytes() + deltas.bytes()) as u64,
            max_bytes: self.max_bytes as u64,
        }
    }
}
