//! What all databases and sessions of an instance share.

use jetcell_sync::{Arc, OnceLock};

use ese_format::LogPosition;
use ese_format::log::record::LogRecord;
use jetcell_vfs::Vfs;

use super::{EndedTransactions, TransactionTable, VersionStore};
use crate::cache::Cache;
use crate::log::{LogStream, RecordBatch};
use crate::storage::{CheckpointPins, FileServices};
use crate::{Error, Result};

/// Cache, log, versions and transactions of one instance.
#[repr(align(128))]
pub struct Services {
    /// Where the files are.
    pub vfs: Arc<dyn Vfs>,
    /// Page cache; may be shared with other instances.
    pub cache: Arc<Cache>,
    /// Positions that the checkpoint must not pass.
    pub(crate) pins: Arc<CheckpointPins>,
    /// Versions of changed nodes.
    pub versions: Arc<VersionStore>,
    /// Running transactions.
    pub transactions: TransactionTable,
    /// Ended transactions whose history is to be removed.
    pub ended: EndedTransactions,
    log: OnceLock<Arc<LogStream>>,
    /// Why nothing may be changed any more.
    failed: OnceLock<String>,
}

impl Services {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, cache: Arc<Cache>, version_store_bytes: usize) -> Services {
        Services {
            vfs,
            cache,
            pins: Arc::default(),
            versions: Arc::new(VersionStore::new(version_store_bytes)),
            transactions: TransactionTable::default(),
            ended: EndedTransactions::default(),
            log: OnceLock::new(),
            failed: OnceLock::new(),
        }
    }

    /// The log. It is open before a database is attached.
    pub fn log(&self) -> &Arc<LogStream> {
        self.log.get().expect("the log is open before a database is attached")
    }

    pub(crate) fn open_log(&self, log: Arc<LogStream>) {
        assert!(self.log.set(log).is_ok(), "the log is opened once");
    }

    /// What a database file needs of this.
    pub(crate) fn for_files(&self) -> FileServices {
        FileServices {
            vfs: self.vfs.clone(),
            cache: self.cache.clone(),
            log: self.log().clone(),
            pins: self.pins.clone(),
        }
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
    /// go on. The first reason stays.
    pub(crate) fn fail(&self, what: String) {
        let _ = self.failed.set(what);
    }
}
