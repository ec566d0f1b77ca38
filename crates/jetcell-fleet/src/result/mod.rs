//! The result of a fleet: a single value that contains all numbers in its report, stored as `fleet.json`.
//!
//! `fleet_schema_version` is increased when a field is removed or its meaning changes, but not when fields are added.

mod judgement;
mod merge;
mod rows;

use jetcell_host::Evidence;
use std::collections::BTreeMap;

use jetcell_workload::measurement::{LatencyHistogram, LatencyTable};
use jetcell_workload::result::StandaloneLoad;
use jetcell_workload::{TestKind, Verdict, VerdictRule};
use serde::{Deserialize, Serialize};

use crate::coordinator::{Coordinator, LostHost, MessageCounts};
use crate::result_transfer::HostResult;

pub use merge::merge_results;
pub use rows::HostOutcome;

/// Format version.
pub const FLEET_SCHEMA_VERSION: u32 = 1;

/// The verdict on a fleet test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetVerdict {
    /// All rules for the fleet and for every host are met.
    Pass,
    /// A host does not meet a rule.
    Fail,
    /// The hosts did not measure at the same time, so the sums are meaningless.
    Invalid,
    /// The test was stopped early.
    Incomplete,
}

/// Totals for all fleet hosts with a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetTotals {
    /// Database reads and writes per second.
    pub achieved_transactional_iops: f64,
    /// Database reads per second.
    pub database_reads_per_second: f64,
    /// Database writes per second.
    pub database_writes_per_second: f64,
    /// Bytes of database reads and writes per second.
    pub database_bytes_per_second: f64,
    /// Log writes per second.
    pub log_writes_per_second: f64,
    /// Bytes of log writes per second.
    pub log_bytes_per_second: f64,
    /// Load operations per second.
    pub operations_per_second: f64,
    /// Number of databases.
    pub databases: usize,
    /// Total size of all databases at the end of the test, in bytes.
    pub database_bytes: u64,
}

/// Compares a fleet host's clock with the coordinator's clock, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostClock {
    /// The host's wall clock minus the coordinator's clock, accurate to within half of the round-trip time.
    pub offset_ms: f64,
    /// Shortest round-trip time of a message.
    pub round_trip_ms: f64,
    /// Maximum movement of the host's wall clock relative to its monotonic clock.
    pub moved_ms: f64,
}

/// Results of one fleet host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// Rank of the host.
    pub rank: u32,
    /// Name of the host.
    pub host: String,
    /// Outcome of the test on the host.
    pub outcome: HostOutcome,
    /// Verdict on the host's own test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Reason for the verdict, or for the outcome.
    pub reason: String,
    /// Information about the loss, if the host was declared lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostHost>,
    /// The host's own figures. The sums over all hosts have the same type.
    pub totals: FleetTotals,
    /// Mean latency of database reads in milliseconds.
    pub database_read_ms: f64,
    /// 99th percentile of the database read latency, in milliseconds.
    pub database_read_p99_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
    /// Length of the measurement in seconds.
    pub measured_seconds: f64,
    /// Start of the host's measurement relative to the common start, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew_ms: Option<f64>,
    /// Clock of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<HostClock>,
    /// Start and end of the host's measurement, in seconds after the common start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<(f64, f64)>,
    /// The host's figures when it ran alone, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<StandaloneLoad>,
    /// Reason why the host is a straggler, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler: Option<String>,
    /// Number of messages that the host ignored.
    pub ignored_messages: u64,
}

/// The database in a fleet with the highest mean read latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorstDatabase {
    /// Rank of its host.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Name of the database.
    pub database: String,
    /// Mean read latency of the database in milliseconds.
    pub database_read_ms: f64,
}

