//! Converts one of this program's runs to published results.

use chrono::{DateTime, NaiveDateTime, TimeDelta};
use jetcell_input::number::{MIB, human_bytes};
use jetcell_workload::result::{
    DatabaseBackup, InstanceRow, ReplayedDatabase, RunResult, total_log_reads, total_reads,
};
use jetcell_workload::{RunPhase, TestKind};

use crate::chart::Chart;
use crate::esrp::tested_server::{
    AverageMethod, BackupRow, ChecksumVerification, ReplayRow, ServerTest, TestPeriod,
};
use crate::series::{charts, distributions, test_charts};
use crate::stored::StoredRun;
use crate::tables;

/// Tables that are omitted when empty.
const OPTIONAL_TABLES: [&str; 2] = ["Repetitions", "Open Loop"];
/// Number of pages at the start of a database that hold its header and the header's copy, one page each.
const HEADER_PAGES: u64 = 2;

/// Returns published results for a stored run.
pub(super) fn publish_run(stored: &StoredRun, kind: TestKind, source: String) -> ServerTest {
    let StoredRun { result, samples } = stored;
    let mut all = vec![tables::rules(result)];
    all.extend(tables::all(result, samples));
    all.retain(|table| !table.rows.is_empty() || !OPTIONAL_TABLES.contains(&table.title.as_str()));
    // A backup without a load measures no instances: all of their figures are zero.
    let load = || result.instances.iter().filter(|_| result.measured_seconds > 0.0);
    let target = result.configuration.target_iops;
    ServerTest {
        verdict: Some(result.verdict),
        reason: result.reason.clone(),
        description: result.configuration.description.clone().unwrap_or_default(),
        window: window(result),
        measured_seconds: Some(result.tested_seconds()),
        interruptions: result.parts.len().saturating_sub(1),
        machine: Some(machine(result)),
        engine_version: format!("Jetcell {}", result.evidence.jetcell_version),
        target_iops: target,
        achieved_iops: Some(result.achieved_transactional_iops),
        final_bytes: Some(result.final_database_bytes),
        header_bytes: HEADER_PAGES * u64::from(result.plan.page_bytes) * result.database_files as u64,
        databases: result.database_files,
        copies: Some(result.configuration.copies.into()),
        threads: Some(result.configuration.threads as u64),
        transactional: load().cloned().collect(),
        total: load().map(total).collect(),
        backup: result.backup.iter().flat_map(|backup| &backup.databases).map(backup_row).collect(),
        replay: result.recovery.iter().flat_map(|recovery| &recovery.databases).map(replay_row).collect(),
        checksums: checksums(result),
        io_errors: Some(result.io_errors),
        charts: test_charts(result).map_or_else(|| load_charts(stored), |(_, charts)| charts),
        tables: all,
        ..ServerTest::new(result.evidence.machine.host.clone(), kind, source, AverageMethod::Weighted)
    }
}

fn machine(result: &RunResult) -> String {
    let machine = &result.evidence.machine;
    format!("{} × {}, {}", machine.processors, machine.processor, human_bytes(machine.memory_bytes))
}

fn backup_row(database: &DatabaseBackup) -> BackupRow {
    BackupRow {
        instance: database.instance.clone(),
        mib: database.counters.bytes as f64 / MIB,
        seconds: database.seconds,
        mib_per_second: database.rate() / MIB,
    }
}

fn replay_row(database: &ReplayedDatabase) -> ReplayRow {
    ReplayRow { instance: database.instance.clone(), logs: database.logs, seconds: database.seconds }
}

fn load_charts(stored: &StoredRun) -> Vec<Chart> {
    let over_time = charts(&stored.result, &stored.samples);
    over_time.into_iter().chain(distributions(&stored.result)).collect()
}

fn total(row: &InstanceRow) -> InstanceRow {
    let (reads, logs) = (total_reads(row), total_log_reads(row));
    InstanceRow {
        database_reads_per_second: reads.per_second,
        database_reads_average_bytes: reads.average_bytes,
        log_reads_per_second: logs.per_second,
        log_reads_average_bytes: logs.average_bytes,
        ..row.clone()
    }
}

fn checksums(result: &RunResult) -> ChecksumVerification {
    // A backup verifies every page that it reads.
    if let Some(backup) = result.backup.as_ref().filter(|backup| backup.complete) {
        return ChecksumVerification::Verified { files: backup.databases.len(), bad: backup.bad() };
    }
    result.verification.as_ref().map_or(ChecksumVerification::NotRun, |verification| {
        ChecksumVerification::Verified {
            files: verification.files.len(),
            bad: verification.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bad)),
        }
    })
}

/// Returns the period, in UTC, in which the load, backup, or replay ran. The periods of servers that are tested
/// together must overlap.
fn window(result: &RunResult) -> Option<TestPeriod> {
    let utc = |time: &str| Some(DateTime::parse_from_rfc3339(time).ok()?.naive_utc());
    if let [first, .., last] = result.parts.as_slice() {
        return Some(TestPeriod { start: utc(&first.started)?, end: utc(&last.ended)? });
    }
    let phases: &[RunPhase] = match (&result.backup, &result.recovery) {
        (_, Some(_)) => &[RunPhase::Replay],
        (Some(_), _) => &[RunPhase::Backup],
        _ => &[RunPhase::Measure, RunPhase::Generate],
    };
    let seconds = result.tested_seconds();
    let before = result.phases.iter().take_while(|one| !phases.contains(&one.phase));
    let start = after(utc(&result.started)?, before.map(|one| one.seconds).sum())?;
    (seconds > 0.0).then_some(TestPeriod { start, end: after(start, seconds)? })
}

fn after(time: NaiveDateTime, seconds: f64) -> Option<NaiveDateTime> {
    // The cast saturates. An edited result may contain any number.
    time.checked_add_signed(TimeDelta::try_milliseconds((seconds * 1000.0) as i64)?)
}
