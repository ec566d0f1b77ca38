//! A published report's tables under Jetstress's titles, for the appendix.

use jetcell_input::number::decimal;
use jetcell_workload::TestKind;
use jetcell_workload::result::InstanceRow;

use super::{PublishedIo, PublishedTest};
use crate::number::three_grouped;
use crate::table::{ReportCell, ReportTable};
use crate::tables::INSTANCES;

/// Returns all tables that the report contains.
pub(super) fn all_tables(test: &PublishedTest, kind: TestKind) -> Vec<ReportTable> {
    let statistics = match kind {
        TestKind::Backup => backup(test),
        _ => recovery(test),
    };
    let tables = [
        summary(test),
        statistics,
        sizing(test),
        parameters(test),
        databases(test),
        io_table("Transactional I/O Performance", &test.transactional_io),
        maintenance(test),
        replication(test),
        io_table("Total I/O Performance", &test.total_io),
        host(test),
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn summary(test: &PublishedTest) -> ReportTable {
    let table = ReportTable::facts("Test Summary");
    let Some(summary) = &test.test_summary else { return table };
    let passed = summary.overall_test_result == "Pass";
    table
        .fact("Overall Test Result", ReportCell::with_judgement(summary.overall_test_result.as_str(), passed))
        .fact("Machine Name", summary.machine_name.as_str())
        .fact("Test Start Time", summary.test_start.0.to_string())
        .fact("Test End Time", summary.test_end.0.to_string())
        .fact("Collection Start Time", summary.collection_start.0.to_string())
        .fact("Collection End Time", summary.collection_end.0.to_string())
        .fact("Jetstress Version", summary.jetstress_version.as_str())
        .fact("ESE Version", summary.ese_version.as_str())
        .fact("Operating System", summary.operating_system.as_str())
        .fact("Performance Log", summary.performance_log.as_str())
}

fn sizing(test: &PublishedTest) -> ReportTable {
    let table = ReportTable::facts("Database Sizing and Throughput");
    let Some(sizing) = &test.sizing else { return table };
    table
        .fact("Achieved Transactional I/O per Second", three_grouped(sizing.achieved_transactional_iops))
        .fact("Target Transactional I/O per Second", three_grouped(sizing.target_transactional_iops))
        .fact("Initial Database Size (bytes)", ReportCell::count(sizing.initial_database_size_bytes))
        .fact("Final Database Size (bytes)", ReportCell::count(sizing.final_database_size_bytes))
        .fact("Database Files (Count)", sizing.database_files.to_string())
}

fn parameters(test: &PublishedTest) -> ReportTable {
    let table = ReportTable::facts("Jetstress System Parameters");
    let Some(all) = &test.system_parameters else { return table };
    let scan = all.run_background_database_maintenance.map(|run| if run { "True" } else { "False" });
    table
        .fact("Thread Count", ReportCell::count(all.thread_count))
        .fact("Minimum Database Cache", format!("{} MB", decimal(all.min_cache_mb, 1)))
        .fact("Maximum Database Cache", format!("{} MB", decimal(all.max_cache_mb, 1)))
        .fact("Insert Operations", format!("{}%", all.insert_pct))
        .fact("Delete Operations", format!("{}%", all.delete_pct))
        .fact("Replace Operations", format!("{}%", all.replace_pct))
        .fact("Read Operations", format!("{}%", all.read_pct))
        .fact("Lazy Commits", format!("{}%", all.lazy_commit_pct))
        .fact_if("Run Background Database Maintenance", scan)
        .fact_if("Number of Copies per Database", all.copies_per_database.map(|copies| copies.to_string()))
}

fn databases(test: &PublishedTest) -> ReportTable {
    let rows = test.database_configuration.iter().map(|paths| {
        let value = format!("Log path: {}  Database: {}", paths.log_path, paths.database);
        vec![paths.instance.as_str().into(), value.into()]
    });
    ReportTable { facts: true, ..ReportTable::text_columns("Database Configuration", &["Instance", "Value"]) }
        .rows(rows)
}

fn io_table(title: &str, rows: &[PublishedIo]) -> ReportTable {
    let empty = InstanceRow::new(String::new(), "".into(), "".into());
    let table = ReportTable::numbers(title, INSTANCES, empty.jetstress_rows().map(|(name, ..)| name));
    table.rows(
        rows.iter()
            .map(PublishedIo::row)
            .map(|row| figures(&row.instance, row.jetstress_rows().map(|(.., value)| value))),
    )
}

fn maintenance(test: &PublishedTest) -> ReportTable {
    let columns = ["Database Maintenance IO Reads/sec", "Database Maintenance IO Reads Average Bytes"];
    let rows = test.background_maintenance_io.iter();
    ReportTable::numbers("Background Database Maintenance I/O Performance", INSTANCES, columns).rows(
        rows.map(|row| {
            figures(&row.instance, [row.maintenance_reads_per_sec, row.maintenance_reads_avg_bytes])
        }),
    )
}

fn replication(test: &PublishedTest) -> ReportTable {
    let columns = ["I/O Log Reads/sec", "I/O Log Reads Average Bytes"];
    let rows = test.log_replication_io.iter();
    ReportTable::numbers("Log Replication I/O Performance", INSTANCES, columns)
        .rows(rows.map(|row| figures(&row.instance, [row.log_reads_per_sec, row.log_reads_avg_bytes])))
}

fn host(test: &PublishedTest) -> ReportTable {
    let rows = test.host_system.iter();
    ReportTable::numbers("Host System Performance", "Counter", ["Average", "Minimum", "Maximum"])
        .rows(rows.map(|row| figures(&row.counter, [row.average, row.minimum, row.maximum])))
}

fn figures(name: &str, values: impl IntoIterator<Item = f64>) -> Vec<ReportCell> {
    std::iter::once(name.into()).chain(values.into_iter().map(three_grouped)).collect()
}

fn backup(test: &PublishedTest) -> ReportTable {
    let columns = ["Database Size (MBytes)", "Elapsed Backup Time", "MBytes Transferred/sec"];
    let rows = test.statistics.iter().map(|row| {
        let (size, rate) = (decimal(row.database_size_mb, 2), decimal(row.mb_per_sec, 2));
        vec![row.instance.as_str().into(), size.into(), row.elapsed.as_str().into(), rate.into()]
    });
    ReportTable::numbers("Database Backup Statistics - All", "Database Instance", columns).rows(rows)
}

fn recovery(test: &PublishedTest) -> ReportTable {
    let columns = ["Log files replayed", "Elapsed seconds"];
    let rows = test.statistics.iter().map(|row| {
        vec![
            row.instance.as_str().into(),
            ReportCell::count(row.log_files_replayed),
            three_grouped(row.elapsed_seconds),
        ]
    });
    ReportTable::numbers("Soft Recovery Statistics - All", "Database Instance", columns).rows(rows)
}
