//! Jetstress's report tables, with the same titles, rows, columns, units, and formats.

use jetcell_input::Unit;
use jetcell_input::number::{MIB, plain};
use jetcell_input::time::duration_text;
use jetcell_workload::measurement::Sample;
use jetcell_workload::result::{InstanceRow, RunResult, total_log_reads, total_reads};
use jetcell_workload::{Profile, Verdict};

use super::verdict_tone;
use crate::number::bytes;
use crate::table::{ReportCell, ReportTable};

pub(crate) const INSTANCES: &str = "MSExchange Database ==> Instances";

/// Returns a cell with a verdict in the words of Jetstress.
pub(crate) fn jetstress_verdict_cell(verdict: Verdict) -> ReportCell {
    let word = match verdict {
        Verdict::Pass => "Pass",
        Verdict::Fail => "Fail",
        Verdict::Incomplete => "Incomplete",
    };
    ReportCell::from(word).with_tone(verdict_tone(verdict))
}

pub(super) fn summary(result: &RunResult) -> ReportTable {
    let (measured, seconds) = match (&result.backup, &result.recovery) {
        (Some(backup), _) if backup.cost.is_none() => ("Time of the backup", backup.seconds),
        (_, Some(recovery)) => ("Time of the replay", recovery.seconds),
        _ => ("Measured time", result.measured_seconds),
    };
    let interruptions = (result.parts.len() > 1).then(|| (result.parts.len() - 1).to_string());
    let mut table = ReportTable::facts("Test Summary")
        .fact("Overall Test Result", jetstress_verdict_cell(result.verdict))
        .fact("Machine Name", result.evidence.machine.host.as_str())
        .fact_if("Test Description", result.configuration.description.as_deref())
        .fact(
            "Test Start Time",
            result.parts.first().map_or(&result.started, |first| &first.started).as_str(),
        )
        .fact("Test End Time", result.ended.as_str())
        .fact(measured, duration_text(seconds))
        .fact_if("Interruptions", interruptions)
        .fact("Jetcell Version", result.evidence.jetcell_version.as_str())
        .fact("Operating System", result.evidence.machine.operating_system.as_str());
    for phase in &result.phases {
        table = table.fact(phase.phase.title(), duration_text(phase.seconds));
    }
    table
}

pub(super) fn sizing(result: &RunResult) -> ReportTable {
    let mailboxes = result.configuration.mailboxes;
    let carried =
        mailboxes.map(|all| ReportCell::count(all.supported_by(result.achieved_transactional_iops)));
    let interval = result.analysis.repetitions.as_ref().map(|all| all.transactional_iops.half_width);
    let achieved = ReportCell::figure(Unit::PerSecond, result.achieved_transactional_iops).within(interval);
    ReportTable::facts("Database Sizing and Throughput")
        .fact_if("Mailboxes", mailboxes.map(|all| ReportCell::count(all.count)))
        .fact_if("Mailboxes that the Achieved I/O Carries", carried)
        .fact_if("I/O per Second of Each Mailbox", mailboxes.map(|all| plain(all.iops_each)))
        .fact_if("Quota of Each Mailbox", mailboxes.map(|all| all.quota.to_string()))
        .fact("Achieved Transactional I/O per Second", achieved)
        .fact_if(
            "Target Transactional I/O per Second",
            result.configuration.target_iops.map(|target| ReportCell::figure(Unit::PerSecond, target)),
        )
        .fact("Initial Database Size (bytes)", bytes(result.initial_database_bytes))
        .fact("Final Database Size (bytes)", bytes(result.final_database_bytes))
        .fact("Database Files (Count)", result.database_files.to_string())
}

