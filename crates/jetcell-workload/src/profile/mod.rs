//! The profile of a run: all settings that determine what the run does. The same profile and seed produce the same
//! load.
//!
//! A profile is created in two steps, which distinguishes an omitted option from one that was set to its default.
//! [`Options`] come from the command line and from a configuration file. [`Options::resolve`] fills in the defaults and
//! validates the result. Unless a comment explains otherwise, the defaults are those of Jetstress 2013.

mod command_line;
mod configuration;
mod configuration_error;
mod copy_mode;
mod jetstress;
mod mailboxes;
mod maintenance;
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

use jetcell_input::OptionValueError;
use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

pub use self::toml::EXAMPLE;
pub use crate::engine_settings::{EventNumbers, MaintenanceWindowSetting};
pub use command_line::shell_word;
pub use configuration::TestConfiguration;
pub use configuration_error::ConfigurationError;
pub use copy_mode::CopyMode;
pub use mailboxes::MailboxRequirement;
pub use maintenance::{Maintenance, MaintenanceSettings, TaskWindows};
pub use option_value::OptionKind;
pub use options::{OptionInfo, Options, RecordOptions, ThresholdOptions};
pub use recovery_mode::RecoveryMode;
pub use reset_method::ResetMethod;
pub use skew::Skew;
pub use test_kind::TestKind;

/// A complete and valid description of a test run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Kind of test.
    #[serde(default)]
    pub test: TestKind,
    /// Directories for databases. Databases are assigned to them in turn.
    #[serde(serialize_with = "jetcell_input::serialize_paths")]
    pub dirs: Vec<PathBuf>,
    /// Directories for logs. Log streams are assigned to them in turn. Never empty.
    #[serde(serialize_with = "jetcell_input::serialize_paths")]
    pub log_dirs: Vec<PathBuf>,
    /// Number of databases. `None` with [`DatabaseSource::Open`] means all existing databases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub databases: Option<usize>,
    /// Size of each database when its creation is complete.
    pub size: DatabaseSize,
    /// Mailboxes from which the size and target were computed, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailboxes: Option<MailboxRequirement>,
    /// Free space to leave for growth in addition to the databases, in percent of their size. Jetstress:
    /// `DatabaseSpaceReserved`.
    pub growth_percent: u32,
    /// Number of load threads, shared by all databases.
    pub threads: usize,
    /// Duration of the measurement.
    pub duration: TimeSpan,
    /// Number of successive measurements on the same databases, which stay open.
    #[serde(default = "once")]
    pub repeat: u32,
    /// Whether the measurement ends as soon as the load is steady. `duration` is then the maximum duration.
    #[serde(default)]
    pub stop_when_steady: bool,
    /// Size of the cache shared by all databases. `None` selects [`default_cache`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<ByteSize>,
    /// Page size. `None` selects the page size of existing databases, or 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<ByteSize>,
    /// Percentages of the operation kinds.
    pub mix: Mix,
    /// Percentage of commits that do not wait for the log.
    pub lazy_percent: u8,
    /// Number of updates in a batch.
    pub batch_updates: u32,
    /// Record layout.
    pub records: RecordLayout,
    /// Limits that the verdict applies.
    pub thresholds: Thresholds,
    /// Minimum number of database reads and writes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_iops: Option<f64>,
    /// Whether the run fails if its measurement is questionable.
    #[serde(default)]
    pub strict: bool,
    /// Tolerated shortfall from the target, as a fraction.
    pub margin: f64,
    /// Operations per second in an open loop. `None` selects a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Whether to search for the highest sustained rate. `duration` is then the duration of each step.
    #[serde(default)]
    pub find_max: bool,
    /// Distribution of accesses over the records.
    #[serde(default)]
    pub skew: Skew,
    /// Whether a checksum scan of each database runs concurrently with the load. Jetstress:
    /// `RunDatabaseMaintenancePerformance`.
    #[serde(default)]
    pub scan: bool,
    /// Whether the scan also overwrites the remains of deleted data.
    #[serde(default)]
    pub zero: bool,
    /// Whether sparse pages are merged while the load runs.
    #[serde(default)]
    pub defrag: bool,
    /// Whether scattered pages are moved into key order while the load runs.
    #[serde(default)]
    pub layout: bool,
    /// Whether the cost of each maintenance task is measured.
    #[serde(default)]
    pub maintenance_impact: bool,
    /// Time window in which maintenance may run. `None` allows maintenance at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_window: Option<MaintenanceWindowSetting>,
    /// Numbering scheme for maintenance events.
    #[serde(default)]
    pub event_profile: EventNumbers,
    /// Pause after each read of the scan. Jetstress: `DBMThrottling`.
    #[serde(default = "jetstress_pause")]
    pub scan_pause: TimeSpan,
    /// Directory to which the backup test writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "jetcell_input::serialize_optional_path")]
    pub to: Option<PathBuf>,
    /// Whether the backup test also runs a load.
    #[serde(default)]
    pub under_load: bool,
    /// Number of logs that the recovery test generates for each database. Jetstress: `LogFilesToReplay`.
    #[serde(default = "options::default::logs")]
    pub logs: u32,
    /// State of the databases before the recovery test replays the logs.
    #[serde(default)]
    pub mode: RecoveryMode,
    /// Number of copies of each database, including the active copy. Log reads by the other copies are simulated.
    /// Jetstress: `DatabaseCopyCount`. In a replication test, this is the number of passive copies.
    #[serde(default = "once")]
    pub copies: u32,
    /// Directories for the passive copies of a replication test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(serialize_with = "jetcell_input::serialize_paths")]
    pub copy_dirs: Vec<PathBuf>,
    /// Which part of the log the passive copies receive.
    #[serde(default)]
    pub copy_mode: CopyMode,
    /// Whether a copy's replaying engine stays open between batches of logs. With `None`, both modes are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_instance: Option<bool>,
    /// Seed of the load.
    pub seed: u64,
    /// Interval between samples.
    pub sample_interval: TimeSpan,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: bool,
    /// Number of most recent logs that can be lost without making a database inconsistent. ESE:
    /// `JET_paramWaypointLatency`.
    #[serde(default)]
    pub waypoint_latency: u32,
    /// Whether unused bytes of pages are overwritten during database creation.
    #[serde(default)]
    pub zero_at_creation: bool,
    /// Method by which the state before the load is preserved or restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetMethod>,
    /// Source of the databases.
    pub source: DatabaseSource,
    /// The user's description of the run. Jetstress: `Description`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Directory for the results. With `None`, the plan chooses a name in the first database directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "jetcell_input::serialize_optional_path")]
    pub output: Option<PathBuf>,
}

