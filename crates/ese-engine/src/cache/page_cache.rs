//! The [`Cache`] type: construction, attaching and detaching of files, and counters.
//!
//! Redo buffers changes to pages that are not in memory. A page with logged changes is read only when a session needs
//! it or when it must be written. InnoDB calls this a change buffer.

use std::ops::{Deref, Range};

use ese_format::{LogPosition, PageNumber, PageSize};
use jetcell_sync::atomic::Ordering;
use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::File;

use super::deltas::DeltaStore;
use super::options::CacheLimits;
use super::read::fetch::PageReader;
use super::{AttachedFileId, CacheCounters, CacheOptions, MemoryGrant, PageKey, PinnedPage, WriteAhead};
use crate::cache::shared::{CacheInner, FrameMemory, TransferBuffers};
use crate::events::EventReporter;
use crate::{InstanceFailure, Result, UsageError};

/// A page cache for all attached databases, with a fixed amount of memory. The module documentation lists its
/// invariants.
///
/// The cache dereferences to its `PageReader`. The reader is built on the frame supply, which owns the resident pages
/// and the page writer.
#[repr(align(128))]
pub struct Cache {
    reader: PageReader,
    pub(super) cleaner: Mutex<Option<JoinHandle<()>>>,
    max_bytes: usize,
}

impl Deref for Cache {
    type Target = PageReader;

    fn deref(&self) -> &PageReader {
        &self.reader
    }
}

impl Cache {
    /// Creates an empty cache. Memory is allocated when pages are read.
    pub fn new(options: CacheOptions) -> Arc<Cache> {
        let limits = CacheLimits::new(&options);
        let page_bytes = options.page_size.bytes();
        let shared = Arc::new(CacheInner::new(
            options.page_size,
            FrameMemory::new(page_bytes, limits.frames),
            TransferBuffers::new(page_bytes, limits.transfer_pages),
            DeltaStore::new(page_bytes, limits.frames, limits.delta_frames, limits.delta_slack * page_bytes),
        ));
        Arc::new(Cache {
            reader: PageReader::new(shared, limits, options.clock, options.seed),
            cleaner: Mutex::default(),
            max_bytes: (limits.frames + limits.transfer_pages + limits.delta_slack) * page_bytes,
        })
    }

    /// Records that an instance lets its checkpoint lag the log by at most `bytes`. A larger lag allows more dirty
    /// pages to be evicted with their deltas. The smallest lag among all instances is used.
    pub(crate) fn bound_checkpoint_depth(&self, bytes: u64) {
        self.shared.deltas.bound_checkpoint_depth(bytes);
    }

