//! The result of a run: one value that holds every number a report shows, stored as `result.json`.
//!
//! `schema_version` is raised when a field changes its meaning or goes away; new fields do not raise it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::HostUse;
use crate::limit::Limit;
use crate::machine::Machine;
use crate::measure::{IoRates, Latencies, LatencyTable};
use crate::pace::OpenLoop;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::repeat::Repetitions;
use crate::saturation::Saturation;
use crate::scan::ScanSummary;
use crate::steady::SteadyState;
use crate::watch::Phase;

/// Version of the layout below.
pub const SCHEMA_VERSION: u32 = 2;

/// Overall outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every rule held.
    Pass,
    /// A rule was broken.
    Fail,
    /// The run ended before it could be judged.
    Incomplete,
}

/// One rule of the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// What it is about, with its unit.
    pub name: String,
    /// Whether the measured value must be at most or at least the limit.
    pub bound: Bound,
    /// The limit.
    pub limit: f64,
    /// What was measured: the worst of all instances.
    pub measured: f64,
    /// Whether it held.
    pub passed: bool,
    /// Where the measured value is from, and what to look at when the rule is broken.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Direction of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Measured ≤ limit.
    AtMost,
    /// Measured ≥ limit.
    AtLeast,
}

/// One instance with the rows of Jetstress's table "Transactional I/O Performance", under their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceRow {
    /// `Instance<pid>.<number>`.
    #[serde(rename = "MSExchange Database ==> Instances")]
    pub instance: String,
    /// Database file.
    pub database: PathBuf,
    /// Log directory.
    pub log_path: PathBuf,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Reads Average Latency (msec)")]
    pub database_reads_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Writes Average Latency (msec)")]
    pub database_writes_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Reads/sec")]
    pub database_reads_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Writes/sec")]
    pub database_writes_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Reads Average Bytes")]
    pub database_reads_average_bytes: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Writes Average Bytes")]
    pub database_writes_average_bytes: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Reads Average Latency (msec)")]
    pub log_reads_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Writes Average Latency (msec)")]
    pub log_writes_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Reads/sec")]
    pub log_reads_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Writes/sec")]
    pub log_writes_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Reads Average Bytes")]
    pub log_reads_average_bytes: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Writes Average Bytes")]
    pub log_writes_average_bytes: f64,
    /// Highest average of any sample, database reads.
    pub maximum_database_read_ms: f64,
    /// Highest average of any sample, log writes.
    pub maximum_log_write_ms: f64,
    /// Reads of the background checksum scan, which are none of the database reads above.
    #[serde(rename = "Database Maintenance IO Reads/sec", default)]
    pub maintenance_reads_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "Database Maintenance IO Reads Average Bytes", default)]
    pub maintenance_reads_average_bytes: f64,
}

impl InstanceRow {
    /// The twelve Jetstress rows with their names, in Jetstress's order.
    pub fn jetstress_rows(&self) -> [(&'static str, f64); 12] {
        [
            ("I/O Database Reads Average Latency (msec)", self.database_reads_average_latency_ms),
            ("I/O Database Writes Average Latency (msec)", self.database_writes_average_latency_ms),
            ("I/O Database Reads/sec", self.database_reads_per_second),
            ("I/O Database Writes/sec", self.database_writes_per_second),
            ("I/O Database Reads Average Bytes", self.database_reads_average_bytes),
            ("I/O Database Writes Average Bytes", self.database_writes_average_bytes),
            ("I/O Log Reads Average Latency (msec)", self.log_reads_average_latency_ms),
            ("I/O Log Writes Average Latency (msec)", self.log_writes_average_latency_ms),
            ("I/O Log Reads/sec", self.log_reads_per_second),
            ("I/O Log Writes/sec", self.log_writes_per_second),
            ("I/O Log Reads Average Bytes", self.log_reads_average_bytes),
            ("I/O Log Writes Average Bytes", self.log_writes_average_bytes),
        ]
    }

    /// The rows of Jetstress's table "Background Database Maintenance I/O Performance".
    pub fn maintenance_rows(&self) -> [(&'static str, f64); 2] {
        [
            ("Database Maintenance IO Reads/sec", self.maintenance_reads_per_second),
            ("Database Maintenance IO Reads Average Bytes", self.maintenance_reads_average_bytes),
        ]
    }

    /// Fills the rows from rates.
    pub fn with_rates(
        mut self,
        reads: IoRates,
        writes: IoRates,
        log_reads: IoRates,
        log_writes: IoRates,
    ) -> InstanceRow {
        self.database_reads_average_latency_ms = reads.average_ms;
        self.database_reads_per_second = reads.per_second;
        self.database_reads_average_bytes = reads.average_bytes;
        self.database_writes_average_latency_ms = writes.average_ms;
        self.database_writes_per_second = writes.per_second;
        self.database_writes_average_bytes = writes.average_bytes;
        self.log_reads_average_latency_ms = log_reads.average_ms;
        self.log_reads_per_second = log_reads.per_second;
        self.log_reads_average_bytes = log_reads.average_bytes;
        self.log_writes_average_latency_ms = log_writes.average_ms;
        self.log_writes_per_second = log_writes.per_second;
        self.log_writes_average_bytes = log_writes.average_bytes;
        self
    }

    /// A row without figures.
    pub fn named(instance: String, database: PathBuf, log_path: PathBuf) -> InstanceRow {
        InstanceRow {
            instance,
            database,
            log_path,
            database_reads_average_latency_ms: 0.0,
            database_writes_average_latency_ms: 0.0,
            database_reads_per_second: 0.0,
            database_writes_per_second: 0.0,
            database_reads_average_bytes: 0.0,
            database_writes_average_bytes: 0.0,
            log_reads_average_latency_ms: 0.0,
            log_writes_average_latency_ms: 0.0,
            log_reads_per_second: 0.0,
            log_writes_per_second: 0.0,
            log_reads_average_bytes: 0.0,
            log_writes_average_bytes: 0.0,
            maximum_database_read_ms: 0.0,
            maximum_log_write_ms: 0.0,
            maintenance_reads_per_second: 0.0,
            maintenance_reads_average_bytes: 0.0,
        }
    }
}

/// Work of the load in the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Completed operations by kind.
    pub counts: BTreeMap<String, u64>,
    /// Operations per second.
    pub per_second: f64,
    /// Batches dispatched to each database.
    pub batches: Vec<u64>,
    /// Operations given up because another thread had changed the record.
    pub conflicts: u64,
    /// Operations that found no record.
    pub misses: u64,
    /// Records that were not what was written.
    pub wrong_records: u64,
    /// The first of them.
    pub wrong: Vec<String>,
}

/// What the figures mean: whether they had settled, what limited them, and what the machine did meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// `None` when there are too few samples to say.
    pub steady_state: Option<SteadyState>,
    /// `None` when nothing was measured.
    pub limit: Option<Limit>,
    /// Only with more than one repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<Repetitions>,
    /// Only with a search for the highest rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// Only with a target rate, also one that a search has found.
    pub open_loop: Option<OpenLoop>,
    /// The machine over the measured time.
    pub host: HostUse,
    /// The machine in each interval of `samples.csv`.
    pub host_samples: Vec<HostUse>,
}

