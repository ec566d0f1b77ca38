//! The cache itself: what it is made of, attaching and detaching files, counters.

use crossbeam_utils::CachePadded;
use ese_format::{LogPosition, PageSize};
use jetcell_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Mutex, OnceLock};
use jetcell_vfs::{Clock, File};

use super::copies::Copies;
use super::files::Books;
use super::frame::Frame;
use super::kept::Kept;
use super::memory::Memory;
use super::options::Limits;
use super::table::Table;
use super::{CacheCounters, CacheOptions, FileId, WriteAhead};
use crate::{Error, Result};

/// Pages of all attached databases in a fixed amount of memory. See the module for its invariants.
#[repr(align(128))]
pub struct Cache {
    pub(super) page_size: PageSize,
    pub(super) limits: Limits,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) books: Arc<Books>,
    pub(super) table: Table,
    pub(super) frames: Box<[OnceLock<Arc<Frame>>]>,
    /// How many of `frames` were ever used.
    pub(super) used_frames: AtomicUsize,
    /// The cache's time: pages read so far. Independent of clocks, and it stands still when nothing is evicted.
    pub(super) now: CachePadded<AtomicU64>,
    pub(super) samples: CachePadded<AtomicU64>,
    pub(super) sweep_hand: AtomicUsize,
    /// Dirty frames that would have been the best victims.
    pub(super) wanted: CachePadded<Mutex<Vec<u32>>>,
    pub(super) refilling: AtomicBool,
    pub(super) cleaner: Mutex<Option<JoinHandle<()>>>,
    max_bytes: usize,
}

impl Cache {
    /// An empty cache. Memory is taken when pages come in.
    pub fn new(options: CacheOptions) -> Arc<Cache> {
        let limits = Limits::new(&options);
        let page_bytes = options.page_size.bytes();
        Arc::new(Cache {
            page_size: options.page_size,
            clock: options.clock,
            books: Arc::new(Books::new(
                options.page_size,
                Memory::new(page_bytes, limits.frames),
                Copies::new(page_bytes, limits.copies),
                Kept::new(
                    page_bytes,
                    limits.frames,
                    limits.kept,
                    limits.slack * page_bytes,
                    options.checkpoint_depth,
                ),
            )),
            table: Table::new(limits.history),
            frames: (0..limits.frames).map(|_| OnceLock::new()).collect(),
            used_frames: AtomicUsize::new(0),
            now: CachePadded::new(AtomicU64::new(1)),
            samples: CachePadded::new(AtomicU64::new(options.seed)),
            sweep_hand: AtomicUsize::new(0),
            wanted: CachePadded::default(),
            refilling: AtomicBool::new(false),
            cleaner: Mutex::default(),
            max_bytes: (limits.frames + limits.copies + limits.slack) * page_bytes,
            limits,
        })
    }

    /// The page size of all files.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Takes a file into use. Its pages are written under the rules of `wal`.
    pub fn attach(&self, file: Arc<dyn File>, wal: Arc<dyn WriteAhead>) -> FileId {
        self.books.attach(file, wal)
    }

    /// Ends the use of a file whose changes were flushed; refuses while there are dirty pages, unless the cache
    /// failed and they are lost anyway. Pins that still exist keep memory, but no page.
    pub fn detach(&self, file: FileId) -> Result<()> {
        let attached = self.books.file(file)?;
        attached.in_flight.wait();
        let dirty = attached.ledger.lock().dirty_count();
        if dirty > 0 && self.books.check().is_ok() {
            return Err(Error::Usage(format!("file {} has {dirty} dirty pages", file.0)));
        }
        self.discard(file)
    }

    /// Ends the use of a file and forgets its changes, as a crash would. Waits for those who write its pages: afterwards
    /// nobody writes to the file, or to the log for the sake of its pages, and others may open them. Must not be called
    /// with a latch held.
    pub fn discard(&self, file: FileId) -> Result<()> {
        let attached = self.books.file(file)?;
        // The cleaner, and sessions that need room, write pages of whatever file. Those at work end while the pages
        // still are what they claimed: a page must not be written once its before-images are forgotten. Who comes
        // later finds the file closed.
        attached.in_flight.close();
        attached.in_flight.wait();
        self.table.remove_file(&attached, &self.books.kept);
        // A read-ahead may have begun in between.
        attached.in_flight.wait();
        self.books.remove_file(file);
        Ok(())
    }

    /// Where redo of `file` would have to start: the earliest first position of its pages that are dirty, being
    /// written, or written and not yet covered by [`Cache::sync_file`]. `None` when all is durable.
    ///
    /// Before a checkpoint advances, call `sync_file`, otherwise completed writes still count.
    #[doc(alias = "OB0")]
    pub fn oldest_dirty(&self, file: FileId) -> Option<LogPosition> {
        self.books.find_file(file)?.ledger.lock().oldest()
    }

    /// Dirty pages of the file, those in flight included.
    pub fn dirty_pages(&self, file: FileId) -> usize {
        self.books.find_file(file).map_or(0, |attached| attached.ledger.lock().dirty_count())
    }

    /// [`Error::ReadOnly`] once a write or sync of any file failed. Callers ask before changing pages: marking a
    /// page dirty cannot fail, but the change would never reach the disk.
    pub fn check_writable(&self) -> Result<()> {
        self.books.check()
    }

    /// Refuses further changes, for a failure found elsewhere (log, header). The first reason stays.
    pub fn fail(&self, what: impl Into<String>) {
        self.books.fail(what.into());
    }

    /// Frames that can be used without evicting anything.
    pub(super) fn available(&self) -> usize {
        self.books.free_count() + self.limits.frames
            - self.used_frames.load(Ordering::Relaxed).min(self.limits.frames)
    }

    pub(super) fn used_frames(&self) -> usize {
        self.used_frames.load(Ordering::Acquire).min(self.limits.frames)
    }

    /// All counters, read one by one while the cache goes on.
    pub fn counters(&self) -> CacheCounters {
        let tallies = &self.books.tallies;
        let (requests, hits) = self.table.counts();
        let used = self.used_frames();
        let dirty = self.books.dirty.load(Ordering::Relaxed);
        let resident = self.books.memory.taken() + self.books.copies.held();
        let kept = &self.books.kept;
        CacheCounters {
            requests,
            hits,
            faults: tallies.faults.get(),
            prereads: tallies.prereads.get(),
            preread_stalls: tallies.preread_stalls.get(),
            prereads_unused: tallies.prereads_unused.get(),
            fault_stalls: tallies.fault_stalls.get(),
            evictions: tallies.evictions.get(),
            delta_evictions: tallies.delta_evictions.get(),
            written_checkpoint: tallies.written_checkpoint.get(),
            written_eviction: tallies.written_eviction.get(),
            written_flush: tallies.written_flush.get(),
            coalesced_written: tallies.coalesced_written.get(),
            coalesced_read: tallies.coalesced_read.get(),
            bits_repaired: tallies.bits_repaired.get(),
            read_retries: tallies.read_retries.get(),
            frames: self.limits.frames as u64,
            available: self.available() as u64,
            dirty: dirty as u64,
            delta_pages: kept.away() as u64,
            clean: used.saturating_sub(self.books.free_count() + kept.lent() + dirty) as u64,
            resident_bytes: (resident * self.page_size.bytes() + kept.bytes()) as u64,
            max_bytes: self.max_bytes as u64,
        }
    }
}
