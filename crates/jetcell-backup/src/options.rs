//! Settings of a backup, and what it made.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{LogNameForm, PageReads, RecoverySet};
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs};

use crate::error::Result;
use crate::manifest::{Kind, Manifest};
use crate::pace::Pace;

/// Receives the path of a database and what was read of it so far by this call, from the thread that reads it.
pub type ReadFn = dyn Fn(&Path, &PageReads) + Send + Sync;

/// Settings of a backup.
#[derive(Clone)]
pub struct BackupOptions {
    /// What the backup contains.
    pub kind: Kind,
    /// The backup that an incremental or differential one continues. A running instance knows it from its databases; then
    /// this only makes sure that it is the right one.
    pub parent: Option<PathBuf>,
    /// Bytes of one read.
    pub read_bytes: usize,
    /// Reads of one database that are under way at the same time.
    pub reads_in_flight: usize,
    /// Whether databases are read in parallel.
    pub threads: bool,
    /// How many bytes of a database are copied before the progress is stored, for a backup that is continued. At least
    /// whole ranges of 4 MiB.
    pub save_bytes: u64,
    /// How long a database is copied before the progress is stored, if this comes first.
    pub save_interval: Duration,
    /// After a full or incremental backup of an instance that was shut down cleanly: remove the logs from its directory
    /// that recovery does not need. A running instance does that in any case.
    pub remove_logs: bool,
    /// The source is a passive copy, which has no current log. Its last log must have everything that its databases need.
    pub of_copy: bool,
    /// The base name of the logs, and the form of their names. `None`: the names of the files tell. The only log of a new copy has
    /// another name.
    pub log_names: Option<(FileStem, LogNameForm)>,
    /// Receives what was read of each database, after each read. It gets bad pages also if there is no backup because of
    /// them.
    pub read: Option<Arc<ReadFn>>,
    /// Rate, progress and cancellation.
    pub pace: Pace,
}

impl Default for BackupOptions {
    /// A full backup, as fast as the disk reads.
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
    /// The logs and databases among files, with the names that the logs get in the backup.
    pub(crate) fn find(&self, vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        let mut set = RecoverySet::find(vfs, files)?;
        if let Some((base, form)) = self.log_names {
            (set.base_name, set.log_names) = (base, form);
        }
        Ok(set)
    }
}

/// A backup that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its manifest.
    pub manifest: Manifest,
    /// First and last log that were removed from the source.
    pub removed_logs: Option<(Generation, Generation)>,
    /// Bytes that this call copied.
    pub copied_bytes: u64,
    /// Bytes that an earlier, interrupted call had copied.
    pub continued_bytes: u64,
    /// The directory had this backup already, and the source is unchanged since. Nothing was copied.
    pub already: bool,
}