pub(super) fn parameters(result: &RunResult) -> ReportTable {
    let Profile { mix, threads, lazy_percent, .. } = &result.configuration;
    let percent = |value: u8| format!("{value}%");
    let page_writes = if result.plan.page_protection {
        "to a side file first, then in place"
    } else {
        "in place and once, as in ESE; no side file protects against torn pages"
    };
    ReportTable::facts("Jetstress System Parameters")
        .fact("Thread Count", threads.to_string())
        .fact("Maximum Database Cache", format!("{:.1} MB", result.plan.cache_bytes as f64 / MIB))
        .fact("Database Page Size (bytes)", ReportCell::count(result.plan.page_bytes))
        .fact("Insert Operations", percent(mix.insert))
        .fact("Delete Operations", percent(mix.delete))
        .fact("Replace Operations", percent(mix.replace))
        .fact("Read Operations", percent(mix.read))
        .fact("Lazy Commits", percent(*lazy_percent))
        .fact("Run Background Database Maintenance", if result.configuration.scan { "True" } else { "False" })
        .fact("Number of Copies per Database", result.configuration.copies.to_string())
        .fact("Waypoint Latency (logs)", result.plan.waypoint_latency.to_string())
        .fact("Database page writes", page_writes)
        .fact("Database Page Fault Stalls", ReportCell::count(result.page_fault_stalls))
        .fact("Cache in use at the end (bytes)", bytes(result.cache_used_bytes))
        .fact_if("Highest resident memory (bytes)", result.peak_resident_bytes.map(bytes))
}

pub(super) fn databases(result: &RunResult) -> ReportTable {
    let row = |row: &InstanceRow| {
        let paths = format!("Log path: {}  Database: {}", row.log_path.display(), row.database.display());
        vec![row.instance.as_str().into(), paths.into()]
    };
    let table = ReportTable {
        facts: true,
        ..ReportTable::text_columns("Database Configuration", &["Instance", "Value"])
    };
    table.rows(result.instances.iter().map(row))
}

pub(super) fn transactional(result: &RunResult) -> ReportTable {
    let table =
        io_table_with_total("Transactional I/O Performance", result.instances.iter().cloned(), result);
    table
        .note(
            "Averages are weighted by transfers; they are not means of samples. Writes are checkpoint and \
         eviction writes. Verification and preparation of log files are excluded.",
        )
        .or_note("Nothing was measured.")
}

pub(super) fn total(result: &RunResult) -> ReportTable {
    let sum = |row: &InstanceRow| {
        let (reads, logs) = (total_reads(row), total_log_reads(row));
        InstanceRow {
            database_reads_per_second: reads.per_second,
            database_reads_average_bytes: reads.average_bytes,
            database_reads_average_latency_ms: reads.average_ms,
            log_reads_per_second: logs.per_second,
            log_reads_average_bytes: logs.average_bytes,
            ..row.clone()
        }
    };
    io_table_with_total("Total I/O Performance", result.instances.iter().map(sum), result)
        .note("Transactional I/O, background maintenance and log replication together; read latency is that of transactional reads.")
        .or_note("Nothing was measured.")
}

/// Builds one of the two large tables, which have twelve columns.
fn io_table_with_total(
    title: &str,
    instances: impl Iterator<Item = InstanceRow>,
    result: &RunResult,
) -> ReportTable {
    let mut rows: Vec<InstanceRow> =
        if result.measured_seconds == 0.0 { vec![] } else { instances.collect() };
    add_total(&mut rows);
    io_table(title, rows.into_iter())
}

/// Adds a row of totals if there is more than one instance.
fn add_total(rows: &mut Vec<InstanceRow>) {
    if rows.len() > 1 {
        rows.push(jetcell_workload::result::total(rows));
    }
}

/// Returns a table of instances with Jetstress's twelve columns.
pub(super) fn io_table(title: &str, instances: impl Iterator<Item = InstanceRow>) -> ReportTable {
    let empty = InstanceRow::new(String::new(), "".into(), "".into());
    let table = ReportTable::numbers(title, INSTANCES, empty.jetstress_rows().map(|(name, ..)| name));
    table.rows(instances.map(|instance| {
        let name = ReportCell::from(instance.instance.as_str());
        std::iter::once(name)
            .chain(instance.jetstress_rows().map(|(_, unit, value)| ReportCell::figure(unit, value)))
            .collect()
    }))
}