    /// Returns the page size of all files.
    pub fn page_size(&self) -> PageSize {
        self.shared.page_size
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
    /// Returns [`crate::Error::Usage`] if the file has dirty pages. If the cache has failed, the changes are lost
    /// anyway, so the file is detached.
    pub fn detach(&self, file: AttachedFileId) -> Result<()> {
        let attached = self.shared.file(file)?;
        attached.in_flight.wait();
        let dirty = attached.dirty_pages.lock().dirty_count();
        if dirty > 0 && self.shared.check().is_ok() {
            return Err(UsageError::DirtyPages { file: file.0, pages: dirty }.into());
        }
        self.discard(file)
    }

    /// Detaches a file and discards its changes, as a crash would. The call waits for active writers of its pages.
    /// Afterwards, the cache no longer writes to the file, or to the log for its pages. Both may be opened again. Must
    /// not be called with a latch held.
    pub fn discard(&self, file: AttachedFileId) -> Result<()> {
        let attached = self.shared.file(file)?;
        // The cleaner, and sessions that need a frame, write pages of any file. Active writers must finish before the
        // pages are discarded, because a page must not be written after its before-images have been dropped. Later
        // writers find the file closed.
        attached.in_flight.close();
        attached.in_flight.wait();
        self.supply().writer().drop_retained(&attached);
        self.page_table().remove_pages(&attached, &self.shared.deltas, |_| true);
        // A read-ahead may have started after the first wait.
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

    /// Returns [`crate::Error::ReadOnly`] after a write or sync of any file has failed. Callers must check this before
    /// they change pages. Marking a page dirty would still succeed, but the change would never be written to disk.
    pub fn check_writable(&self) -> Result<()> {
        self.shared.check()
    }

    /// Rejects all further changes after a failure outside the cache (log, header). Only the first reason is
    /// recorded.
    pub fn fail(&self, failure: InstanceFailure) {
        self.shared.fail(failure);
    }

    /// Performs one bounded step of the page cleaner. It evicts clean pages and starts writes of dirty pages until
    /// enough frames are available. Returns the number of pages that it evicted or started to write.
    pub fn clean_step(&self) -> Result<usize> {
        self.supply().clean_step()
    }

    /// Returns true if the page can be evicted without a write.
    pub(crate) fn can_evict(&self, page: &PinnedPage) -> bool {
        !self.residents().must_be_written(page.frame())
    }

    /// Gives available frames to deltas if deltas need them.
    pub(crate) fn reserve_delta_memory(&self) {
        self.supply().reserve_delta_memory();
    }

    /// Grants at most `bytes` of memory. Only frames that have never been used are granted, so no page is evicted.
    ///
    /// Together, all grants use at most half of the frames. The rest is left for the pages of concurrent recoveries.
    /// Until the grant is dropped, the admission budget does not limit evictions with deltas.
    pub fn grant_memory(&self, bytes: usize) -> MemoryGrant {
        MemoryGrant::new(&self.shared, self.residents().pool(), bytes, self.limits.frames / 2)
    }

    /// Returns true if the cache can buffer changes with [`Cache::buffer_change`] at all.
    pub(crate) fn buffers_changes(&self) -> bool {
        self.shared.deltas.is_enabled()
    }

    /// Buffers the changes that the log records at `positions` make to a page that is not in memory. The changes are
    /// applied when the page is read.
    ///
    /// Together, the new and the already buffered changes must include all changes that the disk may lack. `deltas` are
    /// encoded with [`PageDelta::encode_for_unread`](crate::cache::PageDelta::encode_for_unread). Returns false if the
    /// page is in memory, or if the deltas do not fit.
    pub(crate) fn buffer_change(&self, key: PageKey, positions: Range<LogPosition>, deltas: &[u8]) -> bool {
        self.reserve_delta_memory();
        self.shared.find_file(key.file).is_some_and(|attached| {
            self.page_table().buffer_change(key, &attached, &self.shared.deltas, positions, deltas)
        })
    }

    /// Removes pages that are no longer part of the database from the cache, together with their changes.
    ///
    /// `wanted` returns true for the pages to remove, all of which are within `ranges`. Until such a page is created
    /// again, it reads as an unused page. Must not be called with a latch held, nor while another thread changes
    /// these pages.
    pub(crate) fn drop_pages(
        &self,
        file: AttachedFileId,
        ranges: &[(u32, u32)],
        wanted: impl Fn(PageNumber) -> bool,
    ) -> Result<()> {
        let attached = self.shared.file(file)?;
        ranges.iter().for_each(|(first, last)| attached.released.add(*first, *last));
        if self.page_table().remove_pages(&attached, &self.shared.deltas, wanted) {
            // Page writes must complete before the caller changes the file.
            attached.in_flight.wait();
        }
        Ok(())
    }

    /// Returns true if all pages from `first` to `last` were returned to the file system since the file was attached,
    /// and are still unused.
    pub(crate) fn are_released(&self, file: AttachedFileId, first: u32, last: u32) -> bool {
        self.shared.find_file(file).is_some_and(|attached| attached.released.contains(first, last))
    }

    /// Returns all counters. They are read one by one while the cache is in use, so they are not an atomic snapshot.
    pub fn counters(&self) -> CacheCounters {
        let (requests, hits) = self.page_table().counts();
        let used = self.residents().pool().used();
        let dirty = self.shared.dirty.load(Ordering::Relaxed);
        let resident = self.shared.frame_memory.taken() + self.shared.transfer_buffers.pages();
        let deltas = &self.shared.deltas;
        CacheCounters {
            requests,
            hits,
            frames: self.limits.frames as u64,
            available: self.residents().pool().available() as u64,
            dirty: dirty as u64,
            evicted_dirty: deltas.evicted_pages() as u64,
            clean: used.saturating_sub(self.shared.free_count() + deltas.frames() + dirty) as u64,
            resident_bytes: (resident * self.shared.page_size.bytes() + deltas.bytes()) as u64,
            max_bytes: self.max_bytes as u64,
            ..self.shared.counters.totals()
        }
    }
}
