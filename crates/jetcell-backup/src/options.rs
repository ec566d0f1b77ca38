//! Options and results of a backup.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{LogNameForm, PageReads, RecoverySet};
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs};

use crate::error::Result;
use crate::manifest::{Kind, Manifest};
use crate::pace::Pace;

/// Callback that receives the path of a database and the pages read so far by this call. It runs on the thread that
/// reads the database.
pub type ReadFn = dyn Fn(&Path, &PageReads) + Send + Sync;

/// Options of a backup.
#[derive(Clone)]
pub struct BackupOptions {
    /// Kind of the backup.
    pub kind: Kind,
    /// The backup that an incremental or differential backup continues. A running instance stores its previous backup
    /// in its databases; in this case the path is only checked.
    pub parent: Option<PathBuf>,
    /// Size of one read in bytes.
    pub read_bytes: usize,
    /// Number of reads in flight per database.
    pub reads_in_flight: usize,
    /// Whether databases are read in parallel threads.
    pub threads: bool,
    /// Number of bytes of a database that are copied before the progress is stored, for a continued backup. The
    /// progress is stored only at the end of 4 MiB ranges.
    pub save_bytes: u64,
    /// Maximum time between two stores of the progress, if fewer bytes than `save_bytes` are copied in that time.
    pub save_interval: Duration,
    /// Whether to remove logs that recovery does not need after a full or incremental backup of a cleanly stopped
    /// instance. A running instance always removes them.
    pub remove_logs: bool,
    /// Whether the source is a passive copy, which has no current log. Its last log must contain all records that its
    /// databases need.
    pub of_copy: bool,
    /// Base name of the logs, and the format of their names. If `None`, both are derived from the names of the log
    /// files. The only log of a new copy has a different name, so a backup of such a copy needs this option.
    pub log_names: Option<(FileStem, LogNameForm)>,
    /// Callback that receives the read counts of each database after each read. It reports bad pages even if the
    /// backup fails because of them.
    pub read: Option<Arc<ReadFn>>,
    /// Rate limit, progress callback and cancellation.
    pub pace: Pace,
}

impl Default for BackupOptions {
    /// Returns the options of a full backup without a rate limit.
    fn default() -> BackupOptions {
        BackupOptions {
            kind: Kind::Full,
            parent: None,
            read_bytes: 256 << 10,
            reads_in_flight: 8,
            threads: true,
            save_bytes: 256 << 20,
            save_interval: Duration::from_secs(2),
            remove_logs: false,
            of_copy: false,
            log_names: None,
            read: None,
            pace: Pace::default(),
        }
    }
}

impl BackupOptions {
    /// Finds the logs and databases among `files`, with the names that the logs get in the backup.
    pub(crate) fn find(&self, vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        let mut set = RecoverySet::find(vfs, files)?;
        if let Some((base, form)) = self.log_names {
            (set.base_name, set.log_names) = (base, form);
        }
        Ok(set)
    }
}

/// Result of a backup.
#[derive(Clone, Debug)]
pub struct Made {
    /// Manifest of the backup.
    pub manifest: Manifest,
    /// First and last log that were removed from the source.
    pub removed_logs: Option<(Generation, Generation)>,
    /// Number of bytes that this call copied.
    pub copied_bytes: u64,
    /// Number of bytes that an interrupted earlier call had copied.
    pub continued_bytes: u64,
    /// True if the directory already contained this backup and the source has not changed since. In this case nothing
    /// was copied.
    pub already: bool,
}
