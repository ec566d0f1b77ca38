//! Creates the result of a run from its measurement: judges the run, computes the totals and assembles the result.
//! Nothing is measured here.

use std::collections::BTreeMap;

use chrono::{DateTime, Local};
use jetcell_host::peak_resident_bytes;

use crate::engine::StorageEngine;
use crate::error::Error;
use crate::event_file::rfc3339;
use crate::fragmentation::FragmentationChange;
use crate::layout::{InstancePlan, RunPlan};
use crate::load::LoadOperationKind;
use crate::measurement::{
    DefragSummary, InstanceIo, IoTotals, LatencyHistogram, LatencyTable, LimitAnalysis, LogCopySummary,
    Measurement, Repetitions, ScanSummary, SteadyState, StorageFailure, TaskImpact, Trend,
    VerificationResult, trends,
};
use crate::profile::{Profile, TestKind};
use crate::result::{
    BackupTestResult, DoubtInputs, InstanceRow, Judgement, OperationCounts, PhaseTime, RecoveryTestResult,
    ReplicationTestResult, RunAnalysis, RunResult, SCHEMA_VERSION, StandaloneLoad, TestPart, VerdictEvidence,
    achieved_iops, doubts, judge, total,
};
use crate::verdict::{RuleKind, Verdict};
use jetcell_host::Evidence;

/// Result of attaching the databases, driving the load and shutting down.
#[derive(Clone, Default)]
pub(crate) struct LoadPhaseResult {
    pub(crate) measured: Measurement,
    pub(crate) initial_bytes: u64,
    /// Size of the databases at the end of the load, as reported by the engine.
    pub(crate) final_bytes: u64,
    pub(crate) io_errors: u64,
    pub(crate) scan: Vec<ScanSummary>,
    pub(crate) defragmentation: Vec<DefragSummary>,
    pub(crate) fragmentation: Vec<FragmentationChange>,
    pub(crate) failure: Option<Error>,
    /// Simulated log reads for additional copies.
    pub(crate) copies: Vec<LogCopySummary>,
    /// Parts of a stress test.
    pub(crate) parts: Vec<TestPart>,
    /// Results of the backup test.
    pub(crate) backup: Option<BackupTestResult>,
    /// Results of the recovery test.
    pub(crate) recovery: Option<RecoveryTestResult>,
    /// Results of the replication test.
    pub(crate) replication: Option<ReplicationTestResult>,
    /// Figures for the load alone, if they were measured.
    pub(crate) alone: Option<StandaloneLoad>,
}

/// The phases and log lines recorded in a run so far.
#[derive(Clone, Default)]
pub(crate) struct RunHistory {
    pub(crate) log: Vec<String>,
    pub(crate) phases: Vec<PhaseTime>,
}

/// Inputs to a result that do not change during the run.
#[derive(Clone)]
pub(crate) struct ResultInputs {
    pub(crate) profile: Profile,
    pub(crate) plan: RunPlan,
    pub(crate) started: DateTime<Local>,
    pub(crate) evidence: Evidence,
    /// Size of all databases before the load, in bytes.
    pub(crate) initial_bytes: u64,
}

impl ResultInputs {
    /// Collects the inputs for the result of a run, including evidence about the machine and its storage.
    pub(crate) fn new(
        profile: &Profile,
        plan: &RunPlan,
        engine: &dyn StorageEngine,
        started: DateTime<Local>,
    ) -> ResultInputs {
        let directories = profile.dirs.iter().chain(&profile.log_dirs).map(std::path::PathBuf::as_path);
        let mut evidence = Evidence::collect(directories);
        evidence.machine.set_arrays(engine.array_storage());
        ResultInputs {
            profile: profile.clone(),
            plan: plan.clone(),
            started,
            evidence,
            initial_bytes: plan.initial_bytes(),
        }
    }
}

/// The error that ended a load.
struct LoadFailure {
    /// The failure of the storage that caused the error, or `None` if the storage is not the cause.
    storage: Option<StorageFailure>,
    text: String,
}

impl LoadFailure {
    fn new(error: &Error) -> LoadFailure {
        LoadFailure { storage: StorageFailure::from_error(error), text: error.full_text() }
    }
}

/// Returns the result to keep on disk in case the run is killed: the figures so far, without a verdict.
pub(crate) fn interim_result(result: RunResult) -> RunResult {
    RunResult {
        verdict: Verdict::Incomplete,
        reason: "the run has not ended: it is still running, was killed or failed".into(),
        rules: Vec::new(),
        ..result
    }
}

