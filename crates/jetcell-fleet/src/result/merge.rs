//! Merges all hosts into one run for `jetcell report` and `jetcell compare`.

use std::collections::BTreeMap;

use jetcell_workload::measurement::{
    LatencyHistogram, PageDamageCounts, Sample, SamplePercentiles, VerificationResult,
};
use jetcell_workload::result::{OperationCounts, RunAnalysis, RunResult};
use jetcell_workload::{InstancePlan, Profile, RunPlan, Verdict};

use super::{FleetResult, FleetVerdict};
use crate::result_transfer::HostResult;

/// Adds up the distributions of all hosts.
pub(super) fn histograms<'a>(
    results: impl Iterator<Item = &'a HostResult>,
) -> BTreeMap<String, LatencyHistogram> {
    let mut all: BTreeMap<String, LatencyHistogram> = BTreeMap::new();
    for (name, latencies) in results.flat_map(|one| &one.result.histograms) {
        all.entry(name.clone()).or_default().add(latencies);
    }
    all
}

/// Merges all hosts into one run: lists all databases, adds up the rates, and merges the distributions. Data that
/// makes sense only for a single host, such as its steady state, is omitted. Returns `None` if no host has a result.
pub fn merge_results(fleet: &FleetResult, results: &BTreeMap<u32, HostResult>) -> Option<HostResult> {
    let (_, first) = results.first_key_value()?;
    let name = |rank: u32| match fleet.hosts.iter().find(|host| host.rank == rank) {
        Some(host) if !host.host.is_empty() => format!("{rank}-{}", host.host),
        _ => rank.to_string(),
    };
    let each = || results.iter().map(|(rank, one)| (name(*rank), &one.result));
    let sum = |value: fn(&RunResult) -> u64| each().map(|(_, run)| value(run)).fold(0, u64::saturating_add);
    let lines = |of: fn(&RunResult) -> &Vec<String>| -> Vec<String> {
        each().flat_map(|(host, run)| of(run).iter().map(move |line| format!("{host}: {line}"))).collect()
    };
    let result = RunResult {
        verdict: match fleet.verdict {
            FleetVerdict::Pass => Verdict::Pass,
            FleetVerdict::Fail => Verdict::Fail,
            FleetVerdict::Invalid | FleetVerdict::Incomplete => Verdict::Incomplete,
        },
        reason: fleet.reason.clone(),
        rules: fleet.rules.clone(),
        doubts: lines(|run| &run.doubts),
        achieved_transactional_iops: fleet.totals.achieved_transactional_iops,
        started: fleet.started.clone(),
        ended: fleet.ended.clone(),
        // Each host's rates are relative to the length of its own measurement.
        measured_seconds: each().map(|(_, run)| run.measured_seconds).fold(0.0, f64::max),
        initial_database_bytes: sum(|run| run.initial_database_bytes),
        final_database_bytes: sum(|run| run.final_database_bytes),
        database_files: fleet.totals.databases,
        instances: each()
            .flat_map(|(host, run)| {
                run.instances.iter().map(move |row| {
                    let mut row = row.clone();
                    row.instance = format!("{host}/{}", row.instance);
                    row
                })
            })
            .collect(),
        latency: fleet.latency.clone(),
        operation_latency: fleet.operation_latency.clone(),
        histograms: fleet.histograms.clone(),
        operations: operations(results),
        analysis: RunAnalysis::default(),
        scan: each().flat_map(|(_, run)| run.scan.clone()).collect(),
        defragmentation: each().flat_map(|(_, run)| run.defragmentation.clone()).collect(),
        fragmentation: Vec::new(),
        energy: None,
        copies: each().flat_map(|(_, run)| run.copies.clone()).collect(),
        parts: Vec::new(),
        trends: Vec::new(),
        // These fields compare parts of a single run, so only the individual hosts' results contain them.
        backup: None,
        recovery: None,
        replication: None,
        alone: None,
        cache_used_bytes: sum(|run| run.cache_used_bytes),
        page_fault_stalls: sum(|run| run.page_fault_stalls),
        peak_resident_bytes: None,
        io_errors: sum(|run| run.io_errors),
        damage: damage(results),
        verification: verification(results),
        log: lines(|run| &run.log),
        configuration: Profile {
            description: Some(format!("fleet {}: {} hosts", fleet.name, fleet.hosts.len())),
            databases: Some(fleet.totals.databases),
            ..first.result.configuration.clone()
        },
        plan: RunPlan { instances: instances(results), ..first.result.plan.clone() },
        ..first.result.clone()
    };
    Some(HostResult { result, samples: samples(results) })
}

fn damage(results: &BTreeMap<u32, HostResult>) -> PageDamageCounts {
    let mut all = PageDamageCounts::default();
    results.values().for_each(|one| all.add(&one.result.damage));
    all
}

fn operations(results: &BTreeMap<u32, HostResult>) -> OperationCounts {
    let mut all = OperationCounts::default();
    for one in results.values().map(|one| &one.result.operations) {
        for (kind, count) in &one.counts {
            let sum = all.counts.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        all.per_second += one.per_second;
        all.batches.extend(&one.batches);
        all.conflicts = all.conflicts.saturating_add(one.conflicts);
        all.misses = all.misses.saturating_add(one.misses);
        all.wrong_records = all.wrong_records.saturating_add(one.wrong_records);
        all.wrong.extend(one.wrong.iter().cloned());
    }
    all
}

/// Returns the verified files of all hosts, if every host has verified its own files.
fn verification(results: &BTreeMap<u32, HostResult>) -> Option<VerificationResult> {
    let all: Option<Vec<&VerificationResult>> =
        results.values().map(|one| one.result.verification.as_ref()).collect();
    let all = all?;
    Some(VerificationResult {
        files: all.iter().flat_map(|one| one.files.clone()).collect(),
        seconds: all.iter().map(|one| one.seconds).fold(0.0, f64::max),
    })
}

fn instances(results: &BTreeMap<u32, HostResult>) -> Vec<InstancePlan> {
    results.values().flat_map(|one| one.result.plan.instances.clone()).collect()
}

/// Merges the hosts' samples interval by interval, until one host has no more samples. Percentiles cannot be added up,
/// so those of the slowest host are used.
fn samples(results: &BTreeMap<u32, HostResult>) -> Vec<Sample> {
    let together = |at: usize| -> Option<Sample> {
        let all: Vec<&Sample> = results.values().map(|one| one.samples.get(at)).collect::<Option<_>>()?;
        let (first, rest) = all.split_first()?;
        let slowest = |of: fn(&Sample) -> SamplePercentiles| {
            let highest = |value: fn(&SamplePercentiles) -> f64| {
                all.iter().map(|sample| value(&of(sample))).fold(0.0, f64::max)
            };
            SamplePercentiles { p50: highest(|p| p.p50), p95: highest(|p| p.p95), p99: highest(|p| p.p99) }
        };
        let mut one = (*first).clone();
        for sample in rest {
            one.operations_per_second += sample.operations_per_second;
            one.cache_used_bytes = one.cache_used_bytes.saturating_add(sample.cache_used_bytes);
            one.page_fault_stalls = one.page_fault_stalls.saturating_add(sample.page_fault_stalls);
            one.instances.extend(&sample.instances);
        }
        (one.database_reads, one.log_writes) =
            (slowest(|sample| sample.database_reads), slowest(|sample| sample.log_writes));
        Some(one)
    };
    (0..).map_while(together).collect()
}
