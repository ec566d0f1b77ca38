//! The databases attached to an instance, and the services that they share.

use jetcell_sync::Arc;
use std::collections::BTreeMap;
use std::ops::Deref;

use ese_format::attachment::Attachment;
use ese_format::log::record::{DatabaseIdInLog, DetachDb, LogRecord, encode_path};
use ese_format::{LogPosition, LogTime};
use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Mutex, RwLock};
use jetcell_vfs::{FreezableVfs, Vfs};

use crate::cache::{AttachedFileId, Cache};
use crate::database::Database;
use crate::error::BackupErrorKind;
use crate::events::{EventKind, EventReporter};
use crate::storage::{DatabaseFile, OpenedFile};
use crate::transaction::Services;
use crate::{Result, UsageError};

/// State of one instance: its [`Services`], to which it dereferences, and its databases. ESE: `INST`.
#[doc(alias = "INST")]
pub struct Core {
    services: Arc<Services>,
    databases: RwLock<BTreeMap<AttachedFileId, Arc<Database>>>,
    /// Position of the last checkpoint. The lock is held while a checkpoint is being made.
    pub(crate) checkpoint: Mutex<LogPosition>,
    /// The file system that the services use, with the ability to freeze it.
    pub(crate) freezable: Arc<FreezableVfs>,
}

impl Deref for Core {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}

impl Core {
    /// Creates the state of an instance whose files are in `vfs`.
    ///
    /// From now on, the instance must access its files only through [`Services::vfs`], because that file system can
    /// be frozen.
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        cache: Arc<Cache>,
        version_store_bytes: usize,
        events: EventReporter,
    ) -> Arc<Core> {
        let freezable = Arc::new(FreezableVfs::new(vfs));
        Arc::new(Core {
            services: Arc::new(Services::new(freezable.clone(), cache, version_store_bytes, events)),
            databases: RwLock::default(),
            checkpoint: Mutex::new(LogPosition::MIN),
            freezable,
        })
    }

    /// Returns an error if a backup is running. During a backup, no attach, detach or creation of a database may be
    /// logged.
    pub(crate) fn check_no_backup(&self) -> Result<()> {
        if self.backup_running.load(Ordering::Acquire) {
            Err(BackupErrorKind::Running.into())
        } else {
            Ok(())
        }
    }

    /// Sets [`Services::backup_running`], unless a backup or a bulk load is running.
    pub(crate) fn begin_backup(&self) -> Result<()> {
        if self.backup_running.swap(true, Ordering::SeqCst) {
            return Err(BackupErrorKind::Running.into());
        }
        // A bulk load increments its counter before it checks for a backup, so at least one of the two sees the
        // other.
        if self.bulk_loads.load(Ordering::SeqCst) > 0 {
            self.backup_running.store(false, Ordering::SeqCst);
            return Err(BackupErrorKind::BulkLoadRunning.into());
        }
        Ok(())
    }

    /// Returns the services that the databases and sessions of the instance share.
    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Returns the attached databases, ordered by file id.
    pub fn databases(&self) -> Vec<Arc<Database>> {
        self.databases.read().values().cloned().collect()
    }

    /// Returns the attached database with this file id.
    pub fn database(&self, file: AttachedFileId) -> Option<Arc<Database>> {
        self.databases.read().get(&file).cloned()
    }

    /// Returns the file of the attached database with this file id.
    pub(crate) fn file(&self, file: AttachedFileId) -> Option<Arc<DatabaseFile>> {
        self.databases.read().get(&file).map(|database| database.file.clone())
    }

    /// Returns the database that has the id `id` in log records.
    pub(crate) fn database_in_log(&self, id: u8) -> Option<Arc<Database>> {
        self.databases.read().values().find(|database| database.file.log_id == id).cloned()
    }

    /// Returns the file of the database that has the id `id` in log records.
    pub(crate) fn file_in_log(&self, id: u8) -> Option<Arc<DatabaseFile>> {
        self.database_in_log(id).map(|database| database.file.clone())
    }

    /// Returns the attached databases in the form that log headers and checkpoints use.
    pub(crate) fn attachments(&self) -> Vec<Attachment> {
        self.databases().iter().map(|database| database.file.attachment()).collect()
    }

    /// Adds a file that is open and locked. Its pages may be read from now on. The header on disk does not change.
    pub(crate) fn attach(&self, opened: OpenedFile, log_id: u8) -> Arc<Database> {
        let file = DatabaseFile::open(self.services.for_files(), opened, log_id);
        let database = Arc::new(Database::new(file, &self.services));
        self.databases.write().insert(database.file.file_id, database.clone());
        database
    }

    /// Flushes a database and leaves it clean. ESE: detach.
    pub(crate) fn detach(&self, database: &Database, now: LogTime) -> Result<()> {
        let file = &database.file;
        // After a detach, another database may have the same file id and log id.
        if self.database(file.file_id).is_none_or(|attached| !std::ptr::eq(&*attached, database)) {
            return Err(UsageError::NotAttached(file.path.clone()).into());
        }
        database.stop_maintenance();
        let _steady = self.checkpoint.lock();
        self.log().flush(self.log().tail())?;
        file.end_waypoint_latency()?;
        self.cache.flush_file(file.file_id)?;
        let record = LogRecord::DetachDb(DetachDb {
            procid: 0,
            database: DatabaseIdInLog(file.log_id),
            flags: DetachDb::UNICODE,
            path: encode_path(&file.logged_path),
        });
        let (start, end) = self.append(&[record])?;
        self.log().flush(end)?;
        self.close_clean(file, start, now)?;
        self.events.report(EventKind::DatabaseDetached { database: file.path.clone() });
        Ok(())
    }

    /// Closes a file and marks it clean. All its pages are on disk, and the detach record at `position` is durable.
    pub(crate) fn close_clean(&self, file: &DatabaseFile, position: LogPosition, now: LogTime) -> Result<()> {
        file.set_clean(position, now)?;
        self.cache.detach(file.file_id)?;
        self.databases.write().remove(&file.file_id);
        file.remove_side_file();
        Ok(())
    }

    /// Removes all databases from the instance without flushing them. They stay dirty.
    pub(crate) fn abandon(&self) {
        self.ended.clear();
        for database in self.databases() {
            let _ = self.cache.discard(database.file.file_id);
            self.databases.write().remove(&database.file.file_id);
        }
    }
}
