//! One attached database: its file, header, counters, and the trees that are open in it.
//!
//! Invariants: the header on disk is never ahead of the log nor behind what recovery needs: no page is written with
//! changes of a generation that the header does not name yet, and its lower marks are raised only after the pages
//! below are durable. Both copies are written one after the other with a sync between, so one is always whole.

use std::collections::HashMap;
use std::path::PathBuf;

use crossbeam_utils::CachePadded;
use ese_format::attachment::Attachment;
use ese_format::header::{DatabaseHeader, DatabaseState, HeaderCopies};
use ese_format::log::record::{DatabaseIdInLog, DetachDb, LogRecord, encode_path};
use ese_format::log::segment::RECORDS_AT;
use ese_format::page::{Page, PageFlags};
use ese_format::{DbTime, Generation, LogPosition, LogTime, PageNumber, PageSize, TreeId};
use jetcell_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{DirectoryLock, File, IoReason};

use crate::btree::Tree;
use crate::cache::{FileId, PageKey, PinnedPage, WriteAhead};
use crate::catalog::Catalog;
use crate::core::Core;
use crate::double_write::{self, DoubleWrite};
use crate::scan::DatabaseScan;
use crate::{Error, Result};

/// Page flags that all pages of a tree share.
pub(crate) const TREE_KIND: PageFlags =
    PageFlags::INDEX.union(PageFlags::LONG_VALUE).union(PageFlags::NON_UNIQUE).union(PageFlags::NEW_RECORD);

/// A file does not grow by fewer pages.
const LEAST_EXTENSION: u32 = 16;

/// A database in use. ESE: `FMP`.
#[doc(alias = "FMP")]
#[repr(align(128))]
pub struct Database {
    /// The instance it belongs to.
    pub core: Arc<Core>,
    /// Its file in the cache.
    pub file_id: FileId,
    /// Its number in log records. ESE: `dbid`.
    pub log_id: u8,
    /// Where it is.
    pub path: PathBuf,
    /// Page size of all its pages.
    pub page_size: PageSize,
    /// Pages by which the file grows.
    extension_pages: AtomicU32,
    pub(crate) file: Arc<dyn File>,
    /// The header as it is to be; on disk it is behind only while `header_write` is taken.
    header: Mutex<DatabaseHeader>,
    /// One write of the header at a time. Taken before `header`, which is never held across I/O.
    header_write: Mutex<()>,
    mark: Arc<HeaderMark>,
    /// Serialises changes of space trees. Taken after `Tree::structure`.
    pub(crate) space: Mutex<()>,
    /// Definitions of tables in use.
    pub(crate) catalog: Catalog,
    db_time: CachePadded<AtomicU64>,
    last_tree: AtomicU32,
    trees: Mutex<HashMap<PageNumber, Arc<Tree>>>,
    pub(crate) scan: DatabaseScan,
    side: Option<Arc<DoubleWrite>>,
    _lock: Box<dyn DirectoryLock>,
}

/// A locked database file that is about to be taken into use.
pub(crate) struct OpenedFile {
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    pub lock: Box<dyn DirectoryLock>,
    pub header: DatabaseHeader,
    pub extension_pages: u32,
    pub side: Option<Arc<DoubleWrite>>,
}

/// The newest generation that the header on disk says may be needed; all of them while it is not in use.
struct HeaderMark(AtomicU32);

impl HeaderMark {
    fn of(header: &DatabaseHeader) -> u32 {
        match header.state {
            DatabaseState::DirtyShutdown => header.gen_max_required.0,
            _ => u32::MAX,
        }
    }

    /// Where the records of that generation end.
    fn end(&self) -> LogPosition {
        let next = self.0.load(Ordering::Acquire).saturating_add(1);
        LogPosition { generation: Generation(next), segment: 1, offset: RECORDS_AT as u16 }
    }
}

/// What the cache asks before it writes pages of a database.
struct WriteGuard {
    core: Arc<Core>,
    mark: Arc<HeaderMark>,
    side: Option<Arc<DoubleWrite>>,
}

impl WriteAhead for WriteGuard {
    fn durable(&self) -> LogPosition {
        self.core.durable().min(self.mark.end())
    }

    fn flush(&self, upto: LogPosition) -> Result<()> {
        self.core.flush(upto)?;
        match upto > self.mark.end() {
            true => self.core.name_generation(),
            false => Ok(()),
        }
    }

