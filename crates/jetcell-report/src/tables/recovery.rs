//! Tables for a recovery test.

use jetcell_input::Unit;
use jetcell_input::number::{plain, with_three_decimals, without_zeros};
use jetcell_workload::profile::RecoveryMode;
use jetcell_workload::result::{RecoveryTestResult, ReplayedDatabase, RunResult};

use super::jetstress::io_table;
use crate::table::{ReportCell, ReportTable};

/// Replay time per log, in seconds, from a published test: Jetstress 2013 on 23 disks with 7,200 rpm, ESRP submission
/// of June 2014. Redo changed almost no pages in that test. The published figures are shown next to the run's own.
const PUBLISHED_SECONDS: f64 = 2.910;
const PUBLISHED_READS: &str = "573 to 614";
const PUBLISHED_WRITES: &str = "3.985 to 3.995";
const PUBLISHED_LOG_READS: &str = "4.98 to 5.00";

/// Returns the replay tables, or none for other tests.
pub(super) fn all(result: &RunResult) -> Vec<ReportTable> {
    let Some(recovery) = &result.recovery else { return Vec::new() };
    vec![statistics(recovery), per_log(recovery), io(recovery)]
}

/// Returns Jetstress's replay table, in its formats.
fn statistics(recovery: &RecoveryTestResult) -> ReportTable {
    let columns = ["Log files replayed", "Elapsed seconds"];
    let row = |database: &ReplayedDatabase| {
        vec![
            database.instance.as_str().into(),
            ReportCell::count(database.logs),
            ticks(database.seconds).into(),
        ]
    };
    let logs: u64 = recovery.databases.iter().map(|database| database.logs).sum();
    let seconds: f64 = recovery.databases.iter().map(|database| database.seconds).sum();
    let databases = recovery.databases.len().max(1);
    ReportTable::numbers("Soft Recovery Statistics - All", "Database Instance", columns)
        .rows(recovery.databases.iter().map(row))
        .row(vec![
            "Avg".into(),
            ReportCell::count(logs / databases as u64),
            with_three_decimals(seconds / databases as f64).into(),
        ])
        .row(vec!["Sum".into(), ReportCell::count(logs), ticks(seconds).into()])
}

/// Formats seconds in Jetstress's unit, which is 100 ns.
fn ticks(seconds: f64) -> String {
    without_zeros(&format!("{seconds:.7}"))
}

fn per_log(recovery: &RecoveryTestResult) -> ReportTable {
    let mean = |value: fn(&ReplayedDatabase) -> u64| {
        ReportCell::figure(Unit::PerLog, recovery.mean(|database| database.per_log(value(database) as f64)))
    };
    let row = |name: &str, measured: ReportCell, published: Option<&str>| {
        let published = published.map_or_else(ReportCell::missing, ReportCell::from);
        vec![ReportCell::from(name), measured, published]
    };
    let published_seconds = with_three_decimals(PUBLISHED_SECONDS);
    let seconds = recovery.seconds_per_log();
    let table = ReportTable::numbers("Replay of a Log", "Figure", ["This run", "Published test"])
        .row(row("Seconds per log per database", ticks(seconds).into(), Some(&published_seconds)))
        .row(row(
            "Log records per second",
            ReportCell::figure(Unit::PerSecond, recovery.records_per_second()),
            None,
        ))
        .row(row("Log records per log", mean(|database| database.records), None))
        .row(row("Page changes redone per log", mean(|database| database.changes), Some("almost none")))
        .row(row("Database reads per log", mean(|database| database.database_reads), Some(PUBLISHED_READS)))
        .row(row(
            "Database writes per log",
            mean(|database| database.database_writes),
            Some(PUBLISHED_WRITES),
        ))
        .row(row("Log reads per log", mean(|database| database.log_reads), Some(PUBLISHED_LOG_READS)))
        .note(match recovery.mode {
            RecoveryMode::True => {
                "Mode true: the databases were in their state before the load, so redo applied all changes \
                 again. The published test had almost nothing to redo."
            }
            RecoveryMode::Compatible => {
                "Mode compatible: as in the published test, the databases already contained all changes. \
                 Redo therefore compared page timestamps and changed almost nothing."
            }
        });
    let times = |factor: f64| plain((factor * 10.0).round() / 10.0);
    if seconds <= 0.0 {
        table
    } else if seconds <= PUBLISHED_SECONDS {
        table.note(format!(
            "The time per log was 1/{} of that in the published test.",
            times(PUBLISHED_SECONDS / seconds)
        ))
    } else {
        table.note(format!(
            "The time per log was {} times that in the published test.",
            times(seconds / PUBLISHED_SECONDS)
        ))
    }
}

fn io(recovery: &RecoveryTestResult) -> ReportTable {
    let rows = recovery.databases.iter().filter_map(|database| database.io.clone());
    io_table("Soft Recovery I/O Performance", rows).note(
        "I/O of the replay. Except for the verification, the tables below describe the load that \
         generated the logs.",
    )
}
