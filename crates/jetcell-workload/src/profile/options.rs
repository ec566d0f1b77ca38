//! What a person may set, and how two sets of options combine.
//!
//! This is the one list of options: a field is a key of the configuration file and, with dashes, an option of the
//! command line, and its comment is the help text. `example.toml` beside this file explains the keys at length.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::Mix;
use crate::skew::Skew;
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

/// What a person may set; everything is optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Directory for databases, used in turn when given several times [default: jetcell-run, created if missing]
    #[arg(long = "dir", value_name = "DIR", help_heading = "Databases")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<PathBuf>,
    /// Directory for logs, used in turn when given several times [default: that of the databases]
    #[arg(long = "log-dir", value_name = "DIR", help_heading = "Databases")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_dirs: Vec<PathBuf>,
    /// Number of databases, each with its own log stream [default: one per --dir]
    #[arg(long, value_name = "N", help_heading = "Databases")]
    pub databases: Option<usize>,
    /// Size of each database, such as 100GiB, or what all on a volume take of it, such as 80% [default: 1GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Databases")]
    pub size: Option<DatabaseSize>,
    /// Room for growth that must be free beside the databases, in percent of them [default: 25]
    #[arg(long, value_name = "PERCENT", help_heading = "Databases")]
    pub growth_percent: Option<u32>,
    /// Page size: 4KiB, 8KiB, 16KiB or 32KiB [default: 32KiB, or that of existing databases]
    #[arg(long, value_name = "SIZE", help_heading = "Databases")]
    pub page_size: Option<ByteSize>,
    /// Cache shared by all databases [default: an eighth of them, 64MiB to 256MiB for each]
    #[arg(long, value_name = "SIZE", help_heading = "Databases")]
    pub cache: Option<ByteSize>,
    /// Remove logs that are no longer needed during the run [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(help_heading = "Databases")]
    pub circular_log: Option<bool>,
    /// Use databases that exist [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(help_heading = "Databases")]
    pub open: Option<bool>,
    /// Replace databases and results that exist [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(help_heading = "Databases")]
    pub force: Option<bool>,
    /// Continue a creation that was interrupted; its sizes, shapes and seed need not be given again [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(help_heading = "Databases")]
    pub resume: Option<bool>,
    /// Shape of the records.
    #[command(flatten)]
    #[serde(default, skip_serializing_if = "RecordOptions::is_empty")]
    pub records: RecordOptions,

    /// Load threads, shared by all databases [default: 4]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub threads: Option<usize>,
    /// Measured time, such as 60s or 2h [default: 60s, with --find-max 15s for each step]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub duration: Option<TimeSpan>,
    /// Measure this many times in a row, and give the spread as 95 % confidence intervals [default: 1]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub repeat: Option<u32>,
    /// Shares of insert/delete/replace/read in percent [default: 40/20/5/35]
    #[arg(long, value_name = "I/D/R/R", help_heading = "Load")]
    pub mix: Option<Mix>,
    /// Share of commits that do not wait for the log, in percent [default: 70]
    #[arg(long, value_name = "PERCENT", help_heading = "Load")]
    pub lazy_percent: Option<u8>,
    /// Updates in a batch; the reads that belong to them by the mix are added [default: 16]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub batch_updates: Option<u32>,
    /// Open loop: operations per second, each begun when it is due and timed from then [default: as fast as they end]
    #[arg(long, value_name = "N", help_heading = "Load", allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Search for the highest rate that breaks no limit, by steps of --duration each [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(help_heading = "Load")]
    pub find_max: Option<bool>,
    /// Which records are used: uniform, zipf:EXPONENT below 1, or 80/20; the newest are the hot ones [default: uniform]
    #[arg(long, value_name = "SKEW", help_heading = "Load")]
    pub skew: Option<Skew>,
    /// Read and check every page of the databases in the background, beside the load [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(help_heading = "Load")]
    pub scan: Option<bool>,
    /// Pause after each of its reads of 256 KiB; 100ms are 2.5 MiB/s for each database at most [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub scan_pause: Option<TimeSpan>,
    /// Seed of the load: the same seed gives the same operations and content [default: 1]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub seed: Option<u64>,

    /// Database reads and writes per second that must be reached, less the margin [default: none]
    #[arg(long, value_name = "N", help_heading = "Verdict", allow_negative_numbers = true)]
    pub target_iops: Option<f64>,
    /// Tolerated shortfall from the target, as a fraction [default: 0.05]
    #[arg(long, value_name = "FRACTION", help_heading = "Verdict", allow_negative_numbers = true)]
    pub margin: Option<f64>,
    /// Limits of the verdict.
    #[command(flatten)]
    #[serde(default, skip_serializing_if = "ThresholdOptions::is_empty")]
    pub thresholds: ThresholdOptions,

    /// A few words about the run, shown in the report [default: none]
    #[arg(long, value_name = "TEXT", help_heading = "Results")]
    pub description: Option<String>,
    /// Directory for the results [default: Performance_<time> in the first --dir]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub output: Option<PathBuf>,
    /// Time between samples [default: 15s, less in short runs]
    #[arg(long, value_name = "TIME", help_heading = "Results")]
    pub sample_interval: Option<TimeSpan>,
}

/// Shape of the records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct RecordOptions {
    /// Bytes of the short column, which every record has [default: 200]
    #[arg(long, value_name = "N", help_heading = "Databases")]
    pub short_bytes: Option<u32>,
    /// Bytes of the long column [default: 2000]
    #[arg(long, value_name = "N", help_heading = "Databases")]
    pub long_bytes: Option<u32>,
    /// Share of the records that have the long column, in percent [default: 100]
    #[arg(long, value_name = "PERCENT", help_heading = "Databases")]
    pub long_percent: Option<u8>,
    /// Tables in each database; they are filled in parallel [default: 8]
    #[arg(long, value_name = "N", help_heading = "Databases")]
    pub tables: Option<u32>,
}