    fn request(&self, upto: LogPosition) {
        if upto > self.core.durable() {
            self.core.request(upto);
        } else {
            self.core.request_name_generation();
        }
    }

    fn protect(&self, pages: &[(PageNumber, &[u8])]) -> Result<Option<Box<dyn Send + Sync>>> {
        match &self.side {
            Some(side) => Ok(Some(Box::new(side.protect(pages, self.core.durable())?))),
            None => Ok(None),
        }
    }

    fn batch_limit(&self) -> usize {
        self.side.as_ref().map_or(usize::MAX, |side| side.batch_limit())
    }
}

impl Database {
    /// Takes a locked file into use. Its pages may be read from now on; the header on disk is as it was.
    pub(crate) fn open(core: &Arc<Core>, opened: OpenedFile, log_id: u8) -> Arc<Database> {
        let OpenedFile { path, file, lock, mut header, extension_pages, side } = opened;
        // Of an interrupted run it may name less than the log has.
        if let (DatabaseState::DirtyShutdown, Some((generation, created))) = (header.state, core.log_named())
        {
            name_generation(&mut header, generation, created);
        }
        let mark = Arc::new(HeaderMark(AtomicU32::new(HeaderMark::of(&header))));
        let guard = WriteGuard { core: core.clone(), mark: mark.clone(), side: side.clone() };
        let file_id = core.cache.attach(file.clone(), Arc::new(guard));
        let database = Arc::new(Database {
            core: core.clone(),
            file_id,
            log_id,
            path,
            page_size: header.page_size,
            extension_pages: AtomicU32::new(extension_pages.max(LEAST_EXTENSION)),
            file,
            db_time: CachePadded::new(AtomicU64::new(header.db_time.0)),
            last_tree: AtomicU32::new(header.last_tree.0),
            header: Mutex::new(header),
            header_write: Mutex::new(()),
            mark,
            space: Mutex::new(()),
            catalog: Catalog::default(),
            trees: Mutex::default(),
            scan: DatabaseScan::default(),
            side,
            _lock: lock,
        });
        core.add_database(database.clone());
        database
    }

    /// Pages by which the file grows.
    pub(crate) fn extension_pages(&self) -> u32 {
        self.extension_pages.load(Ordering::Relaxed)
    }

    /// Changes by how many pages the file grows.
    pub(crate) fn extend_by(&self, pages: u32) {
        self.extension_pages.store(pages.max(LEAST_EXTENSION), Ordering::Relaxed);
    }

