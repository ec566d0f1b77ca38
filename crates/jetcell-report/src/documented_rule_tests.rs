//! Checks that the manual defines every name shown in a report: rules, tables, rows, columns, charts, and chart lines.

use jetcell_workload::RunPhase;
use jetcell_workload::fragmentation::{FileMap, Fragmentation, FragmentationChange};
use jetcell_workload::measurement::{
    ArraySample, DefragSummary, DiskUsage, FileVerification, HostUsage, LatencyHistogram, LatencySummary,
    LimitAnalysis, LimitingFactor, OpenLoopBacklog, Repetition, Repetitions, ScanSummary, SteadyState,
    TaskImpact, Trend, VerificationResult,
};
use jetcell_workload::result::{
    BackupCost, BackupTestResult, DatabaseBackup, PhaseTime, RecoveryTestResult, ReplayedDatabase,
    ReplicatedCopy, ReplicationPart, ReplicationTestResult, RunResult, TestPart, VerdictEvidence, judge,
};
use testkit::{TestRequirement, skip};

use crate::example::{result, samples, saturation};
use crate::series::{charts, distributions, latency_over_rate, test_charts};
use crate::tables;

const DOCS: [&str; 6] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report-tables.md"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-stress.md"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-backup.md"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-recovery.md"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-replication.md"),
];

/// Headings of columns that contain names specific to the run, such as file names.
const NAMED_BY_THE_RUN: [&str; 10] = [
    "Database Instance",
    "Part",
    "MSExchange Database ==> Instances",
    "Instance",
    "Time",
    "Device",
    "Database",
    "File",
    "Directory",
    "Target rate (operations/sec)",
];

/// Returns a replication test with both kinds of copies.
fn replicated() -> ReplicationTestResult {
    ReplicationTestResult {
        copies: vec![
            ReplicatedCopy { keep_instance: true, stream_log: true, ..ReplicatedCopy::default() },
            ReplicatedCopy::default(),
        ],
        steady: Some(ReplicationPart::default()),
        catch_up: Some(ReplicationPart::default()),
        ..ReplicationTestResult::default()
    }
}

/// Adds results for defragmentation and for the alternating maintenance tasks.
fn maintained(result: &mut RunResult) {
    let configuration = &mut result.configuration;
    (configuration.defrag, configuration.layout, configuration.maintenance_impact) = (true, true, true);
    let layout = DefragSummary { sequential_layout: true, ..DefragSummary::default() };
    result.defragmentation = vec![DefragSummary::default(), layout];
    result.analysis.maintenance_impact = vec![TaskImpact::default()];
}

/// I/O reasons for which latencies are recorded.
const LATENCIES: [&str; 8] = [
    "database_read",
    "database_write",
    "log_read",
    "log_write",
    "log_format",
    "scan_read",
    "log_copy_read",
    "backup_read",
];