/// Limits of the verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct ThresholdOptions {
    /// Limit for the average latency of database reads [default: 20]
    #[arg(long, value_name = "MS", help_heading = "Verdict", allow_negative_numbers = true)]
    pub average_database_read_ms: Option<f64>,
    /// Limit for the average of every sample [default: 100, or 200 beyond six hours]
    #[arg(long, value_name = "MS", help_heading = "Verdict", allow_negative_numbers = true)]
    pub maximum_database_read_ms: Option<f64>,
    /// Limit for the average latency of log writes [default: 10]
    #[arg(long, value_name = "MS", help_heading = "Verdict", allow_negative_numbers = true)]
    pub average_log_write_ms: Option<f64>,
    /// Limit for the average of every sample [default: 100, or 200 beyond six hours]
    #[arg(long, value_name = "MS", help_heading = "Verdict", allow_negative_numbers = true)]
    pub maximum_log_write_ms: Option<f64>,
    /// Waits for a free cache page that are tolerated [default: 0]
    #[arg(long, value_name = "N", help_heading = "Verdict")]
    pub page_fault_stalls: Option<u64>,
}

impl RecordOptions {
    fn is_empty(&self) -> bool {
        *self == RecordOptions::default()
    }
}

impl ThresholdOptions {
    fn is_empty(&self) -> bool {
        *self == ThresholdOptions::default()
    }
}

/// Combines two layers of options.
trait Over {
    /// `self` where given, `base` elsewhere.
    fn over(self, base: Self) -> Self;
}

impl<T> Over for Option<T> {
    fn over(self, base: Self) -> Self {
        self.or(base)
    }
}

impl<T> Over for Vec<T> {
    fn over(self, base: Self) -> Self {
        if self.is_empty() { base } else { self }
    }
}

macro_rules! field_by_field {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl Over for $type {
            fn over(self, base: Self) -> Self {
                $type { $($field: self.$field.over(base.$field)),* }
            }
        }
    };
}

field_by_field!(RecordOptions { short_bytes, long_bytes, long_percent, tables });
field_by_field!(ThresholdOptions {
    average_database_read_ms,
    maximum_database_read_ms,
    average_log_write_ms,
    maximum_log_write_ms,
    page_fault_stalls,
});
field_by_field!(Options {
    dirs,
    log_dirs,
    databases,
    size,
    growth_percent,
    page_size,
    cache,
    circular_log,
    open,
    force,
    resume,
    records,
    threads,
    duration,
    repeat,
    mix,
    lazy_percent,
    batch_updates,
    rate,
    find_max,
    skew,
    scan,
    scan_pause,
    seed,
    target_iops,
    margin,
    thresholds,
    description,
    output,
    sample_interval,
});

impl Options {
    /// These options where given, those of `base` elsewhere.
    pub fn over(self, base: Options) -> Options {
        Over::over(self, base)
    }
}

/// One thing wrong with the options: what, and what to do; always one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake(String);

/// Longer values are cut: a file may hold anything.
const LONGEST_MISTAKE: usize = 400;

impl Mistake {
    /// Control characters, which could come from a file, become spaces.
    pub fn new(what: impl AsRef<str>) -> Mistake {
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let mut line: String = what.as_ref().chars().map(clean).take(LONGEST_MISTAKE).collect();
        if what.as_ref().chars().nth(LONGEST_MISTAKE).is_some() {
            line.push('…');
        }
        Mistake(line)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn the_command_line_wins_over_the_file_key_by_key() {
        let file = options(
            "dirs = ['a', 'b']\nthreads = 4\nsize = '64MiB'\n[thresholds]\naverage_database_read_ms = 5\npage_fault_stalls = 7",
        );
        let line = options("dirs = ['c']\nthreads = 9\n[thresholds]\npage_fault_stalls = 1");
        let merged = line.over(file);
        assert_eq!(merged.dirs, [PathBuf::from("c")]);
        assert_eq!((merged.threads, merged.size), (Some(9), Some(ByteSize::mib(64).into())));
        assert_eq!(merged.thresholds.average_database_read_ms, Some(5.0));
        assert_eq!(merged.thresholds.page_fault_stalls, Some(1));
    }

    #[test]
    fn every_option_of_the_command_line_is_a_key() {
        let command = Options::augment_args(clap::Command::new("test"));
        command.clone().debug_assert();
        let parsed = command.get_arguments().count();
        let keys = toml::Table::try_from(super::super::toml::complete()).unwrap();
        let keys: usize = keys.values().map(|value| value.as_table().map_or(1, |table| table.len())).sum();
        // On the command line the four shares of the mix are one option.
        assert_eq!(parsed, keys - 3);
    }

    #[test]
    fn every_key_is_documented() {
        let documentation = include_str!("../../../../docs/configuration.md");
        let keys = toml::Table::try_from(super::super::toml::complete()).unwrap();
        for (key, value) in &keys {
            let inner =
                value.as_table().map(|table| table.keys().map(|inner| format!("{key}.{inner}")).collect());
            for key in inner.unwrap_or(vec![key.clone()]) {
                assert!(documentation.contains(&format!("`{key}`")), "{key} is not in docs/configuration.md");
            }
        }
    }

    #[test]
    fn a_mistake_is_one_line_of_bounded_length() {
        let hostile = Mistake::new(format!("a\nb\u{1b}[31m{}", "x".repeat(10_000)));
        assert!(hostile.to_string().starts_with("a b [31mxxx"));
        assert_eq!(hostile.to_string().chars().count(), LONGEST_MISTAKE + 1);
    }
}
