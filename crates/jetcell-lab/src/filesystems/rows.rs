//! The compared figures: those in Jetstress's table, plus CPU time.

use jetcell_input::Unit;
use jetcell_workload::measurement::BetterDirection;
use jetcell_workload::result::{InstanceRow, RunResult};
use serde::Serialize;

/// A metric by which test runs are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ComparedMetric {
    /// Short machine-readable name.
    pub name: &'static str,
    /// Human-readable title.
    pub title: &'static str,
    /// Unit of the figure.
    pub unit: Unit,
    /// Whether higher or lower figures are better.
    pub better: BetterDirection,
}

pub(crate) const fn row(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    better: BetterDirection,
) -> ComparedMetric {
    ComparedMetric { name, title, unit, better }
}

/// All rows, in table order.
pub const ROWS: [ComparedMetric; 14] = [
    row("achieved_transactional_iops", "Transactional I/O", Unit::PerSecond, BetterDirection::Higher),
    row("db_reads_avg_latency_ms", "Database read latency", Unit::Milliseconds, BetterDirection::Lower),
    row("db_writes_avg_latency_ms", "Database write latency", Unit::Milliseconds, BetterDirection::Lower),
    row("db_reads_per_sec", "Database reads", Unit::PerSecond, BetterDirection::Higher),
    row("db_writes_per_sec", "Database writes", Unit::PerSecond, BetterDirection::Higher),
    row("db_reads_avg_bytes", "Bytes of a database read", Unit::Bytes, BetterDirection::Neither),
    row("db_writes_avg_bytes", "Bytes of a database write", Unit::Bytes, BetterDirection::Neither),
    row("log_reads_avg_latency_ms", "Log read latency", Unit::Milliseconds, BetterDirection::Lower),
    row("log_writes_avg_latency_ms", "Log write latency", Unit::Milliseconds, BetterDirection::Lower),
    row("log_reads_per_sec", "Log reads", Unit::PerSecond, BetterDirection::Higher),
    row("log_writes_per_sec", "Log writes", Unit::PerSecond, BetterDirection::Higher),
    row("log_reads_avg_bytes", "Bytes of a log read", Unit::Bytes, BetterDirection::Neither),
    row("log_writes_avg_bytes", "Bytes of a log write", Unit::Bytes, BetterDirection::Neither),
    row("avg_processor_time_pct", "Processor", Unit::Percent, BetterDirection::Lower),
];

type InstanceFigure = fn(&InstanceRow) -> f64;

/// Returns a run's figures, in the order of [`ROWS`]. Rates are summed over the databases; latencies and byte counts
/// are means over all transfers. Reads include those by the background checksum scan, as in Jetstress's table of all
/// I/O.
pub fn figures(run: &RunResult) -> [f64; 14] {
    let rows = &run.instances;
    let sum = |value: InstanceFigure| rows.iter().map(value).sum::<f64>();
    let mean = |value: InstanceFigure, rate: InstanceFigure| {
        let weighted: f64 = rows.iter().map(|row| value(row) * rate(row)).sum();
        let all = sum(rate);
        if all > 0.0 { weighted / all } else { 0.0 }
    };
    let reads: InstanceFigure = |row| row.database_reads_per_second + row.maintenance_reads_per_second;
    let read_bytes: InstanceFigure = |row| {
        let bytes = row.database_reads_per_second * row.database_reads_average_bytes
            + row.maintenance_reads_per_second * row.maintenance_reads_average_bytes;
        let rate = row.database_reads_per_second + row.maintenance_reads_per_second;
        if rate > 0.0 { bytes / rate } else { 0.0 }
    };
    let writes: InstanceFigure = |row| row.database_writes_per_second;
    let log_reads: InstanceFigure = |row| row.log_reads_per_second;
    let log_writes: InstanceFigure = |row| row.log_writes_per_second;
    [
        run.achieved_transactional_iops,
        mean(|row| row.database_reads_average_latency_ms, reads),
        mean(|row| row.database_writes_average_latency_ms, writes),
        sum(reads),
        sum(writes),
        mean(read_bytes, reads),
        mean(|row| row.database_writes_average_bytes, writes),
        mean(|row| row.log_reads_average_latency_ms, log_reads),
        mean(|row| row.log_writes_average_latency_ms, log_writes),
        sum(log_reads),
        sum(log_writes),
        mean(|row| row.log_reads_average_bytes, log_reads),
        mean(|row| row.log_writes_average_bytes, log_writes),
        run.analysis.host.cpu_percent,
    ]
}
