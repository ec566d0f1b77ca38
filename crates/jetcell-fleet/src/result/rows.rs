//! One row for each host, and values derived from the rows.

use std::collections::BTreeMap;

use jetcell_workload::RunResult;
use jetcell_workload::result::total;
use serde::{Deserialize, Serialize};

use super::{FleetTotals, HostClock, HostRow, WorstDatabase};
use crate::coordinator::{Coordinator, FleetMember};
use crate::result_transfer::HostResult;

/// A host is a straggler if its I/O rate is below this fraction of the median.
const STRAGGLER_IOPS_FRACTION: f64 = 0.8;

/// A host is a straggler if its read latency is more than this multiple of the median.
const STRAGGLER_LATENCY_FACTOR: f64 = 2.0;

/// Minimum number of hosts for which the median is meaningful.
const MIN_HOSTS_FOR_MEDIAN: usize = 3;

/// Outcome of the test on one fleet host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostOutcome {
    /// The host returned its result.
    Completed,
    /// The host was declared lost.
    Lost,
    /// The host's test ended without a result.
    Failed,
    /// The host never joined.
    Absent,
}

fn totals(result: &RunResult) -> FleetTotals {
    let all = total(&result.instances);
    let (reads, writes) = (all.database_reads_per_second, all.database_writes_per_second);
    FleetTotals {
        achieved_transactional_iops: result.achieved_transactional_iops,
        database_reads_per_second: reads,
        database_writes_per_second: writes,
        database_bytes_per_second: reads * all.database_reads_average_bytes
            + writes * all.database_writes_average_bytes,
        log_writes_per_second: all.log_writes_per_second,
        log_bytes_per_second: all.log_writes_per_second * all.log_writes_average_bytes,
        operations_per_second: result.operations.per_second,
        databases: result.database_files,
        database_bytes: result.final_database_bytes,
    }
}

/// Adds up the figures of all hosts.
pub(super) fn sum(hosts: &[HostRow]) -> FleetTotals {
    let mut all = FleetTotals::default();
    for FleetTotals {
        achieved_transactional_iops,
        database_reads_per_second,
        database_writes_per_second,
        database_bytes_per_second,
        log_writes_per_second,
        log_bytes_per_second,
        operations_per_second,
        databases,
        database_bytes,
    } in hosts.iter().map(|host| host.totals)
    {
        all.achieved_transactional_iops += achieved_transactional_iops;
        all.database_reads_per_second += database_reads_per_second;
        all.database_writes_per_second += database_writes_per_second;
        all.database_bytes_per_second += database_bytes_per_second;
        all.log_writes_per_second += log_writes_per_second;
        all.log_bytes_per_second += log_bytes_per_second;
        all.operations_per_second += operations_per_second;
        all.databases += databases;
        all.database_bytes = all.database_bytes.saturating_add(database_bytes);
    }
    all
}

/// Returns one row for each host in the fleet, by rank.
pub(super) fn rows(fleet: &Coordinator, results: &BTreeMap<u32, HostResult>) -> Vec<HostRow> {
    let row = |rank| match fleet.member(rank) {
        Some(member) => row_for_member(member, fleet.start_ns(), results.get(&rank)),
        None => empty(rank, "", HostOutcome::Absent, "the host did not join".into()),
    };
    (0..fleet.config().size()).map(row).collect()
}

fn empty(rank: u32, host: &str, outcome: HostOutcome, reason: String) -> HostRow {
    HostRow {
        rank,
        host: host.into(),
        outcome,
        verdict: None,
        reason,
        lost: None,
        totals: FleetTotals::default(),
        database_read_ms: 0.0,
        database_read_p99_ms: 0.0,
        log_write_ms: 0.0,
        measured_seconds: 0.0,
        start_skew_ms: None,
        clock: None,
        window: None,
        alone: None,
        straggler: None,
        ignored_messages: 0,
    }
}