/// Judges the run and assembles its result.
pub(crate) fn assemble(
    inputs: &ResultInputs,
    history: &RunHistory,
    loaded: &LoadPhaseResult,
    verification: Option<VerificationResult>,
    cut_short: Option<&str>,
) -> RunResult {
    let (ResultInputs { profile, plan, started, evidence, .. }, measured) = (inputs, &loaded.measured);
    let (latencies, operation_latencies) = (io_latencies(&measured.io), operation_latencies(measured));
    let instances: Vec<InstanceRow> =
        (0..plan.instances.len()).map(|i| instance_row(plan, measured, i)).collect();
    let iops = achieved_iops(&instances);
    let on_machine = plan.instances.iter().filter_map(|i| Some(i.database.metadata().ok()?.len())).sum();
    // Files on an array are not in the machine's file system.
    let final_database_bytes = if on_machine == 0 { loaded.final_bytes } else { on_machine };
    let analysis = analysis(measured, profile.threads);
    let trends = stress_trends(profile, measured);
    let doubts = doubts(&DoubtInputs {
        profile,
        measured,
        analysis: &analysis,
        copies: &loaded.copies,
        trends: &trends,
        backup: loaded.backup.as_ref(),
        replication: loaded.replication.as_ref(),
        database_bytes: final_database_bytes,
        cache_bytes: plan.cache_bytes,
    });
    let failure = loaded.failure.as_ref().map(LoadFailure::new);
    let mut damage = loaded.measured.damage.clone();
    if let Some(LoadFailure { storage: Some(storage), text }) = &failure {
        damage = damage.with_failure(*storage, text);
    }
    let failed_transfer = failure.as_ref().filter(|failure| failure.storage == Some(StorageFailure::Io));
    let verdict_evidence = VerdictEvidence {
        scan: &loaded.scan,
        io_errors: loaded.io_errors.max(u64::from(failed_transfer.is_some())),
        damage: damage.clone(),
        failure: failed_transfer.map(|failure| failure.text.clone()),
        verification: verification.as_ref(),
        backup: loaded.backup.as_ref(),
        recovery: loaded.recovery.as_ref(),
        replication: loaded.replication.as_ref(),
        cut_short,
        doubts: doubts.as_deref(),
    };
    let mut judgement = judge(profile, &instances, iops, measured, &verdict_evidence);
    if let (Some(failure), None) = (
        &failure,
        judgement.rules.iter().find(|rule| !rule.passed && rule.kind() != RuleKind::MeasuredEnough),
    ) {
        judgement.reason = format!("the load failed: {}", failure.text);
    }
    let Judgement { verdict, reason, rules } = judgement;
    RunResult {
        schema_version: SCHEMA_VERSION,
        test: profile.test,
        evidence: evidence.clone(),
        verdict,
        reason,
        rules,
        achieved_transactional_iops: iops,
        started: rfc3339(started),
        ended: rfc3339(&Local::now()),
        measured_seconds: measured.seconds,
        phases: history.phases.clone(),
        initial_database_bytes: loaded.initial_bytes,
        final_database_bytes,
        doubts: doubts.clone().unwrap_or_default(),
        database_files: plan.instances.len(),
        latency: summaries(&latencies),
        operation_latency: summaries(&operation_latencies),
        histograms: latencies
            .into_iter()
            .chain(operation_latencies)
            .filter(|(_, all)| !all.is_empty())
            .collect(),
        operations: operations(measured),
        analysis,
        cache_used_bytes: measured.cache.used_bytes,
        page_fault_stalls: measured.cache.stalls,
        peak_resident_bytes: peak_resident_bytes(),
        io_errors: verdict_evidence.io_errors,
        damage,
        instances,
        scan: loaded.scan.clone(),
        defragmentation: loaded.defragmentation.clone(),
        fragmentation: loaded.fragmentation.clone(),
        energy: None,
        copies: loaded.copies.clone(),
        parts: loaded.parts.clone(),
        trends,
        backup: loaded.backup.clone(),
        recovery: loaded.recovery.clone(),
        replication: loaded.replication.clone(),
        alone: loaded.alone.clone(),
        verification,
        log: history.log.clone(),
        configuration: profile.clone(),
        plan: plan.clone(),
    }
}

/// Returns the trends of a stress test. Other tests are too short to show trends.
fn stress_trends(profile: &Profile, measured: &Measurement) -> Vec<Trend> {
    match profile.test {
        TestKind::Stress => trends(&measured.samples),
        _ => Vec::new(),
    }
}

/// Creates an instance row without figures. The row is named after the database. Jetstress uses the process number
/// instead, which does not help readers.
pub(crate) fn named_row(instance: &InstancePlan) -> InstanceRow {
    let stem = instance.database.file_stem().unwrap_or_default();
    let name = stem.to_string_lossy().into_owned();
    InstanceRow::new(name, instance.database.clone(), instance.log_dir.clone())
}