    /// The next database time.
    pub(crate) fn next_time(&self) -> DbTime {
        DbTime(self.db_time.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Times up to this one were used (recovery).
    pub(crate) fn time_used(&self, time: DbTime) {
        self.db_time.fetch_max(time.0, Ordering::AcqRel);
    }

    /// The highest time handed out.
    pub fn db_time(&self) -> DbTime {
        DbTime(self.db_time.load(Ordering::Acquire))
    }

    /// A new tree id.
    pub(crate) fn next_tree_id(&self) -> TreeId {
        TreeId(self.last_tree.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Ids up to this one are in use (recovery).
    pub(crate) fn tree_id_used(&self, id: TreeId) {
        self.last_tree.fetch_max(id.0, Ordering::AcqRel);
    }

    /// The tree with this root; the same object for everybody, so that its structure lock is one.
    pub fn tree(self: &Arc<Self>, root: PageNumber, id: TreeId, kind: PageFlags) -> Arc<Tree> {
        let mut trees = self.trees.lock();
        let known = trees.get(&root).filter(|tree| tree.id == id).cloned();
        known.unwrap_or_else(|| {
            let tree = Arc::new(Tree::new(self.clone(), root, id, kind));
            trees.insert(root, tree.clone());
            tree
        })
    }

    /// The tree with this root, by what the root page says it is.
    pub(crate) fn tree_at(self: &Arc<Self>, root: PageNumber) -> Result<Arc<Tree>> {
        if let Some(tree) = self.open_tree(root) {
            return Ok(tree);
        }
        let (id, kind) = {
            let latch = self.pin(root)?.into_read();
            let page = Page::new(&latch, self.page_size);
            (page.tree(), page.flags() & TREE_KIND)
        };
        Ok(self.tree(root, id, kind))
    }

    /// An open tree by its root.
    pub(crate) fn open_tree(&self, root: PageNumber) -> Option<Arc<Tree>> {
        self.trees.lock().get(&root).cloned()
    }

    /// The tree with this root is no more. Under the lock that its pages were freed under: whoever has them next would
    /// have his tree forgotten.
    pub(crate) fn forget_tree(&self, root: PageNumber) {
        debug_assert!(self.space.is_locked());
        self.trees.lock().remove(&root);
    }

    /// Drops the references from trees back to the database, so that it can be freed.
    pub(crate) fn forget_trees(&self) {
        self.catalog.clear();
        self.trees.lock().clear();
    }

    pub(crate) fn page_key(&self, page: PageNumber) -> PageKey {
        PageKey { file: self.file_id, page }
    }

    /// Pins a page, reading it if it is not in the cache. No latch may be held.
    pub(crate) fn pin(&self, page: PageNumber) -> Result<PinnedPage> {
        self.core.cache.fetch(self.page_key(page))
    }

    /// Pins a page only if that needs no I/O.
    pub(crate) fn resident(&self, page: PageNumber) -> Option<PinnedPage> {
        self.core.cache.resident(self.page_key(page))
    }

    /// Pins a page that is about to be formatted; whatever the file holds there is not read.
    pub(crate) fn pin_new(&self, page: PageNumber) -> Result<PinnedPage> {
        self.core.cache.create(self.page_key(page))
    }

    /// Pages in the file now.
    pub(crate) fn file_pages(&self) -> Result<u32> {
        let bytes = self.file.len().map_err(|e| Error::io(&self.path, &e))?;
        Ok((bytes / self.page_size.bytes() as u64).saturating_sub(2).min(u64::from(u32::MAX)) as u32)
    }

    /// Makes the file hold pages up to `last`.
    pub(crate) fn grow_file(&self, last: PageNumber) -> Result<()> {
        if self.file_pages()? >= last.get() {
            return Ok(());
        }
        let len = self.page_size.offset_of(last) + self.page_size.bytes() as u64;
        self.file.grow(len).map_err(|e| Error::io(&self.path, &e))
    }

    /// Changes the header and makes it durable.
    pub(crate) fn update_header(&self, change: impl FnOnce(&mut DatabaseHeader)) -> Result<()> {
        let _one = self.header_write.lock();
        let header = {
            let mut header = self.header.lock();
            change(&mut header);
            header.db_time = header.db_time.max(self.db_time());
            header.last_tree = header.last_tree.max(TreeId(self.last_tree.load(Ordering::Acquire)));
            header.clone()
        };
        // Pages and header depend on each other: after a failure nothing of this database may change.
        write_header(&*self.file, &header).inspect_err(|error| self.core.cache.fail(error.cause()))?;
        self.mark.0.store(HeaderMark::of(&header), Ordering::Release);
        Ok(())
    }

    /// The database as log headers and checkpoints list it.
    pub(crate) fn attachment(&self) -> Attachment {
        let header = self.header.lock();
        let mut attachment = Attachment {
            database: DatabaseIdInLog(self.log_id),
            flags: 0,
            db_time: self.db_time(),
            last_tree: TreeId(self.last_tree.load(Ordering::Acquire)),
            max_pages: 0,
            attach_position: header.attach_position,
            consistent_position: header.consistent_position,
            signature: header.signature,
            path: Vec::new(),
        };
        attachment.set_path(&self.path.to_string_lossy());
        attachment
    }

    /// The oldest log that the header says is needed.
    pub(crate) fn oldest_log(&self) -> Generation {
        self.header.lock().gen_min_required
    }

    /// Before pages with changes of a generation are written: it must be replayed for the file to be consistent.
    pub(crate) fn enter_generation(&self, generation: Generation, created: LogTime) -> Result<()> {
        if self.mark.0.load(Ordering::Acquire) >= generation.0 {
            return Ok(());
        }
        self.update_header(|header| {
            if header.state == DatabaseState::DirtyShutdown {
                name_generation(header, generation, created);
            }
        })
    }

    /// Flushes the database and leaves it clean. ESE: detach.
    pub(crate) fn detach(&self, now: LogTime) -> Result<()> {
        let core = &self.core;
        // Its file id, and its id in the log, may be another's by now.
        if core.database(self.file_id).is_none_or(|attached| !std::ptr::eq(&*attached, self)) {
            return Err(Error::Usage(format!("{} is not attached", self.path.display())));
        }
        self.stop_scan();
        let _steady = core.checkpoint.lock();
        core.log().flush(core.log().tail())?;
        core.cache.flush_file(self.file_id)?;
        let record = LogRecord::DetachDb(DetachDb {
            procid: 0,
            database: DatabaseIdInLog(self.log_id),
            flags: DetachDb::UNICODE,
            path: encode_path(&self.path.to_string_lossy()),
        });
        let (start, end) = core.append(&[record])?;
        core.log().flush(end)?;
        self.close_clean(start, now)
    }

    /// Ends the use of the file; all pages are on disk and the detach record at `position` is durable.
    pub(crate) fn close_clean(&self, position: LogPosition, now: LogTime) -> Result<()> {
        self.set_clean(position, now)?;
        self.forget_trees();
        self.core.cache.detach(self.file_id)?;
        self.core.remove_database(self.file_id);
        self.remove_side_file();
        Ok(())
    }

    /// All pages are on disk and the detach record at `position` is durable: no log is needed any more.
    fn set_clean(&self, position: LogPosition, now: LogTime) -> Result<()> {
        self.update_header(|header| {
            header.state = DatabaseState::CleanShutdown;
            header.consistent_position = position;
            header.consistent_time = now;
            header.detach_position = position;
            header.detach_time = now;
            header.resize_position = position;
            header.gen_min_required = Generation(0);
            header.gen_min_consistent = Generation(0);
            header.gen_max_required = Generation(0);
            header.gen_max_committed = Generation(0);
            header.gen_max_committed_time = LogTime::NONE;
        })
    }

    /// A clean database needs no page images. Failure to remove them does no harm: who attaches it does so first.
    fn remove_side_file(&self) {
        if self.side.is_some() {
            let _ = self.core.vfs.remove(&double_write::path_of(&self.path));
        }
    }

    /// After all pages with changes below `checkpoint` are durable.
    pub(crate) fn advance_checkpoint(&self, checkpoint: LogPosition) -> Result<()> {
        let (dirty, oldest) = {
            let header = self.header.lock();
            // The position may stand before the first record of a generation that is not in use yet.
            let oldest = checkpoint.generation.min(header.gen_max_required);
            (header.state == DatabaseState::DirtyShutdown && header.gen_min_required < oldest, oldest)
        };
        if !dirty {
            return Ok(());
        }
        self.update_header(|header| {
            header.gen_min_required = oldest;
            header.gen_min_consistent = oldest;
        })
    }
}

/// Raises the upper marks to a generation that exists.
fn name_generation(header: &mut DatabaseHeader, generation: Generation, created: LogTime) {
    if header.gen_max_committed < generation {
        header.gen_max_committed_time = created;
    }
    header.gen_max_required = header.gen_max_required.max(generation);
    header.gen_max_committed = header.gen_max_committed.max(generation);
}

/// Writes both header copies, syncing after each, so that a crash leaves at least one whole.
pub(crate) fn write_header(file: &dyn File, header: &DatabaseHeader) -> Result<()> {
    (0..2).try_for_each(|copy| write_header_copy(file, header, copy))
}

/// Before anything else is written: if a crash damaged the shadow, the next write of the first copy, cut off in turn,
/// would leave none.
pub(crate) fn mend_shadow(file: &dyn File, header: &DatabaseHeader, copies: HeaderCopies) -> Result<()> {
    match copies {
        HeaderCopies::FirstOnly => write_header_copy(file, header, 1),
        HeaderCopies::Both | HeaderCopies::ShadowStale | HeaderCopies::ShadowOnly => Ok(()),
    }
}

fn write_header_copy(file: &dyn File, header: &DatabaseHeader, copy: u64) -> Result<()> {
    let mut page = jetcell_vfs::IoBuffer::zeroed(header.page_size.bytes());
    page.copy_from_slice(&header.encode());
    let failed = |e: std::io::Error| Error::ReadOnly(format!("{}: header: {e}", file.path().display()));
    file.write_at(copy * page.len() as u64, &page, IoReason::DatabaseHeader).map_err(failed)?;
    file.sync(IoReason::DatabaseHeader).map_err(failed)
}
