//! What a person may set, and how two sets of options combine.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Mix, Records, Thresholds};
use crate::units::{ByteSize, TimeSpan};

/// What a person may set; everything is optional. Keys of the TOML file have the names of the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Directories for databases, used in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<PathBuf>,
    /// Directories for logs, used in turn; the database directories when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_dirs: Vec<PathBuf>,
    /// Number of databases, each with its own log stream.
    pub databases: Option<usize>,
    /// Size of each database after creation.
    pub size: Option<ByteSize>,
    /// Load threads, shared by all databases.
    pub threads: Option<usize>,
    /// Measured time.
    pub duration: Option<TimeSpan>,
    /// Cache shared by all databases.
    pub cache: Option<ByteSize>,
    /// Database page size.
    pub page_size: Option<ByteSize>,
    /// Shares of the operations, in percent.
    pub mix: Option<Mix>,
    /// Share of commits that do not wait for the log, in percent.
    pub lazy_percent: Option<u8>,
    /// Updates in a batch.
    pub batch_updates: Option<u32>,
    /// Shape of the records.
    pub records: Option<Records>,
    /// Limits of the verdict.
    pub thresholds: Option<Thresholds>,
    /// I/O operations per second that must be reached.
    pub target_iops: Option<f64>,
    /// Tolerated shortfall from the target, as a fraction.
    pub margin: Option<f64>,
    /// Seed of the load.
    pub seed: Option<u64>,
    /// Time between samples.
    pub sample_interval: Option<TimeSpan>,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: Option<bool>,
    /// Use databases that exist.
    pub open: Option<bool>,
    /// Replace databases that exist.
    pub force: Option<bool>,
    /// Where results go.
    pub output: Option<PathBuf>,
}

/// One thing wrong with the options: what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake(pub String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Options {
    /// These options where given, those of `base` elsewhere.
    pub fn over(self, base: Options) -> Options {
        let list = |own: Vec<PathBuf>, other| if own.is_empty() { other } else { own };
        Options {
            dirs: list(self.dirs, base.dirs),
            log_dirs: list(self.log_dirs, base.log_dirs),
            databases: self.databases.or(base.databases),
            size: self.size.or(base.size),
            threads: self.threads.or(base.threads),
            duration: self.duration.or(base.duration),
            cache: self.cache.or(base.cache),
            page_size: self.page_size.or(base.page_size),
            mix: self.mix.or(base.mix),
            lazy_percent: self.lazy_percent.or(base.lazy_percent),
            batch_updates: self.batch_updates.or(base.batch_updates),
            records: self.records.or(base.records),
            thresholds: self.thresholds.or(base.thresholds),
            target_iops: self.target_iops.or(base.target_iops),
            margin: self.margin.or(base.margin),
            seed: self.seed.or(base.seed),
            sample_interval: self.sample_interval.or(base.sample_interval),
            circular_log: self.circular_log.or(base.circular_log),
            open: self.open.or(base.open),
            force: self.force.or(base.force),
            output: self.output.or(base.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        ::toml::from_str(toml).unwrap()
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let file = options("threads = 4\nsize = '64MiB'");
        let merged = options("threads = 9").over(file);
        assert_eq!((merged.threads, merged.size), (Some(9), Some(ByteSize::mib(64))));
    }
}
