//! Result tables: performance, backup, and replay, for each server and for all servers combined.

use jetcell_input::number::decimal;

use crate::esrp::aggregate::{BackupRate, PerformanceTotals, ReplayRate};
use crate::esrp::tested_server::ServerTest;
use crate::number::three_grouped;
use crate::table::{ReportCell, ReportTable};

/// Returns a table with the performance results of one or more servers.
pub(crate) fn performance(title: &str, tests: &[&ServerTest]) -> ReportTable {
    let table = ReportTable::facts(title);
    let Some(PerformanceTotals { summary, weighted_ms, achieved_iops, target_iops }) =
        PerformanceTotals::from_tests(tests)
    else {
        return table.or_note("The report has no table of total I/O.");
    };
    let latency = |mean: f64, weighted: f64| {
        let (mean, weighted) = (three_grouped(mean), three_grouped(weighted));
        let same = mean.text() == weighted.text();
        mean.with_remark(if same { String::new() } else { format!("over all transfers {}", weighted.text()) })
    };
    table
        .fact("Database Disks Transfers/sec", three_grouped(summary.database_transfers))
        .fact("Database Disks Reads/sec", three_grouped(summary.database_reads))
        .fact("Database Disks Writes/sec", three_grouped(summary.database_writes))
        .fact("Average Database Disk Read Latency (ms)", latency(summary.database_read_ms, weighted_ms[0]))
        .fact("Average Database Disk Write Latency (ms)", latency(summary.database_write_ms, weighted_ms[1]))
        .fact("Log Disks Writes/sec", three_grouped(summary.log_writes))
        .fact("Average Log Disk Write Latency (ms)", latency(summary.log_write_ms, weighted_ms[2]))
        .fact_if("Achieved Transactional I/O per Second", achieved_iops.map(three_grouped))
        .fact_if("Target Transactional I/O per Second", target_iops.map(three_grouped))
}

/// Returns a table with backup rates, first for each server and then for all servers.
pub(crate) fn backup(tests: &[&ServerTest]) -> ReportTable {
    let two = |value: f64| ReportCell::from(decimal(value, 2));
    let rows = tests.iter().filter_map(|test| {
        let rate = BackupRate::from_tests(&[test])?;
        Some(vec![test.server.as_str().into(), two(rate.per_database), two(rate.per_server)])
    });
    let columns = ["MB read/sec per database", "MB read/sec total per server"];
    let table = ReportTable::numbers("Database read-only performance", "Server", columns).rows(rows);
    match BackupRate::from_tests(tests) {
        Some(all) if tests.len() > 1 => table
            .row(vec!["Mean of all".into(), two(all.per_database), two(all.per_server)])
            .note(format!("All servers read at the same time: {} MB/sec in total.", decimal(all.total, 2))),
        _ => table,
    }
    .note("One MB is 1,048,576 bytes, as in Jetstress.")
    .or_note("No backup test is given.")
}

/// Returns a table with replay rates, first for each server and then for all servers.
pub(crate) fn replay(tests: &[&ServerTest]) -> ReportTable {
    let row = |name: &str, rate: ReplayRate| {
        vec![
            name.into(),
            ReportCell::count(rate.logs),
            three_grouped(rate.seconds),
            three_grouped(rate.seconds_per_log()),
        ]
    };
    let rows = tests.iter().filter_map(|test| Some(row(&test.server, ReplayRate::from_tests(&[test])?)));
    let columns = ["Log files", "Seconds, summed over databases", "Average time to play one Log file (sec)"];
    let table = ReportTable::numbers("Transaction log recovery and replay", "Server", columns).rows(rows);
    match ReplayRate::from_tests(tests) {
        Some(all) if tests.len() > 1 => table.row(row("All", all)),
        _ => table,
    }
    .or_note("No recovery test is given.")
}
