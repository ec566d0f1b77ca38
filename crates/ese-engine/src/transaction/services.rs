//! The services that all databases and sessions of an instance share.

use jetcell_sync::atomic::{AtomicBool, AtomicUsize};
use jetcell_sync::{Arc, OnceLock};

use ese_format::LogPosition;
use ese_format::log::record::LogRecord;
use jetcell_vfs::Vfs;

use super::{EndedTransactions, TransactionTable, VersionStore};
use crate::cache::Cache;
use crate::events::EventReporter;
use crate::log::{LogStream, RecordBatch};
use crate::storage::{CheckpointPins, FileServices};
use crate::{Error, InstanceFailure, Result};

/// Services shared by the parts of one instance: cache, log, versions and transactions.
#[repr(align(128))]
pub struct Services {
    /// File system of the instance.
    pub vfs: Arc<dyn Vfs>,
    /// Reports the instance's events.
    pub(crate) events: EventReporter,
    /// Page cache, which may be shared with other instances.
    pub cache: Arc<Cache>,
    /// Positions that the checkpoint must not pass.
    pub(crate) pins: Arc<CheckpointPins>,
    /// Versions of changed nodes.
    pub versions: Arc<VersionStore>,
    /// Running transactions.
    pub transactions: TransactionTable,
    /// Ended transactions whose history has not been removed yet.
    pub ended: EndedTransactions,
    /// Whether a backup is running or the instance is frozen. While this is set, no database is attached or detached,
    /// and no bulk load begins.
    pub(crate) backup_running: AtomicBool,
    /// Number of running bulk loads. While it is not zero, no backup begins, because the backup would contain only
    /// some of the loaded pages.
    pub(crate) bulk_loads: AtomicUsize,
    log: OnceLock<Arc<LogStream>>,
    /// Why the instance refuses changes, if it does.
    failed: OnceLock<InstanceFailure>,
}

impl Services {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        cache: Arc<Cache>,
        version_store_bytes: usize,
        events: EventReporter,
    ) -> Services {
        Services {
            vfs,
            events,
            cache,
            pins: Arc::default(),
            versions: Arc::new(VersionStore::new(version_store_bytes)),
            transactions: TransactionTable::default(),
            ended: EndedTransactions::default(),
            backup_running: AtomicBool::new(false),
            bulk_loads: AtomicUsize::new(0),
            log: OnceLock::new(),
            failed: OnceLock::new(),
        }
    }

    /// Returns the log. It is opened before a database is attached.
    pub fn log(&self) -> &Arc<LogStream> {
        self.log.get().expect("the log is open before a database is attached")
    }

    pub(crate) fn open_log(&self, log: Arc<LogStream>) {
        assert!(self.log.set(log).is_ok(), "the log is opened once");
    }

    /// Returns the subset of the services that a database file needs.
    pub(crate) fn for_files(&self) -> FileServices {
        FileServices {
            numbers: self.transactions.numbers(),
            vfs: self.vfs.clone(),
            cache: self.cache.clone(),
            log: self.log().clone(),
            pins: self.pins.clone(),
            events: self.events.clone(),
        }
    }

    /// Appends the engine's own records. Uses the reserve logs if the disk is full. Returns the start and end of the
    /// records.
    pub(crate) fn append(&self, records: &[LogRecord]) -> Result<(LogPosition, LogPosition)> {
        let mut batch = RecordBatch::new();
        records.iter().for_each(|record| batch.push(record));
        let appended = self.log().append_privileged(&batch)?;
        Ok((appended.start, appended.end))
    }

    /// Returns [`Error::ReadOnly`] if a transaction could not be rolled back or the cache has failed. Call this
    /// before making changes.
    pub fn check_writable(&self) -> Result<()> {
        match self.failed.get() {
            Some(failure) => Err(Error::ReadOnly(failure.clone())),
            None => self.cache.check_writable(),
        }
    }

    /// Makes the instance refuse further changes, because only recovery can undo the rest of a transaction. Other
    /// instances with the same cache continue. If this is called more than once, only the first reason is recorded.
    pub(crate) fn fail(&self, failure: InstanceFailure) {
        let _ = self.failed.set(failure);
    }
}