pub(super) fn maintenance(result: &RunResult) -> ReportTable {
    let names =
        InstanceRow::new(String::new(), "".into(), "".into()).maintenance_rows().map(|(name, ..)| name);
    let row = |row: &InstanceRow| {
        let values = row.maintenance_rows().map(|(_, unit, value)| ReportCell::figure(unit, value));
        std::iter::once(row.instance.as_str().into()).chain(values).collect()
    };
    let read = result.instances.iter().filter(|row| row.maintenance_reads_per_second > 0.0);
    let mut read: Vec<InstanceRow> = read.cloned().collect();
    add_total(&mut read);
    ReportTable::numbers("Background Database Maintenance I/O Performance", INSTANCES, names)
        .rows(read.iter().map(row))
        .note("Reads of the checksum scan, which are not transactional I/O.")
        .or_note(if result.configuration.scan {
            "The checksum scan read nothing in the measured time, or the run did not complete."
        } else {
            "Not run: the checksum scan was off."
        })
}

pub(super) fn log_replication(result: &RunResult) -> ReportTable {
    let empty = InstanceRow::new(String::new(), "".into(), "".into());
    let names = empty.replication_rows().map(|(name, ..)| name);
    let row = |row: &InstanceRow| {
        let values = row.replication_rows().map(|(_, unit, value)| ReportCell::figure(unit, value));
        std::iter::once(row.instance.as_str().into()).chain(values).collect()
    };
    let read = result.instances.iter().filter(|row| row.replication_reads_per_second > 0.0);
    let mut read: Vec<InstanceRow> = read.cloned().collect();
    add_total(&mut read);
    ReportTable::numbers("Log Replication I/O Performance", INSTANCES, names)
        .rows(read.iter().map(row))
        .note(
            "Simulated log reads for additional copies: 9 reads and 2,093,056 bytes per closed 1 MiB log \
             and additional copy. They are not transactional I/O.",
        )
        .or_note(match result.configuration.copies {
            0 | 1 => "Not run: the databases have one copy (--copies).",
            _ => "No log was closed in the measured time, or the run did not complete.",
        })
}

pub(super) fn host(result: &RunResult, samples: &[Sample]) -> ReportTable {
    let (used, each) = (&result.analysis.host, &result.analysis.host_samples);
    let table = ReportTable::numbers("Host System Performance", "Counter", ["Average", "Minimum", "Maximum"]);
    let row = |name: &str, unit: Unit, average: f64, values: &mut dyn Iterator<Item = f64>| {
        let (low, high) =
            values.fold((average, average), |(low, high), value| (low.min(value), high.max(value)));
        [average, low, high].into_iter().fold(vec![name.into()], |mut cells, value| {
            cells.push(ReportCell::figure(unit, value));
            cells
        })
    };
    let mut rows = Vec::new();
    if used.seconds > 0.0 && !each.is_empty() {
        let available = each.iter().map(|host| host.memory_available_bytes as f64 / MIB);
        let mean = available.clone().sum::<f64>() / each.len() as f64;
        rows.push(row(
            "% Processor Time",
            Unit::Percent,
            used.cpu_percent,
            &mut each.iter().map(|host| host.cpu_percent),
        ));
        rows.push(row(
            "% Processor Time (this test)",
            Unit::Percent,
            used.process_cpu_percent,
            &mut each.iter().map(|host| host.process_cpu_percent),
        ));
        rows.push(row("Available MBytes", Unit::Mebibytes, mean, &mut available.clone()));
    }
    if !samples.is_empty() && result.measured_seconds > 0.0 {
        let stalls =
            samples.iter().filter(|s| s.seconds > 0.0).map(|s| s.page_fault_stalls as f64 / s.seconds);
        let mean = result.page_fault_stalls as f64 / result.measured_seconds;
        rows.push(row("Database Page Fault Stalls/sec", Unit::PerSecond, mean, &mut stalls.clone()));
    }
    table
        .rows(rows)
        .note("Counters of the whole machine, from /proc; system page table entries and pools exist on Windows only.")
        .or_note("The machine was not sampled.")
}

pub(super) fn log(result: &RunResult) -> ReportTable {
    let row = |line: &String| {
        let (time, text) = line.split_once(" -- ").unwrap_or(("", line));
        vec![time.into(), text.into()]
    };
    let table = ReportTable { facts: true, ..ReportTable::text_columns("Test Log", &["Time", "Event"]) };
    table
        .rows(result.log.iter().map(row))
        .or_note("The log is empty: the run is not complete, or was killed.")
}
