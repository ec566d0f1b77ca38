//! The options of a run. One table defines the configuration file, the command line, the help text and the defaults.
//!
//! A field is a key of the configuration file. Its comment is the help text of the command line. The value after `=`
//! is its default, and text after `or` describes a default that depends on other options. `example.toml` in this
//! directory explains the keys in detail.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::option_value::{OptionKind, OptionValue};
use super::skew::Skew;
use super::{CopyMode, EventNumbers, Maintenance, MaintenanceWindowSetting, Mix, RecoveryMode, ResetMethod};
use crate::parse_error::ParseError;
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

/// Description of a command-line option.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Key in the configuration file, without its table.
    pub key: &'static str,
    /// Name without the leading dashes, such as `lazy-percent`. Options of different tests may have the same name.
    pub name: &'static str,
    /// Heading in the help text under which the option is listed.
    pub heading: &'static str,
    /// Placeholder for the value in the help text, such as `PERCENT`.
    pub value_name: &'static str,
    /// One-line description of the option, without the default.
    pub help: &'static str,
    /// Kind of the value.
    pub kind: OptionKind,
    /// Whether the option may be given several times.
    pub is_list: bool,
    default: fn() -> String,
    set: fn(&mut Options, &OsStr) -> Result<(), ParseError>,
    get: fn(&Options) -> Vec<String>,
}

impl OptionInfo {
    /// Returns the default: a value, or a short description if it depends on other options.
    pub fn default(&self) -> String {
        (self.default)()
    }

    /// Sets the option. If the option is a list, adds the value to the list.
    pub fn set(&self, options: &mut Options, text: &OsStr) -> Result<(), ParseError> {
        (self.set)(options, text)
    }

    /// Returns the values of the option in the form that [`OptionInfo::set`] accepts. Empty if the option is not
    /// given.
    pub fn get(&self, options: &Options) -> Vec<String> {
        (self.get)(options)
    }
}