fn row_for_member(member: &FleetMember, start_ns: Option<u64>, handed_in: Option<&HostResult>) -> HostRow {
    let beat = member.heartbeat();
    let ms = |ns: f64| ns / 1e6;
    let (outcome, reason) = match (handed_in, member.loss(), member.failure()) {
        (Some(one), ..) => (HostOutcome::Completed, one.result.reason.clone()),
        (None, Some(lost), _) => (
            HostOutcome::Lost,
            format!("the host timed out while {}, and was declared lost {}", lost.did, lost.given_up),
        ),
        (None, None, Some(reason)) => (HostOutcome::Failed, reason.into()),
        (None, None, None) => (HostOutcome::Failed, "the host did not deliver a result".into()),
    };
    let mut row = empty(beat.rank, &beat.name, outcome, reason);
    row.lost = member.loss().cloned();
    row.ignored_messages = beat.ignored;
    row.clock = beat.clock.map(|clock| HostClock {
        offset_ms: ms(clock.offset_ns as f64),
        round_trip_ms: ms(clock.round_trip_ns as f64),
        moved_ms: ms(clock.moved_ns as f64),
    });
    if let (Some(window), Some(start_ns)) = (beat.window, start_ns) {
        let after = |ns: u64| (i128::from(ns) - i128::from(start_ns)) as f64;
        row.start_skew_ms = Some(ms(after(window.began_ns)));
        let ended = window.ended_ns.unwrap_or(window.began_ns);
        row.window = Some((after(window.began_ns) / 1e9, after(ended) / 1e9));
    }
    if let Some(HostResult { result, .. }) = handed_in {
        let all = total(&result.instances);
        row.verdict = Some(result.verdict);
        row.totals = totals(result);
        row.database_read_ms = all.database_reads_average_latency_ms;
        row.log_write_ms = all.log_writes_average_latency_ms;
        row.database_read_p99_ms =
            result.latency.get("database_read").map_or(0.0, |one| one.p99 as f64 / 1e3);
        row.measured_seconds = result.tested_seconds();
        row.alone.clone_from(&result.alone);
    }
    row
}

/// Returns the median. For an even number of values, returns the lower of the two middle values.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    (all.len() >= MIN_HOSTS_FOR_MEDIAN).then(|| all[(all.len() - 1) / 2])
}

/// Marks the hosts that are much slower than the median. Hosts can be compared only if they have equal options.
pub(super) fn mark_stragglers(hosts: &mut [HostRow]) {
    let measured = |host: &&HostRow| host.totals.achieved_transactional_iops > 0.0;
    let median_of = |value: fn(&HostRow) -> f64| median(hosts.iter().filter(measured).map(value));
    let usual = median_of(|host| host.totals.achieved_transactional_iops)
        .zip(median_of(|host| host.database_read_ms));
    let Some((iops, read_ms)) = usual else { return };
    for host in hosts.iter_mut().filter(|host| host.totals.achieved_transactional_iops > 0.0) {
        let own = host.totals.achieved_transactional_iops;
        if own < iops * STRAGGLER_IOPS_FRACTION {
            host.straggler = Some(format!("{own:.0} IOPS, compared with {iops:.0} on the median host"));
        } else if host.database_read_ms > read_ms * STRAGGLER_LATENCY_FACTOR {
            let own = host.database_read_ms;
            host.straggler =
                Some(format!("reads take {own:.2} ms, compared with {read_ms:.2} ms on the median host"));
        }
    }
}

/// Returns the database with the slowest reads.
pub(super) fn worst_database(
    hosts: &[HostRow],
    results: &BTreeMap<u32, HostResult>,
) -> Option<WorstDatabase> {
    let name = |rank: u32| hosts.iter().find(|host| host.rank == rank).map(|host| host.host.clone());
    let all = results.iter().flat_map(|(rank, one)| one.result.instances.iter().map(move |row| (*rank, row)));
    let slowest = all.filter(|(_, row)| row.database_reads_average_latency_ms > 0.0).max_by(|a, b| {
        a.1.database_reads_average_latency_ms.total_cmp(&b.1.database_reads_average_latency_ms)
    });
    slowest.map(|(rank, row)| WorstDatabase {
        rank,
        host: name(rank).unwrap_or_default(),
        database: row.instance.clone(),
        database_read_ms: row.database_reads_average_latency_ms,
    })
}