/// What reading everything again has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Databases and logs.
    pub files: Vec<FileVerification>,
    /// How long it took.
    pub seconds: f64,
}

/// One verified file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileVerification {
    /// The file.
    pub path: PathBuf,
    /// Pages or log segments read.
    pub blocks: u64,
    /// Those that are damaged.
    pub bad: u64,
    /// Those with one wrong bit, which was corrected in memory.
    pub repaired: u64,
    /// What is wrong, one line each; only the first ones of many.
    pub findings: Vec<String>,
}

/// How long a phase took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: Phase,
    /// Seconds.
    pub seconds: f64,
}

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of this program.
    pub jetcell_version: String,
    /// Overall outcome.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub reason: String,
    /// The rules behind it.
    pub rules: Vec<Rule>,
    /// Database reads and writes per second, all instances.
    pub achieved_transactional_iops: f64,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// End of the run, RFC 3339.
    pub ended: String,
    /// Length of the measured window.
    pub measured_seconds: f64,
    /// Phases in order.
    pub phases: Vec<PhaseTime>,
    /// Bytes in all databases before the load.
    pub initial_database_bytes: u64,
    /// Bytes in all databases at the end.
    pub final_database_bytes: u64,
    /// Number of databases.
    pub database_files: usize,
    /// One row per instance.
    pub instances: Vec<InstanceRow>,
    /// Percentiles in microseconds per kind of I/O, all instances: `database_read`, `database_write`, `log_read`,
    /// `log_write`, `log_format`, and `scan_read` of the checksum scan.
    pub latency: LatencyTable,
    /// Percentiles in microseconds per kind of operation, from when it was due in an open loop, and of durable commits.
    pub operation_latency: LatencyTable,
    /// The distributions behind both tables, by the same names; see [`Latencies`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub histograms: BTreeMap<String, Latencies>,
    /// Work of the load.
    pub operations: Operations,
    /// Steady state, limit, open loop and host counters.
    #[serde(default)]
    pub analysis: Analysis,
    /// The background checksum scan, per database; empty when there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scan: Vec<ScanSummary>,
    /// Cache in use at the end, in bytes.
    pub cache_used_bytes: u64,
    /// Waits for a free cache page in the window.
    pub page_fault_stalls: u64,
    /// Highest resident memory of the process, in bytes.
    pub peak_resident_bytes: Option<u64>,
    /// Failed transfers.
    pub io_errors: u64,
    /// `None` when the run ended before it.
    pub verification: Option<Verification>,
    /// Lines of the test log.
    pub log: Vec<String>,
    /// What was run.
    pub configuration: Profile,
    /// On which files.
    pub plan: Plan,
    /// On which machine.
    pub machine: Machine,
}

impl RunResult {
    /// The stored form.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("results have only string keys");
        text.push('\n');
        text
    }

    /// Writes the file whole or not at all.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        self.write_aside(path, File::sync_all)
    }

    /// Same, unless the machine stops before the kernel has written it.
    pub(crate) fn write_unsynced(&self, path: &Path) -> io::Result<()> {
        self.write_aside(path, |_| Ok(()))
    }

    fn write_aside(&self, path: &Path, sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        let unfinished = path.with_extension("json.tmp");
        let mut file = File::create(&unfinished)?;
        file.write_all(self.to_json().as_bytes())?;
        sync(&file)?;
        fs::rename(&unfinished, path)
    }
}
