//! The file of one attached database: header, counters, growth, and its pages in the cache.
//!
//! Invariants:
//!
//! - The header on disk is never ahead of the log, and always records what recovery needs.
//! - No page is written while it has changes from a generation that the header does not name yet.
//! - The lower marks of the header are raised only after the pages with older changes are durable.
//! - The two header copies are written one after the other with a sync in between, so one of them is always intact.

use crossbeam_utils::CachePadded;
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::path::PathBuf;

use ese_format::attachment::Attachment;
use ese_format::header::{BackupInfo, DatabaseHeader, DatabaseState};
use ese_format::log::record::DatabaseIdInLog;
use ese_format::{DbTime, Generation, LogPosition, LogTime, PageNumber, PageSize, TreeId};
use jetcell_sync::Mutex;
use jetcell_vfs::{DirectoryLock, File, Vfs};

use super::CheckpointPins;
use super::double_write::{self, DoubleWrite};
use super::header::write_header;
use super::unsettled_pages::UnsettledPages;
use super::write_guard::{DoubleWriteGuard, HeaderGenerations, WriteGuard};
use crate::cache::{AttachedFileId, Cache, PageKey, PinnedPage};
use crate::events::{EventKind, EventReporter};
use crate::log::{LogStream, TransactionNumbers};
use crate::{Corruption, Error, Result};

/// Minimum number of pages by which a file grows.
const MIN_EXTENSION: u32 = 16;

/// Services that the files of one instance share.
#[derive(Clone)]
pub(crate) struct FileServices {
    pub vfs: Arc<dyn Vfs>,
    pub cache: Arc<Cache>,
    pub log: Arc<LogStream>,
    pub pins: Arc<CheckpointPins>,
    pub numbers: Arc<CachePadded<TransactionNumbers>>,
    pub events: EventReporter,
}

/// The file of an attached database. ESE: `FMP`.
#[doc(alias = "FMP")]
#[repr(align(128))]
pub struct DatabaseFile {
    pub(crate) cache: Arc<Cache>,
    pub(crate) log: Arc<LogStream>,
    pub(crate) pins: Arc<CheckpointPins>,
    /// Transaction numbers for changes made outside sessions.
    pub(crate) numbers: Arc<CachePadded<TransactionNumbers>>,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) events: EventReporter,
    /// Whether the last attempt to extend the file found the disk full.
    disk_full: AtomicBool,
    /// Id of the file in the cache.
    pub file_id: AttachedFileId,
    /// Number of the database in log records. ESE: `dbid`.
    pub log_id: u8,
    /// Path of the file.
    pub path: PathBuf,
    /// Path of the file as recorded in the log.
    pub(crate) logged_path: String,
    /// Page size of the database.
    pub page_size: PageSize,
    /// Number of pages by which the file grows.
    extension_pages: AtomicU32,
    pub(crate) file: Arc<dyn File>,
    /// The current header. The header on disk is older only while `header_write` is held.
    header: Mutex<DatabaseHeader>,
    /// Serialises header writes. Acquired before `header`, which is never held across I/O.
    header_write: Mutex<()>,
    mark: Arc<HeaderGenerations>,
    /// Number of newest generations that the header does not name as required. Zero while the database is being
    /// detached.
    waypoint_latency: AtomicU32,
    /// Serialises changes to space trees. Acquired after the structure lock of a tree.
    pub(crate) space: Mutex<()>,
    /// Available pages that may be written only through the cache.
    pub(crate) unsettled: UnsettledPages,
    db_time: CachePadded<AtomicU64>,
    last_tree: AtomicU32,
    /// Used while logs of another engine are replayed: the newest generation whose changes may already be on pages
    /// before it is replayed.
    newest_applied: AtomicU32,
    double_write: Option<Arc<DoubleWrite>>,
    _lock: Box<dyn DirectoryLock>,
}