impl Profile {
    /// Returns the settings for maintenance that runs concurrently with the load.
    pub fn maintenance(&self) -> MaintenanceSettings {
        MaintenanceSettings {
            tasks: Maintenance { scan: self.scan, zero: self.zero, defrag: self.defrag, layout: self.layout },
            pause: self.scan_pause.0,
            window: self.maintenance_window.map(|window| window.0),
        }
    }
}

/// Returns the default for fields that older stored results lack: one measurement, and one copy of each database.
fn once() -> u32 {
    1
}

/// Returns the pause that Jetstress makes between two reads of its checksum scan.
fn jetstress_pause() -> TimeSpan {
    TimeSpan(Duration::from_millis(100))
}

/// The operation mix, as percentages that add up to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "insert, delete, replace and read")]
pub struct Mix {
    /// Percentage of inserts.
    pub insert: u8,
    /// Percentage of deletes.
    pub delete: u8,
    /// Percentage of replaces.
    pub replace: u8,
    /// Percentage of reads. Each read verifies the record.
    pub read: u8,
}

/// Layout of the records that the load writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordLayout {
    /// Length of the short column in bytes. Every record has this column. Jetstress: `ShortPadLength`.
    pub short_bytes: u32,
    /// Length of the long column in bytes. Jetstress: `LongPadLength`.
    pub long_bytes: u32,
    /// Percentage of records that have the long column. Jetstress: `Bulky1Percentage`.
    pub long_percent: u8,
    /// Number of tables in each database. Tables are filled in parallel.
    pub tables: u32,
}

/// Thresholds for the verdict. Latencies are in milliseconds.
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
    /// Maximum number of waits for a free cache page.
    pub page_fault_stalls: u64,
    /// 95th percentile of the database read latency, or `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_database_read_ms: Option<f64>,
    /// 99th percentile of the database read latency, or `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_database_read_ms: Option<f64>,
    /// 95th percentile of the log write latency, or `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_log_write_ms: Option<f64>,
    /// 99th percentile of the log write latency, or `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_log_write_ms: Option<f64>,
    /// 95th percentile of the operation latency, or `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_operation_ms: Option<f64>,
    /// 99th percentile of the operation latency, or `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_operation_ms: Option<f64>,
}

/// How a run obtains its databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseSource {
    /// Create the databases. The run is refused if the files exist.
    New,
    /// Create the databases and replace existing files.
    Replace,
    /// Continue an interrupted creation.
    Resume,
    /// Use existing databases.
    Open,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { insert: 40, delete: 20, replace: 5, read: 35 }
    }
}

/// Parses the command-line form: `40/20/5/35`.
impl FromStr for Mix {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Mix, ParseError> {
        let shares: Result<Vec<u8>, _> = text.split('/').map(|share| share.trim().parse()).collect();
        match shares.as_deref() {
            Ok(&[insert, delete, replace, read]) => Ok(Mix { insert, delete, replace, read }),
            _ => Err(OptionValueError::unparsable(
                text,
                "four shares",
                "specify insert/delete/replace/read in percent, for example 40/20/5/35",
            )
            .into()),
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
    /// Maximum duration for which the strict limits apply. A longer run is an endurance test with lenient maximum
    /// latencies. Jetstress: type `Stress`.
    pub(crate) const MAX_STRICT_DURATION: Duration = Duration::from_secs(6 * 3600);
}

/// Returns the default size of the cache that all databases share.
///
/// Jetstress gives each database at most 256 MiB, so nearly every access misses the cache. The databases of a short
/// run are small, so the cache is also limited to an eighth of their size. It has at least 64 MiB for each database,
/// because a smaller cache cannot absorb the changes made during one slow log flush.
pub fn default_cache(databases: usize, total_bytes: u64) -> ByteSize {
    let databases = databases as u64;
    ByteSize((total_bytes / 8).clamp(databases << 26, databases << 28))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_four_shares() {
        assert_eq!("40/20/5/35".parse::<Mix>().unwrap(), Mix::default());
        for text in ["", "40/20/5", "40/20/5/35/0", "40/20/5/x", "-1/20/5/35", "400/0/0/0"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_cache_stays_small_relative_to_the_databases() {
        assert_eq!(default_cache(1, 1 << 30), ByteSize::mib(128));
        assert_eq!(default_cache(1, 450 << 30), ByteSize::mib(256));
        assert_eq!(default_cache(4, 1 << 40), ByteSize::mib(1024));
        assert_eq!(default_cache(2, 64 << 20), ByteSize::mib(128));
    }
}
