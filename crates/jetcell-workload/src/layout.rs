//! Files of a run.
//!
//! ```text
//! DIR/Jetstress001001.edb      database of instance 1; instances take the directories in turn
//! LOGDIR/log001/E00*.log       its log stream and checkpoint
//! OUTPUT/result.json, samples.csv, report.html
//! ```

use std::path::{Path, PathBuf};

use jetcell_vfs::FileStem;
use serde::{Deserialize, Serialize};

use crate::engine_settings::EventNumbers;
use crate::memory_budget::MemoryBudget;

/// Default directory for databases. A run creates no other directory for databases.
pub const DEFAULT_DIRECTORY: &str = "jetcell-run";

/// Base name of every log stream. Each stream has its own directory.
pub const LOG_BASE_NAME: FileStem = FileStem::E00;

/// Plan for one instance: a database and its log stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancePlan {
    /// Number of the instance, starting at 1, as in the file names.
    pub number: usize,
    /// Path of the database file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub database: PathBuf,
    /// Directory of the logs and the checkpoint.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub log_dir: PathBuf,
    /// Target size of a new database, or the current size of an existing database, in bytes.
    pub initial_bytes: u64,
}

impl InstancePlan {
    /// Returns the path of the copy that preserves the database's state before the load of a recovery test.
    pub(crate) fn state_before_load(&self) -> PathBuf {
        self.database.with_extension("edb.before")
    }
}

/// Plan for a passive copy of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPlan {
    /// Index of the source database in [`RunPlan::instances`].
    pub database: usize,
    /// Directory of the copy.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub directory: PathBuf,
    /// Whether the replaying engine stays open between batches of logs.
    pub keep_instance: bool,
    /// Whether the copy also receives the durable part of the current log as it is written.
    #[serde(default)]
    pub stream_log: bool,
    /// Cache size in bytes.
    pub cache_bytes: u64,
    /// Maximum amount of log, in bytes, that redo may have to replay.
    pub checkpoint_depth: u64,
}

/// How a run with `--reset` treats the databases before the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetAction {
    /// Restore the databases to their preserved state.
    PutBack,
    /// Preserve the current state of the databases.
    Keep,
}

/// Plan for a run: all decisions made before anything on disk is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Databases and log streams.
    pub instances: Vec<InstancePlan>,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// Maximum cache size in bytes, shared by all instances.
    pub cache_bytes: u64,
    /// Number of load threads.
    #[serde(default)]
    pub threads: usize,
    /// Number of tables in each database.
    pub tables: u32,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: bool,
    /// Number of most recent logs that can be lost without making a database inconsistent.
    #[serde(default)]
    pub waypoint_latency: u32,
    /// Whether unused bytes of pages are overwritten during database creation.
    #[serde(default)]
    pub zero_at_creation: bool,
    /// Numbering scheme for maintenance events.
    #[serde(default)]
    pub event_profile: EventNumbers,
    /// Whether page images are first written to a side file to protect against torn writes. ESE does not do this, so
    /// neither does a run.
    pub page_protection: bool,
    /// Whether the databases are restored or their state is preserved. `None` without `--reset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetAction>,
    /// Passive copies for a replication test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyPlan>,
    /// Directory for the results.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub output: PathBuf,
    /// Directories to create.
    #[serde(serialize_with = "jetcell_input::serialize_paths")]
    pub create: Vec<PathBuf>,
    /// Files to remove before the run.
    #[serde(serialize_with = "jetcell_input::serialize_paths")]
    pub remove: Vec<PathBuf>,
}

impl RunPlan {
    /// Returns the index of each database among the databases on its disk and the number of databases on that disk.
    /// Databases in the same directory are on the same disk.
    pub fn databases_of_disks(&self) -> Vec<(u32, u32)> {
        let directory = |instance: &InstancePlan| instance.database.parent().map(Path::to_path_buf);
        let same = |one: &InstancePlan, all: &[InstancePlan]| {
            all.iter().filter(|other| directory(other) == directory(one)).count() as u32
        };
        let places = self.instances.iter().enumerate();
        places.map(|(index, one)| (same(one, &self.instances[..index]), same(one, &self.instances))).collect()
    }

    /// Returns the memory budget of the run.
    pub(crate) fn memory(&self) -> MemoryBudget {
        MemoryBudget { cache: self.cache_bytes, databases: self.instances.len(), threads: self.threads }
    }

    /// Returns the total initial size of the databases.
    pub fn initial_bytes(&self) -> u64 {
        self.instances.iter().map(|instance| instance.initial_bytes).sum()
    }
}
