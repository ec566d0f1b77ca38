//! The profile: everything that decides what a run does. The same profile and seed give the same load.
//!
//! A profile is made in two steps, so that "not given" stays distinguishable from "the default": [`Options`]
//! come from the command line and from a file, [`Options::resolve`] fills in the defaults and validates.
//! Defaults are Jetstress 2013's unless the comment gives a reason.

mod command;
mod file;
mod jetstress;
mod options;
mod resolve;
mod toml;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::skew::Skew;
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

pub use self::toml::EXAMPLE;
pub use file::Configuration;
pub use options::{Mistake, Options, RecordOptions, ThresholdOptions};

/// A complete, valid description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Directories for databases, used in turn.
    pub dirs: Vec<PathBuf>,
    /// Directories for logs, used in turn; never empty.
    pub log_dirs: Vec<PathBuf>,
    /// Number of databases; `None` with [`Source::Open`] means as many as are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub databases: Option<usize>,
    /// Size of each database after creation.
    pub size: DatabaseSize,
    /// Room for growth beside the databases, in percent of their size. Jetstress: `DatabaseSpaceReserved`.
    pub growth_percent: u32,
    /// Load threads, shared by all databases.
    pub threads: usize,
    /// Measured time.
    pub duration: TimeSpan,
    /// How many times the measured time is run, one after the other on the same open databases.
    #[serde(default = "once")]
    pub repeat: u32,
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
    /// Tolerated shortfall from the target, as a fraction.
    pub margin: f64,
    /// Operations per second of an open loop; `None` is the closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Search for the highest rate that holds; the duration is that of each step.
    #[serde(default)]
    pub find_max: bool,
    /// Which records are used.
    #[serde(default)]
    pub skew: Skew,
    /// Whether a checksum scan of each database runs beside the load. Jetstress: `RunDatabaseMaintenancePerformance`.
    #[serde(default)]
    pub scan: bool,
    /// Pause after each of its reads. Jetstress: `DBMThrottling`.
    #[serde(default = "jetstress_pause")]
    pub scan_pause: TimeSpan,
    /// Seed of the load.
    pub seed: u64,
    /// Time between samples.
    pub sample_interval: TimeSpan,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: bool,
    /// Where the databases come from.
    pub source: Source,
    /// Words of the person who runs it. Jetstress: `Description`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where results go; `None` lets the plan choose a name in the first directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
}

/// What results from before repetitions mean.
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
    /// New records.
    pub insert: u8,
    /// Records removed.
    pub delete: u8,
    /// Records changed.
    pub replace: u8,
    /// Records read and verified.
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
    /// Waits for a free cache page.
    pub page_fault_stalls: u64,
}

/// Where the databases of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Created; refused when files are there already.
    New,
    /// Created in place of whatever is there.
    Replace,
    /// A creation that was interrupted is continued.
    Resume,
    /// They exist.
    Open,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { insert: 40, delete: 20, replace: 5, read: 35 }
    }
}

/// As on the command line: `40/20/5/35`.
impl FromStr for Mix {
    type Err = String;
    fn from_str(text: &str) -> Result<Mix, String> {
        let shares: Result<Vec<u8>, _> = text.split('/').map(|share| share.trim().parse()).collect();
        match shares.as_deref() {
            Ok(&[insert, delete, replace, read]) => Ok(Mix { insert, delete, replace, read }),
            _ => Err("write insert/delete/replace/read in percent, for example 40/20/5/35".into()),
        }
    }
}

impl Default for Records {
    fn default() -> Records {
        Records { short_bytes: 200, long_bytes: 2000, long_percent: 100, tables: 8 }
    }
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            average_database_read_ms: 20.0,
            maximum_database_read_ms: 100.0,
            average_log_write_ms: 10.0,
            maximum_log_write_ms: 100.0,
            page_fault_stalls: 0,
        }
    }
}

/// Beyond six hours a run is an endurance test, whose maxima are lenient. Jetstress: type `Stress`.
const STRESS_FROM: Duration = Duration::from_secs(6 * 3600);

impl Thresholds {
    /// Jetstress's limits for a run of this length.
    pub fn for_duration(duration: Duration) -> Thresholds {
        let strict = Thresholds::default();
        if duration <= STRESS_FROM {
            return strict;
        }
        Thresholds { maximum_database_read_ms: 200.0, maximum_log_write_ms: 200.0, ..strict }
    }
}

/// Jetstress gives each database at most 256 MiB of cache so that nearly every access misses. Databases of a
/// short run are small, so the cache is also at most an eighth of them, but at least 64 MiB each: less could not
/// take up the writes of one slow log flush.
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
