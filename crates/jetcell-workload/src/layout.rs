//! The files of a run.
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

/// Directory for databases if none is given. A run creates no other directory for databases.
pub const DEFAULT_DIRECTORY: &str = "jetcell-run";

/// Base name of every log stream. Each stream has a directory of its own.
pub const LOG_BASE_NAME: FileStem = FileStem::E00;

/// One database with its log stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancePlan {
    /// From 1, as in the file names.
    pub number: usize,
    /// The database file.
    pub database: PathBuf,
    /// Directory of logs and checkpoint.
    pub log_dir: PathBuf,
    /// Size to fill the database to, or its size if it exists.
    pub initial_bytes: u64,
}

impl InstancePlan {
    /// Copy of the database as it was before the load of a recovery test.
    pub(crate) fn state_before_load(&self) -> PathBuf {
        self.database.with_extension("edb.before")
    }
}

/// One passive copy of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPlan {
    /// The database that it is a copy of: its place in [`Plan::instances`].
    pub database: usize,
    /// Directory of the copy.
    pub directory: PathBuf,
    /// Whether the replaying engine is kept between two batches of logs.
    pub keep_instance: bool,
    /// Whether it also gets what is durable of the log that is being written.
    #[serde(default)]
    pub stream_log: bool,
    /// Cache in bytes.
    pub cache_bytes: u64,
    /// How much log redo may lack, in bytes.
    pub checkpoint_depth: u64,
}

/// What a run with `--reset` does before the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// It puts databases back to the state that was kept.
    PutBack,
    /// It keeps their state.
    Keep,
}

/// Everything that is decided before the first change on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Databases and log streams.
    pub instances: Vec<InstancePlan>,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// Cache limit in bytes, shared by all instances.
    pub cache_bytes: u64,
    /// Threads of the load.
    #[serde(default)]
    pub threads: usize,
    /// Tables in each database.
    pub tables: u32,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: bool,
    /// How many of the newest logs may be lost without making a database inconsistent.
    #[serde(default)]
    pub waypoint_latency: u32,
    /// Whether the unused bytes of pages are overwritten while databases are created.
    #[serde(default)]
    pub zero_at_creation: bool,
    /// Whose numbers the events of maintenance have.
    #[serde(default)]
    pub event_profile: EventNumbers,
    /// Whether page images are written to a side file first, against torn writes. ESE does not do so; neither does a run.
    pub page_protection: bool,
    /// Whether the databases are put back, or their state is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<Reset>,
    /// Passive copies that follow the databases, of a replication test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyPlan>,
    /// Directory of the results.
    pub output: PathBuf,
    /// Directories to create.
    pub create: Vec<PathBuf>,
    /// Files to remove first.
    pub remove: Vec<PathBuf>,
}

impl Plan {
    /// The place of each database among those of its disk, and the number of these. Databases in one directory are on one
    /// disk.
    pub fn databases_of_disks(&self) -> Vec<(u32, u32)> {
        let directory = |instance: &InstancePlan| instance.database.parent().map(Path::to_path_buf);
        let same = |one: &InstancePlan, all: &[InstancePlan]| {
            all.iter().filter(|other| directory(other) == directory(one)).count() as u32
        };
        let places = self.instances.iter().enumerate();
        places.map(|(index, one)| (same(one, &self.instances[..index]), same(one, &self.instances))).collect()
    }

    /// How the memory of the run is shared out.
    pub(crate) fn memory(&self) -> MemoryBudget {
        MemoryBudget { cache: self.cache_bytes, databases: self.instances.len(), threads: self.threads }
    }

    /// Sum of the initial sizes of the databases.
    pub fn initial_bytes(&self) -> u64 {
        self.instances.iter().map(|instance| instance.initial_bytes).sum()
    }
}