/// Declares a set of options: the type, how two layers are merged, the defaults and the table.
macro_rules! options {
    (@default $type:ty, ) => { String::new() };
    (@default $type:ty, $words:literal) => { $words.to_string() };
    (@default $type:ty, value $default:expr) => { <$type as OptionValue>::show(&$default) };
    (@one $type:ty, $field:ident, $(value $value:expr)?) => {
        $(pub(crate) fn $field() -> $type { $value })?
    };
    (
        $(#[doc = $about:literal])*
        $set:ident in $table:ident defaults $defaults:ident
        lists { $(#[doc = $list_help:literal] $list_name:literal $list_value:literal $list_heading:literal
            $list:ident: $item:ty, or $list_default:literal;)* }
        values { $(#[doc = $help:literal] $name:literal $value:literal $heading:literal
            $field:ident: $type:ty $(= $default:expr)? $(, or $words:literal)?;)* }
        sets { $($(#[doc = $inner_about:literal])* $inner:ident: $inner_set:ident,)* }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $set {
            $(#[doc = $list_help]
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub $list: Vec<$item>,)*
            $(#[doc = $help]
            pub $field: Option<$type>,)*
            $($(#[doc = $inner_about])*
            #[serde(default, skip_serializing_if = "is_default")]
            pub $inner: $inner_set,)*
        }

        impl $set {
            /// Merges two layers. Options that are not set in `self` are taken from `base`.
            #[must_use]
            pub fn over(self, base: $set) -> $set {
                $set {
                    $($list: if self.$list.is_empty() { base.$list } else { self.$list },)*
                    $($field: self.$field.or(base.$field),)*
                    $($inner: self.$inner.over(base.$inner),)*
                }
            }
        }

        /// Defaults that do not depend on other options.
        pub(crate) mod $defaults {
            #[allow(unused_imports, reason = "a set may have no such default")]
            use super::*;
            $(options!(@one $type, $field, $(value $default)?);)*
        }

        const $table: &[OptionInfo] = &[
            $(OptionInfo {
                key: stringify!($list),
                name: $list_name,
                heading: $list_heading,
                value_name: $list_value,
                help: $list_help.trim_ascii(),
                kind: <$item as OptionValue>::KIND,
                is_list: true,
                default: || $list_default.to_string(),
                set: |options, text| {
                    $set::section_mut(options).$list.push(OptionValue::read(text)?);
                    Ok(())
                },
                get: |options| $set::section(options).$list.iter().map(OptionValue::show).collect(),
            },)*
            $(OptionInfo {
                key: stringify!($field),
                name: $name,
                heading: $heading,
                value_name: $value,
                help: $help.trim_ascii(),
                kind: <$type as OptionValue>::KIND,
                is_list: false,
                default: || options!(@default $type, $(value $default)? $($words)?),
                set: |options, text| {
                    $set::section_mut(options).$field = Some(OptionValue::read(text)?);
                    Ok(())
                },
                get: |options| $set::section(options).$field.iter().map(OptionValue::show).collect(),
            },)*
        ];
    };
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

options! {
    /// Options for a run as given by the user. Every option may be omitted.
    Options in OPTIONS defaults default
    lists {
        /// Directory for databases; if several are given, databases are distributed over them in turn
        "dir" "DIR" "Databases" dirs: PathBuf, or "jetcell-run, which is created";
        /// Directory for passive copies; if several are given, copies are distributed over them in turn
        "copy-dir" "DIR" "Replication" copy_dirs: PathBuf, or "copies in the first --dir";
        /// Directory for logs; if several are given, log streams are distributed over them in turn
        "log-dir" "DIR" "Databases" log_dirs: PathBuf, or "the directories of the databases";
    }
    values {
        /// Number of databases; each has its own log stream
        "databases" "N" "Databases" databases: usize, or "one per --dir";
        /// Size of each database, such as 100GiB, or the share of a volume for all databases on it, such as 80%
        "size" "SIZE" "Databases" size: DatabaseSize = ByteSize(1 << 30).into();
        /// Number of mailboxes; with the next two options, sets --size and --target-iops
        "mailboxes" "N" "Databases" mailboxes: u64, or "none";
        /// Database reads and writes per second for each mailbox
        "iops-per-mailbox" "N" "Databases" iops_per_mailbox: f64, or "none";
        /// Size of each mailbox; the databases have the total size of all mailboxes, less the growth
        "quota" "SIZE" "Databases" quota: ByteSize, or "none";
        /// Free space required for growth in addition to the databases, in percent of their size
        "growth-percent" "PERCENT" "Databases" growth_percent: u32 = 25;
        /// Page size: 4KiB, 8KiB, 16KiB or 32KiB
        "page-size" "SIZE" "Databases" page_size: ByteSize, or "32KiB, or the page size of existing databases";
        /// Page cache, shared by all databases
        "cache" "SIZE" "Databases" cache: ByteSize, or "an eighth of the databases, 64MiB to 256MiB for each";
        /// Remove logs that are no longer needed during the run (circular logging)
        "circular-log" "BOOL" "Databases" circular_log: bool = true;
        /// Number of newest logs that may be lost without making a database inconsistent, 0 to 10
        "waypoint-latency" "N" "Databases" waypoint_latency: u32 = 0;
        /// Overwrite unused bytes of pages during creation, which shortens the first pass of --maintenance zero
        "zero-at-creation" "BOOL" "Databases" zero_at_creation: bool = false;
        /// Use existing databases
        "open" "BOOL" "Databases" open: bool = false;
        /// Replace existing databases and results
        "force" "BOOL" "Databases" force: bool = false;
        /// Resume an interrupted creation; its sizes, record shapes and seed are used
        "resume" "BOOL" "Databases" resume: bool = false;
        /// Start from equal states: preserve the databases, or restore them with --open; snapshot or copy
        "reset" "METHOD" "Databases" reset: ResetMethod, or "use the databases as they are";
        /// Number of load threads, shared by all databases
        "threads" "N" "Load" threads: usize = 4;
        /// Duration of the measurement, such as 60s or 2h; with --find-max, the duration of each step
        "duration" "TIME" "Load" duration: TimeSpan, or "60s, or 15s with --find-max; 24h for a stress test";
        /// Number of successive measurements; with 2 or more, the report has 95 % confidence intervals
        "repeat" "N" "Load" repeat: u32, or "1, or 3 with --maintenance-impact";
        /// End the measurement before --duration, as soon as the I/O rate is steady and known within 5 %
        "stop-when-steady" "BOOL" "Load" stop_when_steady: bool = false;
        /// Shares of insert/delete/replace/read operations in percent
        "mix" "I/D/R/R" "Load" mix: Mix = Mix::default();
        /// Share of commits that do not wait for the log (lazy commits), in percent
        "lazy-percent" "PERCENT" "Load" lazy_percent: u8 = 70;
        /// Number of updates in a batch; the batch also gets the matching share of reads
        "batch-updates" "N" "Load" batch_updates: u32 = 16;
        /// Operations per second of an open loop; latency is measured from the time an operation is due
        "rate" "N" "Load" rate: f64, or "closed loop: as fast as possible";
        /// Search for the highest rate that meets all limits, in steps of --duration
        "find-max" "BOOL" "Load" find_max: bool = false;
        /// Distribution of accesses: uniform, zipf:EXPONENT or 80/20; the newest records are accessed most often
        "skew" "SKEW" "Load" skew: Skew = Skew::Uniform;
        /// Read and verify all pages of the databases in the background while the load runs
        "scan" "BOOL" "Load" scan: bool = true;
        /// Maintenance during the load: none, or any of scan, zero (deleted data), defrag (merge) and layout (move)
        "maintenance" "TASKS" "Load" maintenance: Maintenance, or "scan or none, depending on --scan";
        /// Measure the cost of each task, alternating with the load alone; --repeat rounds, turns of --duration
        "maintenance-impact" "BOOL" "Load" maintenance_impact: bool = false;
        /// Time window for maintenance, such as "mon-fri 01:00 4h", in UTC or with an offset such as +01:00
        "maintenance-window" "WINDOW" "Load" maintenance_window: MaintenanceWindowSetting, or "at any time";
        /// Numbering of maintenance events: sp1, article (about Exchange 2007 SP1) or modern
        "event-profile" "PROFILE" "Load" event_profile: EventNumbers = EventNumbers::default();
        /// Pause after each 256 KiB that the background scan reads; 100ms limits it to 2.5 MiB/s for each database
        "scan-pause" "TIME" "Load" scan_pause: TimeSpan = crate::profile::jetstress_pause();
        /// Copies of each database; log reads of additional copies are simulated; with replication: passive copies
        "copies" "N" "Load" copies: u32 = 1;
        /// Seed of the load: the same seed gives the same operations and the same content
        "seed" "N" "Load" seed: u64 = 1;
        /// Write the backup to this directory, which must be empty or not exist yet
        "to" "DIR" "Backup" to: PathBuf, or "none: pages are only read and verified";
        /// Also run the load, alone and then concurrently with a backup, and show the mutual cost
        "under-load" "BOOL" "Backup" under_load: bool = false;
        /// Log that copies receive: file (closed logs only) or block (also the durable part of the current log)
        "mode" "MODE" "Replication" copy_mode: CopyMode = CopyMode::File;
        /// Keep the replaying engine of a copy open between two batches of logs
        "keep-instance" "BOOL" "Replication" keep_instance: bool, or "both: N copies that keep it, and one more that does not";
        /// Number of logs to generate and replay for each database
        "logs" "N" "Recovery" logs: u32 = 500;
        /// State of the databases before the replay: true (before the load) or compatible (after it, as in Jetstress)
        "mode" "MODE" "Recovery" mode: RecoveryMode = RecoveryMode::True;
        /// Database reads and writes per second that the run must reach, less the margin
        "target-iops" "N" "Verdict" target_iops: f64, or "no target";
        /// Fail a run whose measurement is not reliable, for example because it was short or not steady
        "strict" "BOOL" "Verdict" strict: bool = false;
        /// Tolerated shortfall from the target, as a fraction
        "margin" "FRACTION" "Verdict" margin: f64 = 0.05;
        /// Short description of the run, shown in the report
        "description" "TEXT" "Results" description: String, or "none";
        /// Directory for the results
        "output" "DIR" "Results" output: PathBuf, or "Performance_<time> in the first --dir, or the name of the other test with the time";
        /// Interval between samples
        "sample-interval" "TIME" "Results" sample_interval: TimeSpan, or "15s, less in short runs";
    }
    sets {
        /// Shape of the records.
        records: RecordOptions,
        /// Limits of the verdict.
        thresholds: ThresholdOptions,
    }
}

options! {
    /// Shape of the records.
    RecordOptions in RECORD_OPTIONS defaults default_record
    lists {}
    values {
        /// Length of the short column, which every record has, in bytes
        "short-bytes" "N" "Databases" short_bytes: u32 = 200;
        /// Length of the long column in bytes
        "long-bytes" "N" "Databases" long_bytes: u32 = 2000;
        /// Share of the records that have the long column, in percent
        "long-percent" "PERCENT" "Databases" long_percent: u8 = 100;
        /// Number of tables in each database; the tables are filled in parallel
        "tables" "N" "Databases" tables: u32 = 8;
    }
    sets {}
}

options! {
    /// Limits of the verdict.
    ThresholdOptions in THRESHOLD_OPTIONS defaults default_threshold
    lists {}
    values {
        /// Limit for the average latency of database reads
        "average-database-read-ms" "MS" "Verdict" average_database_read_ms: f64 = 20.0;
        /// Limit for the average latency of database reads in each sample
        "maximum-database-read-ms" "MS" "Verdict" maximum_database_read_ms: f64, or "100, or 200 above six hours and for a stress test";
        /// Limit for the average latency of log writes
        "average-log-write-ms" "MS" "Verdict" average_log_write_ms: f64 = 10.0;
        /// Limit for the average latency of log writes in each sample
        "maximum-log-write-ms" "MS" "Verdict" maximum_log_write_ms: f64, or "100, or 200 above six hours and for a stress test";
        /// Limit for the 95th percentile of the latency of database reads
        "p95-database-read-ms" "MS" "Verdict" p95_database_read_ms: f64, or "no limit";
        /// Limit for the 99th percentile of the latency of database reads
        "p99-database-read-ms" "MS" "Verdict" p99_database_read_ms: f64, or "no limit";
        /// Limit for the 95th percentile of the latency of log writes
        "p95-log-write-ms" "MS" "Verdict" p95_log_write_ms: f64, or "no limit";
        /// Limit for the 99th percentile of the latency of log writes
        "p99-log-write-ms" "MS" "Verdict" p99_log_write_ms: f64, or "no limit";
        /// Limit for the 95th percentile of the latency of operations
        "p95-operation-ms" "MS" "Verdict" p95_operation_ms: f64, or "no limit";
        /// Limit for the 99th percentile of the latency of operations
        "p99-operation-ms" "MS" "Verdict" p99_operation_ms: f64, or "no limit, or 1000 with --find-max";
        /// Tolerated number of waits for a free cache page
        "page-fault-stalls" "N" "Verdict" page_fault_stalls: u64 = 0;
    }
    sets {}
}

/// Access to a set of options inside [`Options`].
trait OptionSection {
    fn section(options: &Options) -> &Self;
    fn section_mut(options: &mut Options) -> &mut Self;
}

impl OptionSection for Options {
    fn section(options: &Options) -> &Options {
        options
    }

    fn section_mut(options: &mut Options) -> &mut Options {
        options
    }
}

impl OptionSection for RecordOptions {
    fn section(options: &Options) -> &RecordOptions {
        &options.records
    }

    fn section_mut(options: &mut Options) -> &mut RecordOptions {
        &mut options.records
    }
}

impl OptionSection for ThresholdOptions {
    fn section(options: &Options) -> &ThresholdOptions {
        &options.thresholds
    }

    fn section_mut(options: &mut Options) -> &mut ThresholdOptions {
        &mut options.thresholds
    }
}

impl Options {
    /// Returns all options in the order of the help text.
    pub fn table() -> impl Iterator<Item = &'static OptionInfo> {
        OPTIONS.iter().chain(RECORD_OPTIONS).chain(THRESHOLD_OPTIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn the_first_layer_takes_precedence_for_each_key() {
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
    fn option_names_are_unique_and_help_lines_are_short() {
        use crate::profile::TestKind::{Backup, Performance, Recovery, Replication, Stress};
        for test in [Performance, Stress, Backup, Recovery, Replication] {
            let of_test = Options::table().filter(|option| test.has_option(option));
            let mut names: Vec<_> = of_test.map(|option| option.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        }
        for option in Options::table() {
            assert!(!option.help.ends_with('.') && !option.default().is_empty(), "{}", option.name);
        }
    }

    #[test]
    fn a_default_value_can_be_set_explicitly() {
        for option in Options::table().filter(|option| option.default().parse::<f64>().is_ok()) {
            let mut options = Options::default();
            option.set(&mut options, OsStr::new(&option.default())).unwrap();
            assert_eq!(option.get(&options), [option.default()]);
        }
    }
}
