//! The published results of a run of this program.

use chrono::{DateTime, NaiveDateTime, TimeDelta};
use jetcell_workload::Phase;
use jetcell_workload::result::{
    DatabaseBackup, InstanceRow, ReplayedDatabase, RunResult, total_log_reads, total_reads,
};

use crate::chart::Chart;
use crate::esrp::server_test::{Averages, BackupRow, Checksums, ReplayRow, ServerTest, TestKind, Window};
use crate::series::{charts, latency_by_percentile, test_charts};
use crate::stored::Stored;
use crate::tables;

const MIB: f64 = 1_048_576.0;

/// The results of a stored run.
pub(super) fn published(stored: &Stored, kind: TestKind, source: String) -> ServerTest {
    let Stored { result, samples } = stored;
    let mut all = vec![tables::rules(result)];
    all.extend(tables::all(result, samples));
    let target = result.configuration.target_iops;
    ServerTest {
        verdict: Some(result.verdict),
        reason: result.reason.clone(),
        description: result.configuration.description.clone().unwrap_or_default(),
        window: window(result),
        measured_seconds: Some(result.measured_seconds),
        engine_version: format!("Jetcell {}", result.jetcell_version),
        target_iops: target,
        achieved_iops: Some(result.achieved_transactional_iops),
        final_bytes: Some(result.final_database_bytes),
        databases: result.database_files,
        copies: Some(result.configuration.copies.into()),
        threads: Some(result.configuration.threads as u64),
        transactional: result.instances.clone(),
        total: result.instances.iter().map(total).collect(),
        backup: result.backup.iter().flat_map(|backup| &backup.databases).map(backup_row).collect(),
        replay: result.recovery.iter().flat_map(|recovery| &recovery.databases).map(replay_row).collect(),
        checksums: checksums(result),
        io_errors: Some(result.io_errors),
        charts: test_charts(result).map_or_else(|| of_load(stored), |(_, charts)| charts),
        tables: all,
        ..ServerTest::of(result.machine.host.clone(), kind, source, Averages::Weighted)
    }
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

fn of_load(stored: &Stored) -> Vec<Chart> {
    let over_time = charts(&stored.result, &stored.samples);
    over_time.into_iter().chain(latency_by_percentile(&stored.result)).collect()
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

fn checksums(result: &RunResult) -> Checksums {
    // A backup verifies every page that it reads.
    if let Some(backup) = result.backup.as_ref().filter(|backup| backup.complete) {
        return Checksums::Verified { files: backup.databases.len(), bad: backup.bad() };
    }
    result.verification.as_ref().map_or(Checksums::NotRun, |verification| Checksums::Verified {
        files: verification.files.len(),
        bad: verification.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bad)),
    })
}

/// The measured time in UTC: it begins when the phases before it have ended.
fn window(result: &RunResult) -> Option<Window> {
    let started = DateTime::parse_from_rfc3339(&result.started).ok()?.naive_utc();
    let before = result
        .phases
        .iter()
        .take_while(|one| ![Phase::Measure, Phase::Generate].contains(&one.phase))
        .map(|one| one.seconds)
        .sum();
    let start = after(started, before)?;
    (result.measured_seconds > 0.0).then_some(Window { start, end: after(start, result.measured_seconds)? })
}

fn after(time: NaiveDateTime, seconds: f64) -> Option<NaiveDateTime> {
    // A cast of a float saturates, and a result that was edited may have any number.
    time.checked_add_signed(TimeDelta::try_milliseconds((seconds * 1000.0) as i64)?)
}