/// Returns a result with everything that a report can show.
pub(crate) fn everything() -> RunResult {
    let mut result = result();
    let phases = [
        RunPhase::Examine,
        RunPhase::PutBack,
        RunPhase::Create,
        RunPhase::Alone,
        RunPhase::Attach,
        RunPhase::Warm,
        RunPhase::Search,
        RunPhase::Measure,
        RunPhase::Keep,
        RunPhase::Generate,
        RunPhase::Seed,
        RunPhase::CatchUp,
        RunPhase::Drain,
        RunPhase::Replay,
        RunPhase::Backup,
        RunPhase::Shutdown,
        RunPhase::Verify,
    ];
    result.phases = phases.map(|phase| PhaseTime { phase, seconds: 1.0, processor_seconds: 0.0 }).into();
    result.configuration.description = Some("what it is".into());
    let quota = jetcell_workload::units::ByteSize::mib(1000);
    result.configuration.mailboxes =
        Some(jetcell_workload::profile::MailboxRequirement { count: 1, iops_each: 1.0, quota });
    let some = LatencySummary { count: 1, ..LatencySummary::default() };
    for kind in LATENCIES {
        result.latency.insert(kind.into(), some);
        let mut latencies = LatencyHistogram::default();
        latencies.record(1);
        result.histograms.insert(kind.into(), latencies);
    }
    for kind in ["insert", "delete", "replace", "read", "durable_commit"] {
        result.operation_latency.insert(kind.into(), some);
        if kind != "durable_commit" {
            result.operations.counts.insert(kind.into(), 1);
        }
    }
    let disks = vec![DiskUsage::default()];
    let host = HostUsage { seconds: 1.0, disks, ..HostUsage::default() };
    maintained(&mut result);
    result.energy = Some(tables::energy_of("server"));
    let map = FileMap { path: "a.edb".into(), bytes: 0, extents: Vec::new() };
    let found = Fragmentation::from_map(&map, &[32 << 10, 256 << 10]);
    result.fragmentation = vec![FragmentationChange { before: found.clone(), after: found }];
    let analysis = &mut result.analysis;
    analysis.limit = Some(LimitAnalysis {
        limiter: LimitingFactor::Device,
        reason: "it is slow".into(),
        cpu_percent: 1.0,
        commit_share: 0.1,
        database_read_share: 0.9,
        page_fault_stalls: 0,
    });
    analysis.steady_state = Some(SteadyState::default());
    analysis.repetitions =
        Some(Repetitions { each: vec![Repetition::default(); 3], ..Repetitions::default() });
    analysis.saturation = Some(saturation());
    analysis.open_loop = Some(OpenLoopBacklog::default());
    (analysis.host, analysis.host_samples) = (host.clone(), vec![host; 3]);
    analysis.array_samples = vec![ArraySample { rebuilt_percent: Some(1.0), ..ArraySample::default() }];
    result.scan = vec![ScanSummary::default()];
    result.instances.iter_mut().for_each(|row| {
        (row.maintenance_reads_per_second, row.replication_reads_per_second) = (1.0, 1.0);
    });
    result.backup = Some(BackupTestResult {
        databases: vec![DatabaseBackup { io: result.instances.first().cloned(), ..Default::default() }],
        cost: Some(BackupCost::default()),
        ..BackupTestResult::default()
    });
    result.parts = vec![TestPart::default()];
    result.trends = vec![Trend { figure: "Operations per second".into(), ..Trend::default() }];
    result.recovery = Some(RecoveryTestResult {
        databases: vec![ReplayedDatabase { io: result.instances.first().cloned(), ..Default::default() }],
        complete: true,
        ..RecoveryTestResult::default()
    });
    result.replication = Some(replicated());
    result.verification = Some(VerificationResult { seconds: 1.0, files: vec![FileVerification::default()] });
    let measured = jetcell_workload::measurement::Measurement {
        seconds: 60.0,
        open_loop: analysis.open_loop,
        saturation: analysis.saturation.clone(),
        ..jetcell_workload::measurement::Measurement::default()
    };
    let evidence = VerdictEvidence {
        scan: &result.scan,
        verification: result.verification.as_ref(),
        backup: result.backup.as_ref(),
        recovery: result.recovery.as_ref(),
        replication: result.replication.as_ref(),
        ..VerdictEvidence::default()
    };
    result.rules = judge(&result.configuration, &result.instances, 1.0, &measured, &evidence).rules;
    result
}

/// Joins the text's words with single spaces. A name then matches even if it is split across two lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_name_in_a_report_is_documented() {
    let (mut result, mut samples) = (everything(), samples(3));
    samples[0].page_fault_stalls = 1;
    let mut names: Vec<String> = Vec::new();
    let rules = tables::rules(&result);
    assert_eq!(rules.rows.len(), 21, "a rule that this test does not know");
    names.extend(rules.rows.iter().map(|row| row[0].text()));
    for table in tables::all(&result, &samples) {
        assert!(!table.rows.is_empty(), "{}", table.title);
        let first = table.columns[0].name.clone();
        if !NAMED_BY_THE_RUN.contains(&first.as_str()) {
            let named = table.rows.iter().map(|row| row[0].text());
            names.extend(named.filter(|name| name.parse::<u32>().is_err()));
        }
        if !table.facts {
            names.extend(table.columns.iter().skip(1).map(|column| column.name.clone()));
        }
        names.push(table.title);
    }
    let (recovery, replication) = (result.recovery.take(), result.replication.take());
    let of_replication = test_charts(&RunResult { replication, ..result.clone() });
    let of_backup = test_charts(&result);
    let of_recovery = test_charts(&RunResult { recovery, ..result.clone() });
    let mut of_tests = Vec::new();
    for (heading, charts) in of_backup.into_iter().chain(of_recovery).chain(of_replication) {
        names.push(heading.to_string());
        of_tests.extend(charts);
    }
    let all = charts(&result, &samples).into_iter().chain(of_tests).chain(distributions(&result));
    for chart in all.chain([latency_over_rate(&saturation())]) {
        names.push(chart.title);
    }
    let Ok(docs) = DOCS.map(std::fs::read_to_string).into_iter().collect::<Result<String, _>>() else {
        skip(TestRequirement::Repository, "the documentation is in the repository, not in the package");
        return;
    };
    let doc = one_line(&docs);
    let undefined: Vec<&String> = names.iter().filter(|name| !doc.contains(&one_line(name))).collect();
    assert!(names.len() > 120, "{}", names.len());
    assert!(undefined.is_empty(), "the pages in DOCS do not define {undefined:?}");
}
