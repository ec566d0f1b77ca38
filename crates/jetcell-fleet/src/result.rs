//! The result of a fleet: one value that holds every number of its report, stored as `fleet.json`.
//!
//! `fleet_schema_version` is raised when a field changes its meaning or is removed. New fields do not raise it.

mod judgement;
mod merge;
mod rows;

use std::collections::BTreeMap;

use jetcell_workload::measurement::{Latencies, LatencyTable};
use jetcell_workload::result::Alone;
use jetcell_workload::{Rule, TestKind, Verdict};
use serde::{Deserialize, Serialize};

use crate::coordinator::{Coordinator, Lost, MessageCounts};
use crate::parcel::HostResult;

pub use merge::merged;
pub use rows::HostOutcome;

/// Version of the layout.
pub const FLEET_SCHEMA_VERSION: u32 = 1;

/// The outcome of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetVerdict {
    /// All rules of the fleet and of every host hold.
    Pass,
    /// A rule of a host is broken.
    Fail,
    /// The hosts did not test the same time together, so the sums say nothing.
    Invalid,
    /// The test was stopped before its time.
    Incomplete,
}

/// Sums over all hosts that have a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetTotals {
    /// Database reads and writes per second.
    pub achieved_transactional_iops: f64,
    /// Database reads per second.
    pub database_reads_per_second: f64,
    /// Database writes per second.
    pub database_writes_per_second: f64,
    /// Bytes of these reads and writes per second.
    pub database_bytes_per_second: f64,
    /// Log writes per second.
    pub log_writes_per_second: f64,
    /// Bytes of these per second.
    pub log_bytes_per_second: f64,
    /// Operations of the load per second.
    pub operations_per_second: f64,
    /// Databases.
    pub databases: usize,
    /// Bytes in all databases at the end.
    pub database_bytes: u64,
}

/// The clock of a host beside that of the coordinator, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostClock {
    /// Wall clock of the host less that of the coordinator, known to half of the round trip.
    pub offset_ms: f64,
    /// Shortest round trip of a message.
    pub round_trip_ms: f64,
    /// How far the wall clock of the host moved against its monotonic one, at most.
    pub moved_ms: f64,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// Its rank.
    pub rank: u32,
    /// Its name.
    pub host: String,
    /// What became of it.
    pub outcome: HostOutcome,
    /// The verdict on its own test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The reason of that verdict, or of its outcome.
    pub reason: String,
    /// When it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
    /// Its figures, as [`FleetTotals`] has them for all.
    pub totals: FleetTotals,
    /// Mean latency of database reads in milliseconds.
    pub database_read_ms: f64,
    /// 99th percentile of these.
    pub database_read_p99_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
    /// Length of its measured time in seconds.
    pub measured_seconds: f64,
    /// Begin of its measured time after the common one, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew_ms: Option<f64>,
    /// Its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<HostClock>,
    /// Begin and end of its measured time in seconds after the common begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<(f64, f64)>,
    /// Its figures alone, if they were measured before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
    /// Why it is a straggler, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler: Option<String>,
    /// Messages that it ignored.
    pub ignored_messages: u64,
}

/// The database with the highest mean latency of reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorstDatabase {
    /// Rank of its host.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Its name.
    pub database: String,
    /// Mean latency of its reads in milliseconds.
    pub database_read_ms: f64,
}

/// The result of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetResult {
    /// [`FLEET_SCHEMA_VERSION`].
    pub fleet_schema_version: u32,
    /// Name of the fleet.
    pub name: String,
    /// Random number of the run.
    pub run: String,
    /// The kind of test.
    pub test: TestKind,
    /// Version of this program.
    pub jetcell_version: String,
    /// Overall outcome.
    pub verdict: FleetVerdict,
    /// Reason for the verdict, in a sentence.
    pub reason: String,
    /// The rules of the fleet.
    pub rules: Vec<Rule>,
    /// Begin of the run on the coordinator's clock, RFC 3339.
    pub started: String,
    /// Its end.
    pub ended: String,
    /// Begin of the common measured time; `None` if it was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_from: Option<String>,
    /// Time in seconds that every host with a result measured.
    pub overlap_seconds: f64,
    /// Sums.
    pub totals: FleetTotals,
    /// Percentiles in microseconds per kind of I/O, all hosts.
    pub latency: LatencyTable,
    /// Percentiles in microseconds per kind of operation, all hosts.
    pub operation_latency: LatencyTable,
    /// The distributions behind both tables: those of all hosts added up.
    pub histograms: BTreeMap<String, Latencies>,
    /// The database with the slowest reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_database: Option<WorstDatabase>,
    /// Rank of the host with the slowest reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_host: Option<u32>,
    /// One row for each host.
    pub hosts: Vec<HostRow>,
    /// Messages of the coordinator.
    pub messages: MessageCounts,
    /// Highest resident memory of the coordinator, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_resident_bytes: Option<u64>,
}

/// Facts that the coordinator does not know.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// Begin of the run, RFC 3339.
    pub started: String,
    /// Its end.
    pub ended: String,
    /// Begin of the common measured time.
    pub measured_from: Option<String>,
    /// Highest resident memory of this process.
    pub peak_resident_bytes: Option<u64>,
}

impl FleetResult {
    /// The result of a fleet whose run is over. `results` are those that hosts handed in, by rank.
    pub fn of(
        fleet: &Coordinator,
        results: &BTreeMap<u32, HostResult>,
        circumstances: Circumstances,
    ) -> FleetResult {
        let mut hosts = rows::rows(fleet, results);
        if fleet.config().has_equal_options() {
            rows::name_stragglers(&mut hosts);
        }
        let window = judgement::CommonWindow::of(&hosts);
        let (verdict, reason, rules) = judgement::judge(fleet, &hosts, &window);
        let histograms = merge::histograms(results.values());
        let table = |keys: fn(&HostResult) -> &LatencyTable| -> LatencyTable {
            let names = results.values().flat_map(|one| keys(one).keys().cloned());
            let of = |name: String| {
                let summary = histograms.get(&name).map(Latencies::summary).unwrap_or_default();
                (name, summary)
            };
            names.map(of).collect()
        };
        let slowest = |a: &&HostRow, b: &&HostRow| a.database_read_ms.total_cmp(&b.database_read_ms);
        let measured = hosts.iter().filter(|host| host.database_read_ms > 0.0);
        FleetResult {
            fleet_schema_version: FLEET_SCHEMA_VERSION,
            name: fleet.config().name.clone(),
            run: fleet.run().into(),
            test: fleet.config().test,
            jetcell_version: env!("CARGO_PKG_VERSION").into(),
            verdict,
            reason,
            rules,
            started: circumstances.started,
            ended: circumstances.ended,
            measured_from: circumstances.measured_from,
            overlap_seconds: window.overlap_seconds,
            totals: rows::sum(&hosts),
            latency: table(|one| &one.result.latency),
            operation_latency: table(|one| &one.result.operation_latency),
            worst_database: rows::worst_database(&hosts, results),
            worst_host: measured.max_by(slowest).map(|host| host.rank),
            histograms,
            messages: fleet.counts(),
            peak_resident_bytes: circumstances.peak_resident_bytes,
            hosts,
        }
    }

    /// The stored form.
    pub fn to_json(&self) -> String {
        let mut text = jetcell_input::json_pretty(self).expect("results have only string keys");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests;
