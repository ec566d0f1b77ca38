//! The profile of a run: everything that decides what the run does. The same profile and seed give the same load.
//!
//! A profile is made in two steps, so that an option that was not given differs from one that was given with the default
//! value. [`Options`] come from the command line and from a configuration file. [`Options::resolve`] fills in the
//! defaults and validates. The defaults are those of Jetstress 2013 unless a comment gives a reason.

mod command_line;
mod configuration;
mod copy_mode;
mod jetstress;
mod mailboxes;
mod maintenance;
mod mistake;
mod option_value;
mod options;
mod recovery_mode;
mod reset_method;
mod resolve;
mod skew;
mod test_kind;
mod toml;
mod validate;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

pub use self::toml::EXAMPLE;
pub use crate::engine_settings::{EventNumbers, Window};
pub use configuration::Configuration;
pub use copy_mode::CopyMode;
pub use mailboxes::Mailboxes;
pub use maintenance::{Maintenance, MaintenanceSettings, TaskWindows};
pub use mistake::Mistake;
pub use option_value::OptionKind;
pub use options::{OptionInfo, Options, RecordOptions, ThresholdOptions};
pub use recovery_mode::RecoveryMode;
pub use reset_method::ResetMethod;
pub use skew::Skew;
pub use test_kind::TestKind;

/// A complete, valid description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The kind of test.
    #[serde(default)]
    pub test: TestKind,
    /// Directories for databases, used in turn.
    pub dirs: Vec<PathBuf>,
    /// Directories for logs, used in turn; never empty.
    pub log_dirs: Vec<PathBuf>,
    /// Number of databases; `None` with [`Source::Open`] means all that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub databases: Option<usize>,
    /// Size of each database after creation.
    pub size: DatabaseSize,
    /// The mailboxes from which size and target were computed, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailboxes: Option<Mailboxes>,
    /// Free space for growth beside the databases, in percent of their size. Jetstress: `DatabaseSpaceReserved`.
    pub growth_percent: u32,
    /// Load threads, shared by all databases.
    pub threads: usize,
    /// Measurement time.
    pub duration: TimeSpan,
    /// Number of measurements in a row on the same open databases.
    #[serde(default = "once")]
    pub repeat: u32,
    /// Whether the measurement ends as soon as the load is steady; then `duration` is the longest time.
    #[serde(default)]
    pub stop_when_steady: bool,
    /// Cache shared by all databases; `None` leaves it to [`default_cache`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<ByteSize>,
    /// Page size; `None` takes that of existing databases, or 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<ByteSize>,
    /// Shares of the operations.
    pub mix: Mix,
    /// Share of commits that do not wait for the log, in percent.
    pub lazy_percent: u8,
    /// Updates in a batch.
    pub batch_updates: u32,
    /// Shape of the records.
    pub records: Records,
    /// Limits of the verdict.
    pub thresholds: Thresholds,
    /// I/O operations per second that must be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_iops: Option<f64>,
    /// Whether doubts about the measurement fail the run.
    #[serde(default)]
    pub strict: bool,
    /// Tolerated shortfall from the target, as a fraction.
    pub margin: f64,
    /// Operations per second of an open loop; `None` is the closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Whether to search for the highest sustained rate; then `duration` is the time of each step.
    #[serde(default)]
    pub find_max: bool,
    /// Distribution of accesses over the records.
    #[serde(default)]
    pub skew: Skew,
    /// Whether a checksum scan of each database runs beside the load. Jetstress: `RunDatabaseMaintenancePerformance`.
    #[serde(default)]
    pub scan: bool,
    /// Whether the scan also overwrites what deleted data leave behind.
    #[serde(default)]
    pub zero: bool,
    /// Whether sparse pages are merged beside the load.
    #[serde(default)]
    pub defrag: bool,
    /// Whether scattered pages are moved into the order of their keys beside the load.
    #[serde(default)]
    pub layout: bool,
    /// Whether the cost of each task is measured.
    #[serde(default)]
    pub maintenance_impact: bool,
    /// When maintenance may run; `None`: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_window: Option<Window>,
    /// Whose numbers the events of maintenance have.
    #[serde(default)]
    pub event_profile: EventNumbers,
    /// Pause after each read of the scan. Jetstress: `DBMThrottling`.
    #[serde(default = "jetstress_pause")]
    pub scan_pause: TimeSpan,
    /// Directory to which the backup test writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PathBuf>,
    /// Whether the backup test also runs a load.
    #[serde(default)]
    pub under_load: bool,
    /// Logs of each database that the recovery test generates. Jetstress: `LogFilesToReplay`.
    #[serde(default = "options::default::logs")]
    pub logs: u32,
    /// What the replay of the recovery test has to do.
    #[serde(default)]
    pub mode: RecoveryMode,
    /// Copies of each database, the active one included; log reads of the others are simulated. Jetstress:
    /// `DatabaseCopyCount`. Of a replication test, the passive copies.
    #[serde(default = "once")]
    pub copies: u32,
    /// Directories of the passive copies of a replication test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy_dirs: Vec<PathBuf>,
    /// What these copies get of the log.
    #[serde(default)]
    pub copy_mode: CopyMode,
    /// Whether the replaying engine of copies is kept between two batches of logs; `None`: both are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_instance: Option<bool>,
    /// Seed of the load.
    pub seed: u64,
    /// Time between samples.
    pub sample_interval: TimeSpan,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: bool,
    /// How many of the newest logs may be lost without making a database inconsistent. ESE: `JET_paramWaypointLatency`.
    #[serde(default)]
    pub waypoint_latency: u32,
    /// Whether the unused bytes of pages are overwritten while databases are created.
    #[serde(default)]
    pub zero_at_creation: bool,
    /// How the state before the load is kept, or put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetMethod>,
    /// Source of the databases.
    pub source: Source,
    /// Description of the run by the user. Jetstress: `Description`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Directory for the results; with `None` the plan chooses a name in the first directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
}

