//! Backup options and results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{LogNameFormat, PageReadCounters, RecoverySet};
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs};

use crate::backup_type::BackupType;
use crate::error::Result;
use crate::manifest::BackupManifest;
use crate::transfer_control::TransferControl;

/// Callback that receives the path of a database and the counts of the pages that this call has read from it so far.
/// It runs on the thread that reads the database.
pub type PageReadsFn = dyn Fn(&Path, &PageReadCounters) + Send + Sync;

/// Options for a backup.
#[derive(Clone)]
pub struct BackupOptions {
    /// Kind of backup.
    pub kind: BackupType,
    /// The backup that an incremental or differential backup continues. The databases of a running instance identify
    /// its previous backup, so for a running instance this path is only checked.
    pub parent: Option<PathBuf>,
    /// Size of one read in bytes.
    pub read_bytes: usize,
    /// Number of reads in flight per database.
    pub reads_in_flight: usize,
    /// Whether databases are read in parallel threads.
    pub threads: bool,
    /// Number of bytes of a database to copy before its progress is saved. An interrupted backup can then continue
    /// from there. Progress is saved only at the end of a 4 MiB range.
    pub save_bytes: u64,
    /// Maximum time between saves of the progress, if fewer than `save_bytes` bytes are copied in that time.
    pub save_interval: Duration,
    /// Whether to remove logs that recovery no longer needs after a full or incremental backup of a cleanly stopped
    /// instance. A backup of a running instance always removes them.
    pub remove_logs: bool,
    /// Whether the source is a passive copy, which has no current log. Its last closed log must contain all records
    /// that its databases need.
    pub source_is_copy: bool,
    /// Base name of the logs and the form of their names. If `None`, both are derived from the log file names. A
    /// backup of a new passive copy needs this option, because the copy's only log does not have the name of a log.
    pub log_names: Option<(FileStem, LogNameFormat)>,
    /// Callback that receives each database's read counts after every read. It also reports bad pages that make the
    /// backup fail.
    pub on_read: Option<Arc<PageReadsFn>>,
    /// Rate limit, progress callback and cancellation.
    pub pace: TransferControl,
}

impl Default for BackupOptions {
    /// Returns the options of a full backup without a rate limit.
    fn default() -> BackupOptions {
        BackupOptions {
            kind: BackupType::Full,
            parent: None,
            read_bytes: 256 << 10,
            reads_in_flight: 8,
            threads: true,
            save_bytes: 256 << 20,
            save_interval: Duration::from_secs(2),
            remove_logs: false,
            source_is_copy: false,
            log_names: None,
            on_read: None,
            pace: TransferControl::default(),
        }
    }
}

impl BackupOptions {
    /// Finds the logs and databases among `files`, and the names of the logs in the backup. Fails if a database would
    /// be missing from the backup.
    pub(crate) fn find_set(&self, vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        let mut set = RecoverySet::find(vfs, files)?;
        set.require_complete()?;
        if let Some((base, form)) = self.log_names {
            (set.base_name, set.log_names) = (base, form);
        }
        Ok(set)
    }
}

/// Result of a backup.
#[derive(Clone, Debug)]
pub struct BackupResult {
    /// Manifest of the backup.
    pub manifest: BackupManifest,
    /// First and last logs that were removed from the source.
    pub removed_logs: Option<(Generation, Generation)>,
    /// Number of bytes that this call copied.
    pub copied_bytes: u64,
    /// Number of bytes that an earlier, interrupted call had copied.
    pub continued_bytes: u64,
    /// True if the directory already contained this backup and the source has not changed since. In this case nothing
    /// was copied.
    pub already_complete: bool,
}