fn instance_row(plan: &RunPlan, measured: &Measurement, index: usize) -> InstanceRow {
    let row = named_row(&plan.instances[index]);
    let Some(io) = measured.io.get(index) else { return row };
    let highest = |value: fn(&crate::measurement::InstanceSample) -> f64| {
        measured
            .samples
            .iter()
            .filter_map(|sample| sample.instances.get(index))
            .map(value)
            .fold(0.0, f64::max)
    };
    let rates = |totals: &IoTotals| totals.rates(measured.seconds);
    let (scan, copies) = (rates(&io.scan_read), rates(&io.log_copy_read));
    InstanceRow {
        maximum_database_read_ms: highest(|sample| sample.database_read.average_ms),
        maximum_log_write_ms: highest(|sample| sample.log_write.average_ms),
        maintenance_reads_per_second: scan.per_second,
        maintenance_reads_average_bytes: scan.average_bytes,
        replication_reads_per_second: copies.per_second,
        replication_reads_average_bytes: copies.average_bytes,
        ..row.with_rates(
            rates(&io.database_read),
            rates(&io.database_write),
            rates(&io.log_read),
            rates(&io.log_write),
        )
    }
}

/// Returns the latency distribution of each kind of I/O over all instances.
fn io_latencies(instances: &[InstanceIo]) -> BTreeMap<String, LatencyHistogram> {
    type IoSelector = fn(&InstanceIo) -> &IoTotals;
    let kinds: [(&str, IoSelector); 8] = [
        ("database_read", |io| &io.database_read),
        ("database_write", |io| &io.database_write),
        ("log_read", |io| &io.log_read),
        ("log_write", |io| &io.log_write),
        ("log_format", |io| &io.log_format),
        ("scan_read", |io| &io.scan_read),
        ("log_copy_read", |io| &io.log_copy_read),
        ("backup_read", |io| &io.backup_read),
    ];
    let sum = |kind: IoSelector| {
        let mut all = IoTotals::default();
        instances.iter().for_each(|io| all.add(kind(io)));
        all.latencies
    };
    kinds.into_iter().map(|(name, kind)| (name.to_string(), sum(kind))).collect()
}

/// Returns the latency distribution of each kind of operation and of durable commits.
fn operation_latencies(measured: &Measurement) -> BTreeMap<String, LatencyHistogram> {
    let kinds = LoadOperationKind::ALL.into_iter().zip(&measured.tally.operations);
    let durable = ("durable_commit".to_string(), measured.tally.durable_commits.clone());
    kinds.map(|(kind, all)| (kind.name().to_string(), all.clone())).chain([durable]).collect()
}

fn summaries(histograms: &BTreeMap<String, LatencyHistogram>) -> LatencyTable {
    histograms.iter().map(|(name, all)| (name.clone(), all.summary())).collect()
}

/// Returns the figures for the load alone, without its start and end times.
pub(crate) fn alone_figures(plan: &RunPlan, measured: &Measurement) -> StandaloneLoad {
    let rows: Vec<InstanceRow> =
        (0..plan.instances.len()).map(|index| instance_row(plan, measured, index)).collect();
    let (all, latencies) = (total(&rows), summaries(&io_latencies(&measured.io)));
    StandaloneLoad {
        measured_seconds: measured.seconds,
        achieved_transactional_iops: achieved_iops(&rows),
        database_bytes_per_second: all.database_reads_per_second * all.database_reads_average_bytes
            + all.database_writes_per_second * all.database_writes_average_bytes,
        operations_per_second: operations(measured).per_second,
        database_read_ms: all.database_reads_average_latency_ms,
        database_read_p99_ms: latencies.get("database_read").map_or(0.0, |one| one.p99 as f64 / 1e3),
        log_write_ms: all.log_writes_average_latency_ms,
        ..StandaloneLoad::default()
    }
}

/// Analyzes the figures.
pub(crate) fn analysis(measured: &Measurement, threads: usize) -> RunAnalysis {
    RunAnalysis {
        steady_state: SteadyState::from_samples(&measured.samples),
        limit: LimitAnalysis::determine(measured, threads),
        repetitions: Repetitions::new(&measured.repetitions),
        maintenance_impact: TaskImpact::all(&measured.repetitions),
        saturation: measured.saturation.clone(),
        open_loop: measured.open_loop,
        host: measured.host.clone(),
        host_samples: measured.host_samples.clone(),
        array_samples: measured.array_samples.clone(),
    }
}

fn operations(measured: &Measurement) -> OperationCounts {
    let tally = &measured.tally;
    let counts = LoadOperationKind::ALL.into_iter().zip(tally.counts);
    OperationCounts {
        counts: counts.map(|(kind, count)| (kind.name().to_string(), count)).collect(),
        per_second: if measured.seconds > 0.0 { tally.total() as f64 / measured.seconds } else { 0.0 },
        batches: tally.batches.clone(),
        conflicts: tally.conflicts,
        misses: tally.misses,
        wrong_records: tally.wrong_records,
        wrong: tally.wrong.clone(),
    }
}
