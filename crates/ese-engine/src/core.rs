//! What all databases and sessions of an instance share: cache, log, versions, transactions.

use std::collections::BTreeMap;

use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogPosition, LogTime};
use jetcell_sync::{Arc, Mutex, OnceLock, RwLock};
use jetcell_vfs::Vfs;

use crate::cache::{Cache, FileId};
use crate::database::Database;
use crate::log::{LogStream, RecordBatch};
use crate::versions::{TransactionTable, VersionStore};
use crate::{Error, Result};

use crate::cleanup::CleanupQueue;

/// Shared state of one instance. ESE: `INST`.
#[doc(alias = "INST")]
#[repr(align(128))]
pub struct Core {
    /// The world of files.
    pub vfs: Arc<dyn Vfs>,
    /// Page cache; may be shared with other instances.
    pub cache: Arc<Cache>,
    /// Versions of changed nodes.
    pub versions: VersionStore,
    /// Running transactions.
    pub transactions: TransactionTable,
    /// Committed work whose history is to be removed.
    pub cleanup: CleanupQueue,
    log: OnceLock<Arc<LogStream>>,
    databases: RwLock<BTreeMap<FileId, Arc<Database>>>,
    /// Serialises checkpoints.
    pub(crate) checkpoint: Mutex<LogPosition>,
    /// Why nothing may be changed any more.
    failed: OnceLock<String>,
}

impl Core {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, cache: Arc<Cache>, version_store_bytes: usize) -> Arc<Core> {
        Arc::new(Core {
            vfs,
            cache,
            versions: VersionStore::new(version_store_bytes),
            transactions: TransactionTable::default(),
            cleanup: CleanupQueue::default(),
            log: OnceLock::new(),
            databases: RwLock::default(),
            checkpoint: Mutex::new(LogPosition::MIN),
            failed: OnceLock::new(),
        })
    }

    /// The log. Only redo runs before it is opened, and redo writes no records.
    pub fn log(&self) -> &Arc<LogStream> {
        self.log.get().expect("the log is open before any session exists")
    }

    /// Appends records of the engine itself, by the reserve logs of a full disk if need be; where they start and end.
    pub(crate) fn append(&self, records: &[LogRecord]) -> Result<(LogPosition, LogPosition)> {
        let mut batch = RecordBatch::new();
        records.iter().for_each(|record| batch.push(record));
        let appended = self.log().append_privileged(&batch)?;
        Ok((appended.start, appended.end))
    }

    /// [`Error::ReadOnly`] once a transaction could not be rolled back, or the cache failed. Callers ask before changes.
    pub fn check_writable(&self) -> Result<()> {
        match self.failed.get() {
            Some(what) => Err(Error::ReadOnly(what.clone())),
            None => self.cache.check_writable(),
        }
    }

    /// Refuses further changes: something is left that only recovery can take back. Other instances with the same cache
    /// have nothing to do with it. The first reason stays.
    pub(crate) fn fail(&self, what: String) {
        let _ = self.failed.set(what);
    }

    pub(crate) fn open_log(&self, log: Arc<LogStream>) {
        assert!(self.log.set(log).is_ok(), "the log is opened once");
    }

    /// Attached databases, by file id.
    pub fn databases(&self) -> Vec<Arc<Database>> {
        self.databases.read().values().cloned().collect()
    }

    /// One attached database.
    pub fn database(&self, file: FileId) -> Option<Arc<Database>> {
        self.databases.read().get(&file).cloned()
    }

    /// The database that log records call `id`.
    pub(crate) fn database_in_log(&self, id: u8) -> Option<Arc<Database>> {
        self.databases.read().values().find(|database| database.log_id == id).cloned()
    }

    pub(crate) fn add_database(&self, database: Arc<Database>) {
        self.databases.write().insert(database.file_id, database);
    }

    pub(crate) fn remove_database(&self, file: FileId) {
        self.databases.write().remove(&file);
    }
}

impl Core {
    /// Everything before this position survives a crash.
    pub fn durable(&self) -> LogPosition {
        // Redo applies only what was read from the log, so everything it does is durable there already.
        self.log.get().map_or(LogPosition::MAX, |log| log.durable())
    }

    /// Returns once the commit that ends at `upto` is durable.
    pub(crate) fn commit(&self, upto: LogPosition) -> Result<()> {
        self.log.get().map_or(Ok(()), |log| log.commit(upto))
    }

    pub(crate) fn flush(&self, upto: LogPosition) -> Result<()> {
        self.log.get().map_or(Ok(()), |log| log.flush(upto))
    }

    /// The newest generation that database headers may name, and when it was created.
    pub(crate) fn log_named(&self) -> Option<(Generation, LogTime)> {
        self.log.get().map(|log| log.named_generation())
    }

    /// Makes database headers name what the log durably holds.
    pub(crate) fn name_generation(&self) -> Result<()> {
        self.log.get().map_or(Ok(()), |log| log.name_generation())
    }

    pub(crate) fn request_name_generation(&self) {
        if let Some(log) = self.log.get() {
            log.request_name_generation();
        }
    }

    pub(crate) fn request(&self, upto: LogPosition) {
        if let Some(log) = self.log.get() {
            log.request_flush(upto);
        }
    }
}
