//! The result of a run: one value that contains every number in a report. It is stored as `result.json`.
//!
//! `schema_version` is increased whenever a field is removed or changes its meaning. New fields do not increase it.

mod alone;
mod arithmetic;
mod backup;
mod doubts;
mod energy;
mod instance_row;
mod judge;
mod measured_window;
mod recovery;
mod replication;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jetcell_input::{bounded_list, bounded_map, json_pretty};
use jetcell_vfs::{UnfinishedFile, replace_output};
use serde::{Deserialize, Serialize};

use crate::fragmentation::FragmentationChange;
use crate::layout::RunPlan;
use crate::measurement::{
    ArraySample, DefragSummary, HostUsage, LatencyHistogram, LatencyTable, LimitAnalysis, LogCopySummary,
    OpenLoopBacklog, PageDamageCounts, Repetitions, SaturationSearch, ScanSummary, SteadyState, TaskImpact,
    Trend, VerificationResult,
};
use crate::observer::RunPhase;
use crate::profile::{Profile, TestKind};
use crate::verdict::{Verdict, VerdictRule};
use jetcell_host::Evidence;

pub use alone::StandaloneLoad;
pub use arithmetic::{EsrpSummary, achieved_iops, subtract, total, total_log_reads, total_reads};
pub use backup::{BackupCost, BackupSample, BackupTestResult, DatabaseBackup, LoadFigures};
pub(crate) use doubts::{DoubtInputs, doubts};
pub use energy::RunEnergy;
pub use instance_row::InstanceRow;
pub use judge::{Judgement, VerdictEvidence, judge};
pub use measured_window::NoMeasuredWindow;
pub use recovery::{RecoveryTestResult, ReplaySample, ReplayedDatabase};
pub use replication::{
    CopySample, MissingLogAmount, ReplicatedCopy, ReplicationPart, ReplicationSample, ReplicationSideIo,
    ReplicationTestResult, SideFigure,
};

/// Version of the stored format.
pub const SCHEMA_VERSION: u32 = 2;

/// Counts of operations that the load performed during the measured interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationCounts {
    /// Number of completed operations by kind.
    pub counts: BTreeMap<String, u64>,
    /// Operations per second.
    pub per_second: f64,
    /// Number of batches dispatched to each database.
    pub batches: Vec<u64>,
    /// Number of operations that failed because another thread had locked the record.
    pub conflicts: u64,
    /// Number of operations that found no record.
    pub misses: u64,
    /// Number of records whose content differs from what was written.
    pub wrong_records: u64,
    /// Descriptions of the first records found to have wrong content.
    pub wrong: Vec<String>,
}

/// Maximum number of databases in a stored result. A profile has at most 999.
const MAX_DATABASES: usize = 4096;
/// Maximum number of latency histograms in a stored result. There is one for each kind of I/O and each kind of
/// operation. A histogram takes up to 200 KiB of memory, regardless of the length of its text.
const MAX_HISTOGRAMS: usize = 64;

/// Analysis of a run's measurements: steady state, limiting factor, and the machine's resource usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunAnalysis {
    /// Steady-state analysis, or `None` if there are too few samples.
    pub steady_state: Option<SteadyState>,
    /// Limiting factor, or `None` if nothing was measured.
    pub limit: Option<LimitAnalysis>,
    /// Repetitions with their confidence intervals, or `None` if there is only one repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<Repetitions>,
    /// Cost of each maintenance task. The load without maintenance comes first. Empty if the cost was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance_impact: Vec<TaskImpact>,
    /// Search for the highest rate, if the run included one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<SaturationSearch>,
    /// Deviation from the target rate, or `None` without a target rate. The target rate may be the result of a
    /// search.
    pub open_loop: Option<OpenLoopBacklog>,
    /// The machine's resource usage over the measured interval.
    pub host: HostUsage,
    /// The machine's resource usage in each interval of `samples.csv`.
    pub host_samples: Vec<HostUsage>,
    /// Array activity in each interval of `samples.csv`. Empty if no database is on an array.
    #[serde(default)]
    pub array_samples: Vec<ArraySample>,
}

/// Duration of one phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: RunPhase,
    /// Duration in seconds.
    pub seconds: f64,
    /// Processor time used by the process, in seconds. Zero in results written by earlier versions.
    #[serde(default)]
    pub processor_seconds: f64,
}

/// A part of a stress test. It ends with an interruption or at the end of the test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestPart {
    /// Start time in RFC 3339 format.
    pub started: String,
    /// Last time at which the part is known to have run, in RFC 3339 format.
    pub ended: String,
    /// Measured time in seconds.
    pub measured_seconds: f64,
    /// Maximum number of seconds by which `measured_seconds` may be too short if the part was interrupted. It is the
    /// longest time not covered by a stored state. The true value may be larger if the storage stalled at the end.
    #[serde(default)]
    pub missing_seconds: f64,
}

