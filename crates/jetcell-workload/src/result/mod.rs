//! The result of a run: one value that holds every number a report shows, stored as `result.json`.
//!
//! `schema_version` is raised when a field changes its meaning or is removed. New fields do not raise it.

mod alone;
mod arithmetic;
mod backup;
mod doubts;
mod energy;
mod instance_row;
mod judge;
mod recovery;
mod replication;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use jetcell_input::{bounded_list, bounded_map};
use jetcell_vfs::UnfinishedFile;
use serde::{Deserialize, Serialize};

use crate::fragmentation::FragmentationChange;
use crate::layout::Plan;
use crate::machine::Machine;
use crate::measurement::{
    ArraySample, DefragSummary, HostUse, Latencies, LatencyTable, Limit, LogCopies, OpenLoop, Repetitions,
    Saturation, ScanSummary, SteadyState, TaskImpact, Trend, Verification,
};
use crate::observer::Phase;
use crate::profile::{Profile, TestKind};
use crate::verdict::{Rule, Verdict};

pub use alone::Alone;
pub use arithmetic::{Summary, achieved_iops, three_decimals, total, total_log_reads, total_reads, without};
pub use backup::{Backup, BackupCost, BackupSample, DatabaseBackup, LoadFigures};
pub(crate) use doubts::{Grounds, doubts};
pub use energy::RunEnergy;
pub use instance_row::InstanceRow;
pub use judge::{Evidence, Judgement, judge};
pub use recovery::{Recovery, ReplaySample, ReplayedDatabase};
pub use replication::{
    CopySample, MissingLog, ReplicatedCopy, Replication, ReplicationPart, ReplicationSample, SideFigure,
    SideIo,
};

/// Version of the layout below.
pub const SCHEMA_VERSION: u32 = 2;

/// Work of the load in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Completed operations by kind.
    pub counts: BTreeMap<String, u64>,
    /// Operations per second.
    pub per_second: f64,
    /// Batches dispatched to each database.
    pub batches: Vec<u64>,
    /// Operations that failed because another thread held the record.
    pub conflicts: u64,
    /// Operations that found no record.
    pub misses: u64,
    /// Records whose content is not what was written.
    pub wrong_records: u64,
    /// Descriptions of the first wrong records.
    pub wrong: Vec<String>,
}

/// Maximum number of databases in a stored result; a profile has at most 999.
const MAX_DATABASES: usize = 4096;
/// Maximum number of latency histograms in a stored result; there is one for each kind of I/O and operation. One takes up to 200 KiB in
/// memory, regardless of the length of its text.
const MAX_HISTOGRAMS: usize = 64;

/// Analysis of the figures: steady state, limiting factor, and use of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// `None` if there are too few samples.
    pub steady_state: Option<SteadyState>,
    /// `None` if nothing was measured.
    pub limit: Option<Limit>,
    /// `None` with one repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<Repetitions>,
    /// The cost of each task of maintenance, the load alone first; empty if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance_impact: Vec<TaskImpact>,
    /// `None` without a search for the highest rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// `None` without a target rate. The rate may be the result of a search.
    pub open_loop: Option<OpenLoop>,
    /// The machine over the measured time.
    pub host: HostUse,
    /// The machine in each interval of `samples.csv`.
    pub host_samples: Vec<HostUse>,
    /// Arrays below the databases in each interval of `samples.csv`. Empty if they are on none.
    #[serde(default)]
    pub array_samples: Vec<ArraySample>,
}

/// Duration of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: Phase,
    /// Seconds.
    pub seconds: f64,
    /// Processor time of the process in seconds; 0 in results of earlier versions.
    #[serde(default)]
    pub processor_seconds: f64,
}

/// A part of a stress test, up to an interruption or its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Start, RFC 3339.
    pub started: String,
    /// Last time at which it is known to have run, RFC 3339.
    pub ended: String,
    /// Measured time in seconds.
    pub measured_seconds: f64,
    /// Of a part that was interrupted, the longest time in seconds that a stored state left out: how much is missing behind
    /// `measured_seconds` at most, unless the storage stood still at the end.
    #[serde(default)]
    pub missing_seconds: f64,
}

