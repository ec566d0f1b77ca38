//! Tables for a backup test.

use jetcell_input::Unit;
use jetcell_input::number::MIB;
use jetcell_input::time::clock;
use jetcell_workload::result::{BackupCost, BackupTestResult, DatabaseBackup, LoadFigures, RunResult};

use super::jetstress::io_table;
use crate::table::{Digits, ReportCell, ReportColumn, ReportTable};

/// Returns the backup tables, or none for other tests.
pub(super) fn all(result: &RunResult) -> Vec<ReportTable> {
    let Some(backup) = &result.backup else { return Vec::new() };
    let mut tables = vec![statistics(backup)];
    tables.extend(backup.cost.as_ref().map(cost));
    tables.push(pages(backup));
    let rows = backup.databases.iter().filter_map(|database| database.io.clone());
    let table = io_table("Backup I/O Performance", rows);
    tables.push(table.note("Backup reads of 256 KiB each, eight in flight per database."));
    tables
}

/// Returns Jetstress's backup table, in its formats.
fn statistics(backup: &BackupTestResult) -> ReportTable {
    let columns = ["Database Size (MBytes)", "Elapsed Backup Time", "MBytes Transferred/sec"];
    let row = |database: &DatabaseBackup| {
        vec![
            database.instance.as_str().into(),
            ReportCell::figure(Unit::Mebibytes, database.counters.bytes as f64 / MIB),
            clock(database.seconds).into(),
            ReportCell::figure(Unit::MebibytesPerSecond, database.rate() / MIB),
        ]
    };
    let last = |name: &str, value: f64| -> Vec<ReportCell> {
        vec![name.into(), "".into(), "".into(), ReportCell::figure(Unit::MebibytesPerSecond, value / MIB)]
    };
    ReportTable::numbers("Database Backup Statistics - All", "Database Instance", columns)
        .rows(backup.databases.iter().map(row))
        .row(last("Avg", backup.rate_per_database()))
        .row(last("Sum", backup.rate()))
        .note(match (&backup.to, &backup.cost) {
            (Some(to), _) => {
                format!("Pages and logs were written to {}. One MByte is 1,048,576 bytes.", to.display())
            }
            (None, Some(_)) => {
                "The load ran concurrently, and pages were discarded. One MByte is 1,048,576 bytes.".into()
            }
            (None, None) => {
                "Nothing else ran, and pages were discarded. One MByte is 1,048,576 bytes.".into()
            }
        })
}

fn pages(backup: &BackupTestResult) -> ReportTable {
    let columns = ["Pages", "Read again", "Corrected bits", "Bad"];
    let mut table = ReportTable::numbers("Pages of the Backup", "Database", columns);
    table.columns.push(ReportColumn::text("Findings"));
    table.rows(backup.databases.iter().map(|database| {
        let counters = &database.counters;
        vec![
            database.database.display().to_string().into(),
            ReportCell::count(counters.pages),
            ReportCell::count(counters.read_again),
            ReportCell::count(counters.corrected).bad_if(counters.corrected > 0),
            ReportCell::count(counters.bad).bad_if(counters.bad > 0),
            counters.findings.join("; ").into(),
        ]
    }))
}

fn cost(cost: &BackupCost) -> ReportTable {
    let row = |name: &str, unit: Unit, alone: f64, together: f64| -> Vec<ReportCell> {
        let change = if alone > 0.0 {
            ReportCell::number((together / alone - 1.0) * 100.0, Digits::Signed)
        } else {
            ReportCell::missing()
        };
        vec![name.into(), ReportCell::figure(unit, alone), ReportCell::figure(unit, together), change]
    };
    let (alone, together) = (&cost.load_alone, &cost.load_together);
    let load = |name: &str, unit: Unit, value: fn(&LoadFigures) -> f64| {
        row(name, unit, value(alone), value(together))
    };
    ReportTable::numbers("Cost of the Backup", "Figure", ["Alone", "Together", "Change (%)"])
        .row(row(
            "Backup (MBytes/sec)",
            Unit::MebibytesPerSecond,
            cost.backup_alone / MIB,
            cost.backup_together / MIB,
        ))
        .row(load("Transactional I/O per second", Unit::PerSecond, |load| load.transactional_iops))
        .row(load("Operations per second", Unit::PerSecond, |load| load.operations_per_second))
        .row(load("Database read latency (msec)", Unit::Milliseconds, |load| load.database_read_ms))
        .row(load("Database write latency (msec)", Unit::Milliseconds, |load| load.database_write_ms))
        .row(load("Log write latency (msec)", Unit::Milliseconds, |load| load.log_write_ms))
        .note(
            "Alone: the backup without the load, and the load without a backup. Together: both concurrently.",
        )
}