/// Result of a fleet test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetResult {
    /// Version of the format, [`FLEET_SCHEMA_VERSION`].
    pub fleet_schema_version: u32,
    /// Name of the fleet.
    pub name: String,
    /// Random identifier of the run.
    pub run: String,
    /// Kind of test.
    pub test: TestKind,
    /// The program, its command line, and the coordinator's machine.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Overall verdict.
    pub verdict: FleetVerdict,
    /// Reason for the verdict, in a sentence.
    pub reason: String,
    /// Rules of the fleet.
    pub rules: Vec<VerdictRule>,
    /// Start of the run on the coordinator's clock, in RFC 3339 format.
    pub started: String,
    /// End of the run.
    pub ended: String,
    /// Start of the common measurement; `None` if it was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_from: Option<String>,
    /// Length of the period during which all hosts with a result were measuring, in seconds.
    pub overlap_seconds: f64,
    /// Sums over all hosts.
    pub totals: FleetTotals,
    /// Latency percentiles over all hosts for each kind of I/O, in microseconds.
    pub latency: LatencyTable,
    /// Latency percentiles over all hosts for each kind of operation, in microseconds.
    pub operation_latency: LatencyTable,
    /// The latency distributions from which both tables are computed. Each is the sum of all hosts' distributions.
    pub histograms: BTreeMap<String, LatencyHistogram>,
    /// The database with the slowest reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_database: Option<WorstDatabase>,
    /// Rank of the host with the slowest reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_host: Option<u32>,
    /// One row for each host.
    pub hosts: Vec<HostRow>,
    /// Message counters of the coordinator.
    pub messages: MessageCounts,
    /// Peak resident memory of the coordinator, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_resident_bytes: Option<u64>,
}

/// Information about a fleet run that the coordinator itself does not record.
#[derive(Clone, Debug, Default)]
pub struct RunMetadata {
    /// The program, its command line, and the coordinator's machine.
    pub evidence: Evidence,
    /// Start of the run, in RFC 3339 format.
    pub started: String,
    /// End of the run.
    pub ended: String,
    /// Start of the common measurement.
    pub measured_from: Option<String>,
    /// Peak resident memory of this process, in bytes.
    pub peak_resident_bytes: Option<u64>,
}

impl FleetResult {
    /// Creates the result of a fleet run that has ended. `results` contains the hosts' results, by rank.
    pub fn new(
        fleet: &Coordinator,
        results: &BTreeMap<u32, HostResult>,
        metadata: RunMetadata,
    ) -> FleetResult {
        let mut hosts = rows::rows(fleet, results);
        if fleet.config().has_equal_options() {
            rows::mark_stragglers(&mut hosts);
        }
        let window = judgement::CommonMeasurementWindow::from_hosts(&hosts);
        let (verdict, reason, rules) = judgement::judge(fleet, &hosts, &window);
        let histograms = merge::histograms(results.values());
        let table = |keys: fn(&HostResult) -> &LatencyTable| -> LatencyTable {
            let names = results.values().flat_map(|one| keys(one).keys().cloned());
            let named_summary = |name: String| {
                let summary = histograms.get(&name).map(LatencyHistogram::summary).unwrap_or_default();
                (name, summary)
            };
            names.map(named_summary).collect()
        };
        let slowest = |a: &&HostRow, b: &&HostRow| a.database_read_ms.total_cmp(&b.database_read_ms);
        let measured = hosts.iter().filter(|host| host.database_read_ms > 0.0);
        FleetResult {
            fleet_schema_version: FLEET_SCHEMA_VERSION,
            name: fleet.config().name.clone(),
            run: fleet.run().into(),
            test: fleet.config().test,
            evidence: metadata.evidence,
            verdict,
            reason,
            rules,
            started: metadata.started,
            ended: metadata.ended,
            measured_from: metadata.measured_from,
            overlap_seconds: window.overlap_seconds,
            totals: rows::sum(&hosts),
            latency: table(|one| &one.result.latency),
            operation_latency: table(|one| &one.result.operation_latency),
            worst_database: rows::worst_database(&hosts, results),
            worst_host: measured.max_by(slowest).map(|host| host.rank),
            histograms,
            messages: fleet.message_counts(),
            peak_resident_bytes: metadata.peak_resident_bytes,
            hosts,
        }
    }
}

#[cfg(test)]
mod tests;