/// Everything about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The kind of test; results without this field are of performance tests.
    #[serde(default)]
    pub test: TestKind,
    /// Version of this program.
    pub jetcell_version: String,
    /// Overall outcome.
    pub verdict: Verdict,
    /// Reason for the verdict, in a sentence.
    pub reason: String,
    /// The rules behind it.
    pub rules: Vec<Rule>,
    /// Why the figures may not be what the storage can do; empty if there is no reason to doubt them, or if nothing was
    /// measured.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Database reads and writes per second, all instances.
    pub achieved_transactional_iops: f64,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// End of the run, RFC 3339.
    pub ended: String,
    /// Length of the measured time in seconds.
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
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_DATABASES>")]
    pub instances: Vec<InstanceRow>,
    /// Percentiles in microseconds per kind of I/O, all instances: `database_read`, `database_write`, `log_read`,
    /// `log_write`, `log_format`, and `scan_read` of the checksum scan.
    pub latency: LatencyTable,
    /// Percentiles in microseconds per kind of operation, from when it was due in an open loop, and of durable commits.
    pub operation_latency: LatencyTable,
    /// The distributions behind both tables, by the same names; see [`Latencies`].
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "bounded_map::<_, _, _, MAX_HISTOGRAMS>"
    )]
    pub histograms: BTreeMap<String, Latencies>,
    /// Work of the load.
    pub operations: Operations,
    /// Steady state, limit, open loop and host counters.
    #[serde(default)]
    pub analysis: Analysis,
    /// The background checksum scan of each database; empty without a scan.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub scan: Vec<ScanSummary>,
    /// The online defragmentation of each database beside the load; empty without one.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub defragmentation: Vec<DefragSummary>,
    /// Where each database was on its device before and after the load; empty without a load, and where the file system does not tell.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub fragmentation: Vec<FragmentationChange>,
    /// Energy of the measured time; `None` without a meter or a log of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<RunEnergy>,
    /// Simulated log reads of further copies of each database; empty without copies.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub copies: Vec<LogCopies>,
    /// The parts of a stress test: more than one if it was interrupted and continued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// How the figures of a stress test changed over its time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trends: Vec<Trend>,
    /// The backup of a backup test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// The replay of a recovery test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The copies of a replication test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication: Option<Replication>,
    /// The load alone, if it was measured before that of other hosts ran beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
    /// Cache in use at the end, in bytes.
    pub cache_used_bytes: u64,
    /// Waits for a free cache page in the measured time.
    pub page_fault_stalls: u64,
    /// Highest resident memory of the process, in bytes.
    pub peak_resident_bytes: Option<u64>,
    /// Failed transfers.
    pub io_errors: u64,
    /// `None` if the run ended before the verification.
    pub verification: Option<Verification>,
    /// Lines of the test log.
    pub log: Vec<String>,
    /// The profile of the run.
    pub configuration: Profile,
    /// The files of the run.
    pub plan: Plan,
    /// The machine of the run.
    pub machine: Machine,
}

impl RunResult {
    /// Length in seconds of what the test is for: the replay, the backup, or the measured load.
    pub fn tested_seconds(&self) -> f64 {
        match (&self.backup, &self.recovery) {
            (_, Some(recovery)) => recovery.seconds,
            (Some(backup), _) => backup.seconds,
            _ => self.measured_seconds,
        }
    }

    /// The stored form.
    pub fn to_json(&self) -> String {
        let mut text = jetcell_input::json_pretty(self).expect("results have only string keys");
        text.push('\n');
        text
    }

    /// Writes the file atomically and syncs it.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        self.unfinished(path)?.finish()
    }

    /// Writes the file atomically without a sync, so that it may be lost in a power failure.
    pub(crate) fn write_unsynced(&self, path: &Path) -> io::Result<()> {
        self.unfinished(path)?.finish_unsynced()
    }

    fn unfinished(&self, path: &Path) -> io::Result<UnfinishedFile> {
        let mut file = UnfinishedFile::create(path)?;
        file.write_all(self.to_json().as_bytes())?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the feature `float_roundtrip` of serde_json, every sixth of these is read as a neighbouring number.
    #[test]
    fn numbers_of_a_stored_result_are_read_back_exactly() {
        for number in 1..5_000_u32 {
            let part = Part { measured_seconds: f64::from(number).sqrt() * 1e-3, ..Part::default() };
            let text = serde_json::to_string(&part).unwrap();
            assert_eq!(serde_json::from_str::<Part>(&text).unwrap(), part, "{text}");
        }
    }
}