/// A database file that is open and locked, with its header. [`DatabaseFile::open`] creates a [`DatabaseFile`] from it.
pub(crate) struct OpenedFile {
    pub path: PathBuf,
    pub logged_path: String,
    pub file: Arc<dyn File>,
    pub lock: Box<dyn DirectoryLock>,
    pub header: DatabaseHeader,
    pub extension_pages: u32,
    pub double_write: Option<Arc<DoubleWrite>>,
}

impl DatabaseFile {
    /// Makes a locked file available to the engine. Afterwards, its pages can be read. The header on disk does not
    /// change.
    pub(crate) fn open(services: FileServices, opened: OpenedFile, log_id: u8) -> Arc<DatabaseFile> {
        let FileServices { vfs, cache, log, pins, numbers, events } = services;
        let OpenedFile { path, logged_path, file, lock, mut header, extension_pages, double_write } = opened;
        // After a crash, the log can have newer generations than the header names.
        if header.state == DatabaseState::DirtyShutdown {
            let (generation, created) = log.named_generation();
            name_generation(&mut header, generation, created, log.waypoint_latency());
        }
        let waypoint_latency = AtomicU32::new(log.waypoint_latency());
        let mark = Arc::new(HeaderGenerations::new(&header));
        let guarded = |double_write: &Arc<DoubleWrite>| DoubleWriteGuard {
            log: log.clone(),
            mark: mark.clone(),
            double_write: double_write.clone(),
        };
        let guard = WriteGuard {
            log: log.clone(),
            mark: mark.clone(),
            double_write: double_write.as_ref().map(guarded),
        };
        let file_id = cache.attach_reporting(file.clone(), Arc::new(guard), events.clone());
        Arc::new(DatabaseFile {
            cache,
            log,
            pins,
            numbers,
            vfs,
            events,
            disk_full: AtomicBool::new(false),
            file_id,
            log_id,
            path,
            logged_path,
            page_size: header.page_size,
            extension_pages: AtomicU32::new(extension_pages.max(MIN_EXTENSION)),
            file,
            db_time: CachePadded::new(AtomicU64::new(header.db_time.0)),
            last_tree: AtomicU32::new(header.last_tree.0),
            newest_applied: AtomicU32::new(u32::MAX),
            header: Mutex::new(header),
            header_write: Mutex::new(()),
            mark,
            waypoint_latency,
            space: Mutex::new(()),
            unsettled: UnsettledPages::default(),
            double_write,
            _lock: lock,
        })
    }

    /// Returns the number of pages by which the file grows.
    pub(crate) fn extension_pages(&self) -> u32 {
        self.extension_pages.load(Ordering::Relaxed)
    }

    /// Sets the number of pages by which the file grows.
    pub(crate) fn extend_by(&self, pages: u32) {
        self.extension_pages.store(pages.max(MIN_EXTENSION), Ordering::Relaxed);
    }