impl Profile {
    /// The maintenance beside the load.
    pub fn maintenance(&self) -> MaintenanceSettings {
        MaintenanceSettings {
            tasks: Maintenance { scan: self.scan, zero: self.zero, defrag: self.defrag, layout: self.layout },
            pause: self.scan_pause.0,
            window: self.maintenance_window.map(|window| window.0),
        }
    }
}

/// Stored results without these fields have one measurement, and one copy of each database.
fn once() -> u32 {
    1
}

/// Jetstress's pause between two reads of its checksum scan.
fn jetstress_pause() -> TimeSpan {
    TimeSpan(Duration::from_millis(100))
}

/// Shares of the four operations in percent; together 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Inserts of new records.
    pub insert: u8,
    /// Deletes of records.
    pub delete: u8,
    /// Replaces of records.
    pub replace: u8,
    /// Reads, each of which verifies the record.
    pub read: u8,
}

/// Shape of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Records {
    /// Bytes of the short column, which every record has. Jetstress: `ShortPadLength`.
    pub short_bytes: u32,
    /// Bytes of the long column. Jetstress: `LongPadLength`.
    pub long_bytes: u32,
    /// Share of the records that have the long column, in percent. Jetstress: `Bulky1Percentage`.
    pub long_percent: u8,
    /// Tables in each database; they are filled in parallel.
    pub tables: u32,
}

/// Limits of the verdict, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Average latency of database reads.
    pub average_database_read_ms: f64,
    /// Highest average latency of database reads in any sample.
    pub maximum_database_read_ms: f64,
    /// Average latency of log writes.
    pub average_log_write_ms: f64,
    /// Highest average latency of log writes in any sample.
    pub maximum_log_write_ms: f64,
    /// Waits for a free page of the cache.
    pub page_fault_stalls: u64,
    /// 95th percentile of database reads, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_database_read_ms: Option<f64>,
    /// 99th percentile of database reads, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_database_read_ms: Option<f64>,
    /// 95th percentile of log writes, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_log_write_ms: Option<f64>,
    /// 99th percentile of log writes, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_log_write_ms: Option<f64>,
    /// 95th percentile of operations, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_operation_ms: Option<f64>,
    /// 99th percentile of operations, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_operation_ms: Option<f64>,
}

/// Source of the databases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Databases are created; the run is refused if files exist.
    New,
    /// Databases are created and replace existing files.
    Replace,
    /// An interrupted creation is continued.
    Resume,
    /// Existing databases are used.
    Open,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { insert: 40, delete: 20, replace: 5, read: 35 }
    }
}

/// As on the command line: `40/20/5/35`.
impl FromStr for Mix {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Mix, ParseError> {
        let shares: Result<Vec<u8>, _> = text.split('/').map(|share| share.trim().parse()).collect();
        match shares.as_deref() {
            Ok(&[insert, delete, replace, read]) => Ok(Mix { insert, delete, replace, read }),
            _ => Err(ParseError::new(
                "these are not four shares; write insert/delete/replace/read in percent, for example 40/20/5/35",
            )),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mix { insert, delete, replace, read } = self;
        write!(f, "{insert}/{delete}/{replace}/{read}")
    }
}

impl Thresholds {
    /// A longer run is an endurance test with lenient maxima. Jetstress: type `Stress`.
    pub(crate) const STRICT_UP_TO: Duration = Duration::from_secs(6 * 3600);
}

/// Default size of the cache for all databases together.
///
/// Jetstress gives each database at most 256 MiB, so that nearly every access misses the cache. The databases of a short
/// run are small, so the cache is also at most an eighth of them. It is at least 64 MiB for each database, because less
/// cannot absorb the changes of one slow log flush.
pub fn default_cache(databases: usize, total_bytes: u64) -> ByteSize {
    let databases = databases as u64;
    ByteSize((total_bytes / 8).clamp(databases << 26, databases << 28))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_four_shares() {
        assert_eq!("40/20/5/35".parse(), Ok(Mix::default()));
        for text in ["", "40/20/5", "40/20/5/35/0", "40/20/5/x", "-1/20/5/35", "400/0/0/0"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_cache_stays_small_beside_the_databases() {
        assert_eq!(default_cache(1, 1 << 30), ByteSize::mib(128));
        assert_eq!(default_cache(1, 450 << 30), ByteSize::mib(256));
        assert_eq!(default_cache(4, 1 << 40), ByteSize::mib(1024));
        assert_eq!(default_cache(2, 64 << 20), ByteSize::mib(128));
    }
}
