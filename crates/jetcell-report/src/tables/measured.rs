//! Tables that are not part of a Jetstress report.

use jetcell_input::number::MIB;
use jetcell_input::time::duration_text;
use jetcell_input::{Align, Unit};
use jetcell_workload::measurement::{ConfidenceInterval, LatencySummary, LatencyTable, Repetition};
use jetcell_workload::result::RunResult;

use super::{IntervalSelector, half_width_ms};
use crate::number::latency_ms;
use crate::table::{ReportCell, ReportTable};

/// Returns a table of latency percentiles for each I/O kind.
pub(crate) fn io_latency(result: &RunResult) -> ReportTable {
    latencies("I/O Latency (msec)", "I/O latency (msec)", &result.latency, Some(result))
}

pub(super) fn operation_latency(result: &RunResult) -> ReportTable {
    let table =
        latencies("Operation Latency (msec)", "Operation latency (msec)", &result.operation_latency, None);
    match result.analysis.open_loop {
        Some(_) => table.note(
            "Measured from the time at which each operation was due. A stall therefore affects \
             every operation that it delays.",
        ),
        None => table.note("Measured from the start of each operation to its end, including its commit."),
    }
    .or_note("No operation was timed.")
}

/// Builds a table of latencies. `repeated` is the result whose repetitions provide intervals for these figures.
fn latencies(title: &str, what: &str, table: &LatencyTable, repeated: Option<&RunResult>) -> ReportTable {
    let columns = ["Count", "Mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "Maximum"];
    let row = |(name, summary): (&String, &LatencySummary)| {
        let mut row: Vec<ReportCell> = vec![name.replace('_', " ").into(), ReportCell::count(summary.count)];
        let LatencySummary { mean, p50, p90, p95, p99, p99_9, p99_99, max, .. } = *summary;
        let with_interval: [(f64, IntervalSelector); 5] = [
            (mean, |all| all.mean),
            (p50 as f64, |all| all.p50),
            (p90 as f64, |all| all.p90),
            (p95 as f64, |all| all.p95),
            (p99 as f64, |all| all.p99),
        ];
        row.extend(with_interval.map(|(us, interval)| {
            latency_ms(us).within(repeated.and_then(|result| half_width_ms(result, name, interval)))
        }));
        row.extend([p99_9, p99_99, max].map(|us| latency_ms(us as f64)));
        row
    };
    let some = table.iter().filter(|(_, summary)| summary.count > 0).map(row);
    ReportTable::numbers(title, what, columns)
        .rows(some)
        .or_note("No percentiles: the run did not complete, and its samples contain only averages.")
}

pub(super) fn operations(result: &RunResult) -> ReportTable {
    let operations = &result.operations;
    let mut table = ReportTable::facts("Operations");
    for (kind, number) in &operations.counts {
        table = table.fact(kind, ReportCell::count(*number));
    }
    let repetitions = result.analysis.repetitions.as_ref();
    let interval = repetitions.map(|all| all.operations_per_second.half_width);
    let wrong = operations.wrong_records;
    let mut table = table
        .fact(
            "operations per second",
            ReportCell::figure(Unit::PerSecond, operations.per_second).within(interval),
        )
        .fact("failed because another thread held the record", ReportCell::count(operations.conflicts))
        .fact("found no record", ReportCell::count(operations.misses))
        .fact("records with wrong content", ReportCell::count(wrong).bad_if(wrong > 0));
    for line in &operations.wrong {
        table = table.note(line.as_str());
    }
    table
}

pub(super) fn limit(result: &RunResult) -> ReportTable {
    let table = ReportTable::facts("What Limited the Run");
    let Some(limit) = &result.analysis.limit else {
        return table.or_note("Unknown: nothing was measured, or the run did not complete.");
    };
    table
        .fact("Limited by", limit.limiter.title())
        .fact("Reason", limit.reason.as_str())
        .fact("Processors busy, whole machine (%)", ReportCell::figure(Unit::Percent, limit.cpu_percent))
        .fact(
            "Threads' time in durable commits (%)",
            ReportCell::figure(Unit::Percent, limit.commit_share * 100.0),
        )
        .fact(
            "Database reads over threads' time (%)",
            ReportCell::figure(Unit::Percent, limit.database_read_share * 100.0),
        )
        .fact("Database Page Fault Stalls", ReportCell::count(limit.page_fault_stalls))
        .note("Prereads overlap, so database reads may total more than the threads' time.")
}

pub(super) fn steady_state(result: &RunResult) -> ReportTable {
    let table = ReportTable::facts("Steady State");
    let Some(state) = &result.analysis.steady_state else {
        return table.or_note("Unknown: there are fewer than 5 samples, or no sample contains I/O.");
    };
    let verdict = if state.steady { "reached" } else { "not reached: measure longer" };
    let longest = result.configuration.duration.0.as_secs_f64();
    let early =
        result.configuration.stop_when_steady && state.is_precise() && result.measured_seconds < longest;
    let windows: Vec<String> = state.window_iops.iter().map(|iops| Unit::PerSecond.format(*iops)).collect();
    table
        .fact("Steady state", ReportCell::with_judgement(verdict, state.steady))
        .fact("Transactional I/O per second in 5 windows", windows.join("; "))
        .fact("Spread (% of mean, at most 20)", ReportCell::figure(Unit::Percent, state.spread * 100.0))
        .fact("Slope (% of mean, within ±10)", ReportCell::figure(Unit::Percent, state.slope * 100.0))
        .fact_if(
            "Measurement ended",
            early.then(|| {
                format!(
                    "when the I/O rate was known within 5 %, {} before --duration",
                    duration_text(longest - result.measured_seconds)
                )
            }),
        )
}

pub(super) fn repetitions(result: &RunResult) -> ReportTable {
    let columns = [
        "Seconds",
        "Transactional I/O per second",
        "Operations per second",
        "Database read, average (msec)",
        "Log write, average (msec)",
        "Database read, maximum (msec)",
        "Log write, maximum (msec)",
        "Stalls",
    ];
    let table = ReportTable::numbers("Repetitions", "Repetition", columns);
    let Some(all) = &result.analysis.repetitions else {
        return table.or_note(
            "Only one measurement. Use --repeat for several measurements and a confidence interval.",
        );
    };
    let row = |(number, one): (usize, &Repetition)| {
        let figures = [
            (Unit::None, one.seconds),
            (Unit::PerSecond, one.transactional_iops),
            (Unit::PerSecond, one.operations_per_second),
            (Unit::Milliseconds, one.database_read_ms),
            (Unit::Milliseconds, one.log_write_ms),
            (Unit::Milliseconds, one.maximum_database_read_ms),
            (Unit::Milliseconds, one.maximum_log_write_ms),
        ];
        let mut row: Vec<ReportCell> = vec![(number + 1).to_string().into()];
        row.extend(figures.map(|(unit, value)| ReportCell::figure(unit, value)));
        row.push(ReportCell::count(one.page_fault_stalls));
        row
    };
    let intervals = [
        (Unit::PerSecond, all.transactional_iops),
        (Unit::PerSecond, all.operations_per_second),
        (Unit::Milliseconds, all.database_read_ms),
        (Unit::Milliseconds, all.log_write_ms),
    ];
    let summary = |name: &str, value: fn(&ConfidenceInterval) -> f64| {
        let mut row: Vec<ReportCell> = vec![name.into(), "".into()];
        row.extend(intervals.iter().map(|(unit, interval)| ReportCell::figure(*unit, value(interval))));
        row.resize(columns.len() + 1, ReportCell::default());
        row
    };
    table
        .rows(all.each.iter().enumerate().map(row))
        .row(summary("mean", |interval| interval.mean))
        .row(summary("± (95 % confidence)", |interval| interval.half_width))
        .note(
            "Intervals use Student's t over the repetitions. Repetitions run one after another on the \
         same databases, so the interval covers noise but not a trend.",
        )
}

pub(super) fn open_loop(result: &RunResult) -> ReportTable {
    let table = ReportTable::facts("Open Loop");
    let Some(open) = &result.analysis.open_loop else {
        return table.or_note(
            "Not used: each thread started its next operation when the previous operation completed.",
        );
    };
    let kept = if open.kept_rate() {
        "kept"
    } else {
        "not kept: latencies do not include operations that were not completed"
    };
    table
        .fact("Target rate (operations per second)", ReportCell::figure(Unit::PerSecond, open.target_rate))
        .fact("Target rate", ReportCell::with_judgement(kept, open.kept_rate()))
        .fact("Operations due", ReportCell::count(open.due))
        .fact("Due and not started at the end", ReportCell::count(open.waiting))
        .fact("Behind at the end", duration_text(open.behind_seconds))
        .fact("Due and not completed", ReportCell::count(open.not_completed))
}

pub(super) fn disks(result: &RunResult) -> ReportTable {
    let columns = [
        "Reads/sec",
        "Writes/sec",
        "MiB read/sec",
        "MiB written/sec",
        "Busy (%)",
        "Queue, average",
        "Queue, maximum",
    ];
    let mut table = ReportTable::numbers("Devices", "Device", columns);
    for disk in &result.analysis.host.disks {
        let queues = result.analysis.host_samples.iter().flat_map(|host| &host.disks);
        let highest =
            queues.filter(|one| one.device == disk.device).map(|one| one.queue).fold(disk.queue, f64::max);
        let mib = |bytes: f64| bytes / MIB;
        let figures = [
            (Unit::PerSecond, disk.reads_per_second),
            (Unit::PerSecond, disk.writes_per_second),
            (Unit::MebibytesPerSecond, mib(disk.read_bytes_per_second)),
            (Unit::MebibytesPerSecond, mib(disk.written_bytes_per_second)),
            (Unit::Percent, disk.busy_percent),
            (Unit::None, disk.queue),
            (Unit::None, highest),
        ];
        let name = std::iter::once(ReportCell::from(disk.device.as_str()));
        table = table.row(name.chain(figures.map(|(unit, value)| ReportCell::figure(unit, value))).collect());
    }
    table
        .note(
            "Kernel counters, which include all other users of the device. A device that processes many \
         requests in parallel may be 100 % busy and still accept more.",
        )
        .or_note("The devices of the directories were not sampled, or are not local block devices.")
}

pub(super) fn verification(result: &RunResult) -> ReportTable {
    let columns = ["Pages or segments", "Bad", "Corrected bits", "Lost writes", "Findings"];
    let table = ReportTable::numbers("Verification", "File", columns).aligned(5.., Align::Left);
    let Some(verification) = &result.verification else {
        return table.or_note("The run ended before pages and logs were verified.");
    };
    let rows = verification.files.iter().map(|file| {
        vec![
            file.path.display().to_string().into(),
            ReportCell::count(file.blocks),
            ReportCell::count(file.bad).bad_if(file.bad > 0),
            ReportCell::count(file.repaired).bad_if(file.repaired > 0),
            ReportCell::count(file.lost_writes).bad_if(file.lost_writes > 0),
            file.findings.join("; ").into(),
        ]
    });
    table.rows(rows).note(format!("Read in {}.", duration_text(verification.seconds)))
}