    /// Allocates the next database time.
    pub(crate) fn next_time(&self) -> DbTime {
        DbTime(self.db_time.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Records that database times up to this one are in use. Called by recovery.
    pub(crate) fn advance_time_to(&self, time: DbTime) {
        self.db_time.fetch_max(time.0, Ordering::AcqRel);
    }

    /// Returns the highest database time allocated so far.
    pub fn db_time(&self) -> DbTime {
        DbTime(self.db_time.load(Ordering::Acquire))
    }

    /// Allocates a new tree id.
    pub(crate) fn next_tree_id(&self) -> TreeId {
        TreeId(self.last_tree.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Records that ids up to this one are in use. Called by recovery.
    pub(crate) fn advance_tree_id_to(&self, id: TreeId) {
        self.last_tree.fetch_max(id.0, Ordering::AcqRel);
    }

    /// Returns the error for damage in a page.
    pub(crate) fn corrupt(&self, page: PageNumber, fault: impl Into<Corruption>) -> Error {
        Error::Corrupt { path: self.path.clone(), page: Some(page), fault: fault.into() }
    }

    pub(crate) fn page_key(&self, page: PageNumber) -> PageKey {
        PageKey { file: self.file_id, page }
    }

    /// Pins a page, reading it if it is not in the cache. The caller must not hold a latch.
    pub(crate) fn pin(&self, page: PageNumber) -> Result<PinnedPage> {
        self.cache.fetch(self.page_key(page))
    }

    /// Pins a page only if this needs no I/O.
    pub(crate) fn resident(&self, page: PageNumber) -> Option<PinnedPage> {
        self.cache.resident(self.page_key(page))
    }

    /// Pins a page that the caller will format. Its old content is not read.
    pub(crate) fn pin_new(&self, page: PageNumber) -> Result<PinnedPage> {
        self.cache.create(self.page_key(page))
    }

    /// Returns the length of the file in bytes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        self.file.len().map_err(|e| Error::io(&self.path, &e))
    }

    /// Returns the number of pages in the file.
    pub(crate) fn file_pages(&self) -> Result<u32> {
        Ok((self.bytes()? / self.page_size.bytes() as u64).saturating_sub(2).min(u64::from(u32::MAX)) as u32)
    }

    /// Extends the file to contain all pages up to `last`.
    pub(crate) fn grow_file(&self, last: PageNumber) -> Result<()> {
        if self.file_pages()? >= last.get() {
            return Ok(());
        }
        let len = self.page_size.offset_of(last) + self.page_size.bytes() as u64;
        let grown = self.file.grow(len).map_err(|e| Error::io(&self.path, &e));
        // From now on, every session that needs space will fail. Reporting one event is sufficient.
        let full = matches!(grown, Err(Error::DiskFull { .. }));
        if !self.disk_full.swap(full, Ordering::Relaxed) && full {
            self.events.report(EventKind::DatabaseDiskFull { file: self.path.clone() });
        }
        grown
    }

    /// Counts an extension of the file. The next write of the header makes the count durable.
    pub(crate) fn count_extension(&self) {
        let now = LogTime::from_unix_ms(self.vfs.clock().unix_ms());
        let mut header = self.header.lock();
        header.extend_count = header.extend_count.saturating_add(1);
        header.extend_time = now;
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
        // Pages and header depend on each other, so nothing in this database may change after a failure.
        write_header(&*self.file, &header).inspect_err(|error| self.cache.fail(error.cause()))?;
        self.mark.set(&header);
        Ok(())
    }

    /// Returns the header as it would be written at this moment.
    pub(crate) fn header(&self) -> DatabaseHeader {
        let mut header = self.header.lock().clone();
        header.db_time = header.db_time.max(self.db_time());
        header.last_tree = header.last_tree.max(TreeId(self.last_tree.load(Ordering::Acquire)));
        header
    }

    /// Records a backup in the header, unless the header already contains this backup or a later one.
    pub(crate) fn record_backup(&self, scope: u8, details: BackupInfo) -> Result<()> {
        let known = |header: &DatabaseHeader| match scope {
            backup_scope::FULL => header.full_backup.position >= details.position,
            backup_scope::INCREMENTAL => header.incremental_backup.position >= details.position,
            backup_scope::COPY => header.copy_backup.position >= details.position,
            backup_scope::DIFFERENTIAL => header.differential_backup.position >= details.position,
            _ => true,
        };
        if known(&self.header.lock()) {
            return Ok(());
        }
        self.update_header(|header| add_backup_to_header(header, scope, details))
    }

    /// Removes all backups from the header, because a database restored from them could not use the logs from here
    /// on. A later full backup is recorded as usual.
    ///
    /// The header keeps the position of this call, because no header records the backups of a stopped instance. Only
    /// the first such position since the attachment or the last backup is kept. It is later than all of these
    /// backups.
    pub(crate) fn forget_backups(&self) -> Result<()> {
        {
            let header = self.header.lock();
            let noted = header.full_backup;
            let later = [header.attach_position, header.copy_backup.position];
            if noted.gen_high == Generation(0) && later.iter().all(|position| *position <= noted.position) {
                return Ok(());
            }
        }
        // This position prevents redo from recording earlier backups again when it finds them in the log.
        let position = self.log.tail();
        self.update_header(|header| {
            add_backup_to_header(
                header,
                backup_scope::FULL,
                BackupInfo { position, ..BackupInfo::default() },
            );
        })
    }

    /// Records that the database no longer needs to be restored from the backup that it was copied from.
    pub(crate) fn mark_restored(&self) -> Result<()> {
        if self.header.lock().current_full_backup == BackupInfo::default() {
            return Ok(());
        }
        self.update_header(|header| header.current_full_backup = BackupInfo::default())
    }

    /// Returns the log position up to which all pages of `ShrinkDb` and `TrimDb` records have been returned to the
    /// file system. Returns [`LogPosition::MIN`] if the header does not contain the position.
    pub(crate) fn released_until(&self) -> LogPosition {
        let header = self.header.lock();
        // Until a database is attached again, this field contains the position of its shutdown, which may be in
        // another log.
        if header.resize_position == header.consistent_position {
            LogPosition::MIN
        } else {
            header.resize_position
        }
    }

    /// Returns true if holes were ever punched into the file.
    pub(crate) fn has_holes(&self) -> bool {
        self.header.lock().trim_count > 0
    }

    /// Returns the entry for the database in log headers and checkpoints.
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
        attachment.set_path(&self.logged_path);
        attachment
    }

    /// Returns the oldest log generation that is required according to the header.
    pub(crate) fn oldest_log(&self) -> Generation {
        self.header.lock().gen_min_required
    }

    /// Updates the header to name `generation` as committed and, as required, the generation that precedes it by the
    /// waypoint latency.
    ///
    /// Must be called before pages with changes from the newly required generation are written. From then on, the
    /// file is consistent only once that generation has been replayed.
    pub(crate) fn enter_generation(&self, generation: Generation, created: LogTime) -> Result<()> {
        let latency = self.waypoint_latency.load(Ordering::Acquire);
        if self.mark.names(generations_before(generation, latency), generation) {
            return Ok(());
        }
        self.update_header(|header| {
            if header.state == DatabaseState::DirtyShutdown {
                name_generation(header, generation, created, latency);
            }
        })
    }

    /// Sets the waypoint latency to zero while the database is being detached, so that all pages can be written. From
    /// then on, its header requires all generations.
    pub(crate) fn end_waypoint_latency(&self) -> Result<()> {
        if self.waypoint_latency.swap(0, Ordering::AcqRel) == 0 {
            return Ok(());
        }
        let (generation, created) = self.log.named_generation();
        self.enter_generation(generation, created)
    }

    /// Reverts [`DatabaseFile::end_waypoint_latency`] if the database stays attached.
    pub(crate) fn restore_waypoint_latency(&self) {
        self.waypoint_latency.store(self.log.waypoint_latency(), Ordering::Release);
    }

    /// Returns the waypoint: a page with changes after this position must not be written.
    pub(crate) fn waypoint(&self) -> LogPosition {
        self.mark.end()
    }

    /// Marks the database as clean. A clean database needs no log. All pages must be on disk, and the detach record
    /// at `position` must be durable.
    pub(crate) fn set_clean(&self, position: LogPosition, now: LogTime) -> Result<()> {
        self.update_header(|header| {
            header.state = DatabaseState::CleanShutdown;
            // A database restored from a backup is fully restored once it is clean.
            header.current_full_backup = BackupInfo::default();
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
            header.gen_max_required_time = LogTime::NONE;
        })
    }

    /// Records that no page contains changes from generations after this one yet.
    pub(crate) fn set_newest_applied(&self, generation: Generation) {
        self.newest_applied.store(generation.0, Ordering::Relaxed);
    }

    /// Returns the newest generation whose changes may already be on pages before it is replayed.
    pub(crate) fn newest_applied(&self) -> Generation {
        Generation(self.newest_applied.load(Ordering::Relaxed))
    }

    /// Raises the format version of the database. If the header already has a newer version, it stays unchanged.
    pub(crate) fn set_version(&self, update: u32, update_minor: u32) -> Result<()> {
        let newer = (update, update_minor);
        let is_older = |header: &DatabaseHeader| (header.update, header.update_minor) < newer;
        if !is_older(&self.header.lock()) {
            return Ok(());
        }
        self.update_header(|header| (header.update, header.update_minor) = newer)
    }

    /// Removes the side file. A clean database needs no page images. A failure is harmless, because the next
    /// attachment removes the images first.
    pub(crate) fn remove_side_file(&self) {
        if self.double_write.is_some() {
            let _ = self.vfs.remove(&double_write::path_of(&self.path));
        }
    }

    /// Raises the oldest required generation. All pages with changes before `checkpoint` must be durable.
    pub(crate) fn advance_checkpoint(&self, checkpoint: LogPosition) -> Result<()> {
        let (dirty, oldest) = {
            let header = self.header.lock();
            // The position can be at the start of a generation that is not in use yet.
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

/// Kinds of backup in headers and log records.
pub(crate) mod backup_scope {
    pub const FULL: u8 = 1;
    pub const INCREMENTAL: u8 = 2;
    pub const COPY: u8 = 5;
    pub const DIFFERENTIAL: u8 = 6;
}

/// Records a backup in a header. A full backup removes the backups that it supersedes.
pub(crate) fn add_backup_to_header(header: &mut DatabaseHeader, scope: u8, details: BackupInfo) {
    match scope {
        backup_scope::FULL => {
            header.full_backup = details;
            header.incremental_backup = BackupInfo::default();
            header.differential_backup = BackupInfo::default();
        }
        backup_scope::INCREMENTAL => header.incremental_backup = details,
        backup_scope::COPY => header.copy_backup = details,
        backup_scope::DIFFERENTIAL => header.differential_backup = details,
        _ => {}
    }
}

/// Returns the generation that is `latency` generations older.
fn generations_before(generation: Generation, latency: u32) -> Generation {
    Generation(generation.0.saturating_sub(latency))
}

/// Raises the header's upper marks: the committed mark to an existing generation, and the required mark to the
/// generation that is `latency` generations older.
fn name_generation(header: &mut DatabaseHeader, generation: Generation, created: LogTime, latency: u32) {
    if header.gen_max_committed < generation {
        header.gen_max_committed_time = created;
    }
    let required = generations_before(generation, latency);
    // Earlier formats do not store this time.
    if header.gen_max_required < required && header.gen_max_required_time != LogTime::NONE {
        header.gen_max_required_time = if latency == 0 { created } else { LogTime::NONE };
    }
    header.gen_max_required = header.gen_max_required.max(required);
    header.gen_max_committed = header.gen_max_committed.max(generation);
}

#[cfg(test)]
mod tests {
    use ese_format::Signature;

    use super::*;

    #[test]
    fn a_header_contains_the_newest_generation_and_time() {
        let time = |generation: u32| LogTime([generation as u8; 8]);
        for earlier_format in [false, true] {
            let required_time = |generation| if earlier_format { LogTime::NONE } else { time(generation) };
            let mut header =
                DatabaseHeader::for_new_database(PageSize::KIB_4, Signature::default(), Signature::default());
            (header.gen_max_required, header.gen_max_committed) = (Generation(3), Generation(5));
            (header.gen_max_required_time, header.gen_max_committed_time) = (required_time(3), time(5));
            for (named, required, committed) in [(2, 3, 5), (4, 4, 5), (4, 4, 5), (5, 5, 5), (7, 7, 7)] {
                name_generation(&mut header, Generation(named), time(named), 0);
                assert_eq!(
                    (header.gen_max_required, header.gen_max_required_time),
                    (Generation(required), required_time(required))
                );
                assert_eq!(
                    (header.gen_max_committed, header.gen_max_committed_time),
                    (Generation(committed), time(committed))
                );
            }
        }
    }
}
