//! Content of the first screen: the tested storage, and the few figures that summarize the result.

use jetcell_input::Unit;
use jetcell_input::number::{MIB, human_bytes, signed, significant};
use jetcell_input::time::duration_text;
use jetcell_workload::measurement::{ConfidenceInterval, LatencySummary, Repetitions};
use jetcell_workload::result::RunResult;

use crate::table::{Digits, ReportCell, ReportTable};

/// Describes the test: the user's description, the machine, the storage, the databases, and the time.
pub(crate) fn test_description(result: &RunResult) -> Vec<String> {
    let machine = &result.evidence.machine;
    let mut lines: Vec<String> = result.configuration.description.clone().into_iter().collect();
    lines.push(format!(
        "{}: {} × {}, {} of memory",
        machine.host,
        machine.processors,
        machine.processor,
        human_bytes(machine.memory_bytes)
    ));
    let mut storage: Vec<String> = Vec::new();
    for place in &machine.storage {
        let device = place.device.as_ref();
        let name = device.map(|device| device.model.as_ref().unwrap_or(&device.name).clone());
        let mount = place.mount.as_ref().map(|mount| mount.file_system.clone());
        let parts: Vec<String> = mount.into_iter().chain(name).collect();
        let line = if parts.is_empty() { place.directory.display().to_string() } else { parts.join(" on ") };
        if !storage.contains(&line) {
            storage.push(line);
        }
    }
    if !storage.is_empty() {
        lines.push(storage.join("; "));
    }
    let databases = match result.database_files {
        1 => "one database".to_string(),
        count => format!("{count} databases"),
    };
    let started = result.parts.first().map_or(&result.started, |first| &first.started);
    // Keep the date, hour and minute of a time such as `2026-01-02T03:04:05+00:00`.
    let minute: String = started.chars().take(16).collect();
    lines.push(format!(
        "{databases}, {} in all; {}",
        human_bytes(result.initial_database_bytes.max(result.final_database_bytes)),
        minute.replace('T', " ")
    ));
    lines
}

/// Returns a table of the most important figures, each with its unit.
pub(crate) fn headline(result: &RunResult) -> ReportTable {
    let table = ReportTable::facts("Headline");
    if let Some(replication) = &result.replication {
        let ratio = |kept: bool| {
            let steady = replication.steady.as_ref()?;
            replication.ratio(steady, kept, jetcell_workload::result::ReplicationSideIo::transfers)
        };
        let shown = |kept: bool| {
            ratio(kept).map_or_else(ReportCell::missing, |ratio| ReportCell::number(ratio, Digits::Three))
        };
        let table = if replication.has_copies(true) {
            table.fact("Passive over active I/O, instance kept", shown(true))
        } else {
            table
        };
        let table = if replication.has_copies(false) {
            table.fact("Passive over active I/O, instance discarded", shown(false))
        } else {
            table
        };
        let steady = replication.steady.as_ref();
        let missing = steady.and_then(|part| replication.missing_log(part, replication.has_copies(true)));
        return table.fact_if(
            "Log missing on a copy, mean",
            missing.map(|missing| format!("{} KiB", significant(missing.mean_bytes as f64 / 1024.0))),
        );
    }
    if let Some(recovery) = &result.recovery {
        let seconds = recovery.seconds_per_log();
        return table.fact("Seconds per log and database", format!("{} s", significant(seconds)));
    }
    let table = match &result.backup {
        Some(backup) => {
            table.fact("Backup, all databases", format!("{} MiB/s", significant(backup.rate() / MIB))).fact(
                "Backup, each database",
                format!("{} MiB/s", significant(backup.rate_per_database() / MIB)),
            )
        }
        None => table,
    };
    if result.measured_seconds == 0.0 {
        return table;
    }
    let repetitions = result.analysis.repetitions.as_ref();
    let target = result.configuration.target_iops.map(|target| {
        let margin = (result.achieved_transactional_iops / target - 1.0) * 100.0;
        format!("target {}, {} %", Unit::PerSecond.format(target), signed(margin))
    });
    let interval = |of: fn(&Repetitions) -> ConfidenceInterval| repetitions.map(|all| of(all).half_width);
    let latency = |kind: &str, value: fn(&LatencySummary) -> u64, interval: super::IntervalSelector| {
        let summary = result.latency.get(kind).filter(|summary| summary.count > 0)?;
        let figure =
            ReportCell::from(format!("{} ms", Unit::Milliseconds.format(value(summary) as f64 / 1_000.0)));
        let half_width = super::half_width_ms(result, kind, interval);
        let interval = half_width.map(|half_width| Unit::Milliseconds.half_width(half_width));
        Some(figure.with_remark(interval.unwrap_or_default()))
    };
    table
        .fact(
            "Transactional IOPS",
            ReportCell::figure(Unit::PerSecond, result.achieved_transactional_iops)
                .within(interval(|all| all.transactional_iops))
                .with_remark(target.unwrap_or_default()),
        )
        .fact(
            "Operations per second",
            ReportCell::figure(Unit::PerSecond, result.operations.per_second)
                .within(interval(|all| all.operations_per_second)),
        )
        .fact_if("Database read, p50", latency("database_read", |reads| reads.p50, |reads| reads.p50))
        .fact_if("Database read, p95", latency("database_read", |reads| reads.p95, |reads| reads.p95))
        .fact_if("Database read, p99", latency("database_read", |reads| reads.p99, |reads| reads.p99))
        .fact_if("Log write, p99", latency("log_write", |writes| writes.p99, |writes| writes.p99))
        .fact("Measured for", duration_text(result.measured_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{repetitions, result};

    fn lines(result: &RunResult) -> Vec<String> {
        headline(result).rows.iter().map(|row| format!("{}: {}", row[0].line(), row[1].line())).collect()
    }

    #[test]
    fn figures_have_units_and_the_target() {
        let mut result = result();
        assert_eq!(
            lines(&result),
            [
                "Transactional IOPS: 286.0 (target 270.0, +5.9 %)",
                "Operations per second: 12.5",
                "Database read, p50: 4.000 ms",
                "Database read, p95: 10.000 ms",
                "Database read, p99: 20.000 ms",
                "Log write, p99: 20.000 ms",
                "Measured for: 0:01:00",
            ]
        );
        result.analysis.repetitions = Some(repetitions());
        assert_eq!(
            lines(&result),
            [
                "Transactional IOPS: 286.0 (± 4.5; target 270.0, +5.9 %)",
                "Operations per second: 12.5 (± 0.5)",
                "Database read, p50: 4.000 ms (± 0.050)",
                "Database read, p95: 10.000 ms (± 0.095)",
                "Database read, p99: 20.000 ms (± 0.099)",
                "Log write, p99: 20.000 ms (± 0.199)",
                "Measured for: 0:01:00",
            ]
        );
        result.measured_seconds = 0.0;
        assert!(lines(&result).is_empty(), "a run that measured nothing has no figures");
    }

    #[test]
    fn the_subject_begins_with_the_user_supplied_words() {
        let mut result = result();
        assert_eq!(
            test_description(&result),
            ["cell: 2 × x, 8.00 GiB of memory", "/data", "one database, 1.01 GiB in all; 2026-01-02 03:04"]
        );
        result.configuration.description = Some("Rack 7, shelf 2".into());
        assert_eq!(test_description(&result)[0], "Rack 7, shelf 2");
    }
}