/// Complete result of a test run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of the stored format: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Kind of test. Results without this field are from performance tests.
    #[serde(default)]
    pub test: TestKind,
    /// The program, its command line, the machine and the storage.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Overall outcome.
    pub verdict: Verdict,
    /// Reason for the verdict, as a sentence.
    pub reason: String,
    /// Rules that determine the verdict.
    pub rules: Vec<VerdictRule>,
    /// Reasons why the figures may not reflect the capability of the storage. Empty if there are none, or if nothing
    /// was measured.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Database reads and writes per second, over all instances.
    pub achieved_transactional_iops: f64,
    /// Start of the run in RFC 3339 format.
    pub started: String,
    /// End of the run in RFC 3339 format.
    pub ended: String,
    /// Length of the measured interval in seconds.
    pub measured_seconds: f64,
    /// Phases in order, with their durations.
    pub phases: Vec<PhaseTime>,
    /// Total size of all databases before the load, in bytes.
    pub initial_database_bytes: u64,
    /// Total size of all databases at the end, in bytes.
    pub final_database_bytes: u64,
    /// Number of databases.
    pub database_files: usize,
    /// One row per instance.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_DATABASES>")]
    pub instances: Vec<InstanceRow>,
    /// Latency percentiles in microseconds for each kind of I/O, over all instances: `database_read`,
    /// `database_write`, `log_read`, `log_write`, `log_format`, and `scan_read` for the checksum scan.
    pub latency: LatencyTable,
    /// Latency percentiles in microseconds for each kind of operation, and for durable commits. In an open loop, the
    /// latency of an operation is measured from when it was due.
    pub operation_latency: LatencyTable,
    /// Distributions for both latency tables, under the same names. See [`LatencyHistogram`].
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "bounded_map::<_, _, _, MAX_HISTOGRAMS>"
    )]
    pub histograms: BTreeMap<String, LatencyHistogram>,
    /// Work done by the load.
    pub operations: OperationCounts,
    /// Analysis: steady state, limiting factor, open loop and host counters.
    #[serde(default)]
    pub analysis: RunAnalysis,
    /// Summary of each database's background checksum scan. Empty without a scan.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub scan: Vec<ScanSummary>,
    /// Summary of each database's online defragmentation during the load. Empty without defragmentation.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub defragmentation: Vec<DefragSummary>,
    /// Fragmentation of each database on its device before and after the load. Empty if there was no load or the file
    /// system does not report locations.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub fragmentation: Vec<FragmentationChange>,
    /// Energy used during the measured interval, or `None` without a meter or power log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<RunEnergy>,
    /// Simulated log reads for the additional copies of each database. Empty without such copies.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded_list::<_, _, MAX_DATABASES>"
    )]
    pub copies: Vec<LogCopySummary>,
    /// Parts of a stress test. There is more than one part if the test was interrupted and resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<TestPart>,
    /// Change of a stress test's figures over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trends: Vec<Trend>,
    /// Results of the backup test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupTestResult>,
    /// Results of the recovery test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryTestResult>,
    /// Results of the replication test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication: Option<ReplicationTestResult>,
    /// Figures for the load alone, if they were measured before the loads of other hosts ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<StandaloneLoad>,
    /// Bytes of the cache in use at the end of the run.
    pub cache_used_bytes: u64,
    /// Number of waits for a free cache page during the measured interval.
    pub page_fault_stalls: u64,
    /// Peak resident memory of the process, in bytes.
    pub peak_resident_bytes: Option<u64>,
    /// Number of failed transfers.
    pub io_errors: u64,
    /// Damage to pages that the engine detected.
    #[serde(default)]
    pub damage: PageDamageCounts,
    /// Result of the verification, or `None` if the run ended before it.
    pub verification: Option<VerificationResult>,
    /// Lines of the test log.
    pub log: Vec<String>,
    /// Profile of the run.
    pub configuration: Profile,
    /// Plan of the run, with its files.
    pub plan: RunPlan,
}

impl RunResult {
    /// Returns the duration of the activity under test, in seconds: the replay, the backup, or the measured load.
    pub fn tested_seconds(&self) -> f64 {
        match (&self.backup, &self.recovery) {
            (_, Some(recovery)) => recovery.seconds,
            (Some(backup), _) => backup.seconds,
            _ => self.measured_seconds,
        }
    }

    /// Returns the profile whose configuration file and command line repeat the run: directories on an array are
    /// given as `array:DIR`.
    pub fn repeatable_profile(&self) -> Profile {
        let prefixed = |directory: &PathBuf| {
            if self.evidence.machine.is_on_array(directory) {
                let mut named = OsString::from("array:");
                named.push(directory);
                named.into()
            } else {
                directory.clone()
            }
        };
        let profile = &self.configuration;
        Profile {
            dirs: profile.dirs.iter().map(prefixed).collect(),
            log_dirs: profile.log_dirs.iter().map(prefixed).collect(),
            ..profile.clone()
        }
    }

    /// Writes the result to a file atomically and syncs it.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        replace_output(path, json_pretty(self)?)
    }

    /// Writes the result to a file atomically, but without a sync. A power failure may lose the file.
    pub(crate) fn write_unsynced(&self, path: &Path) -> io::Result<()> {
        let mut file = UnfinishedFile::create(path)?;
        file.write_all(json_pretty(self)?.as_bytes())?;
        file.finish_unsynced()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verifies that numbers are read back exactly. Without `serde_json`'s `float_roundtrip` feature, about a sixth
    /// of these numbers would be read as an adjacent number.
    #[test]
    fn numbers_in_a_stored_result_round_trip_exactly() {
        for number in 1..5_000_u32 {
            let part = TestPart { measured_seconds: f64::from(number).sqrt() * 1e-3, ..TestPart::default() };
            let text = serde_json::to_string(&part).unwrap();
            assert_eq!(serde_json::from_str::<TestPart>(&text).unwrap(), part, "{text}");
        }
    }
}
