//! The result of a run: one value that holds every number a report shows, stored as `result.json`.
//!
//! `schema_version` is raised when a field changes its meaning or goes away; new fields do not raise it.

mod arithmetic;
mod instance_row;
mod judge;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::layout::Plan;
use crate::machine::Machine;
use crate::measurement::{
    HostUse, Latencies, LatencyTable, Limit, OpenLoop, Repetitions, Saturation, ScanSummary, SteadyState,
    Verification,
};
use crate::observer::Phase;
use crate::profile::Profile;
use crate::verdict::{Rule, Verdict};

pub use arithmetic::{Summary, achieved_iops, three_decimals, total_reads, without};
pub use instance_row::InstanceRow;
pub use judge::{Evidence, Judgement, judge};

/// Version of the layout below.
pub const SCHEMA_VERSION: u32 = 2;

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
