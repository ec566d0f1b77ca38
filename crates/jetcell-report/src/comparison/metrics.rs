//! The figures that a comparison shows, and its charts.

use jetcell_input::Unit::{
    self, Count, Joules, Kibibytes, MebibytesPerSecond, Milliseconds, PerLog, PerSecond, Percent, Ratio,
    Seconds,
};
use std::collections::BTreeSet;

use jetcell_input::number::MIB;
use jetcell_workload::TestKind;
use jetcell_workload::measurement::{
    ConfidenceInterval, InstanceSample, LatencySummary, RepeatedFigure, Repetitions, Sample,
};
use jetcell_workload::result::{
    BackupTestResult, InstanceRow, MissingLogAmount, RecoveryTestResult, ReplayedDatabase, ReplicationPart,
    ReplicationSample, ReplicationSideIo, ReplicationTestResult, RunResult,
};

use super::BetterDirection::{Higher, Lower};
use super::{BetterDirection, ComparisonMetric, MetricValue, label};
use crate::StoredRun;
use crate::chart::{Chart, ChartSeries};
use crate::series::{backup_over_time, replay_over_time, side_over_time};
use crate::tables::IntervalSelector;

/// I/O kinds in order of importance, with the percentiles to show for each.
const LATENCIES: [(&str, &str, &[PercentileColumn]); 3] = [
    ("database_read", "Database read", &[P50, P95, P99, P99_99, MAX]),
    ("database_write", "Database write", &[P50, P95, P99, P99_99, MAX]),
    ("log_write", "Log write", &[P99, MAX]),
];

/// A percentile: its name, its value, and its interval over the repetitions if it has one.
type PercentileColumn = (&'static str, fn(&LatencySummary) -> u64, Option<IntervalSelector>);
const P50: PercentileColumn = ("p50", |summary| summary.p50, Some(|all| all.p50));
const P95: PercentileColumn = ("p95", |summary| summary.p95, Some(|all| all.p95));
const P99: PercentileColumn = ("p99", |summary| summary.p99, Some(|all| all.p99));
const P99_99: PercentileColumn = ("p99.99", |summary| summary.p99_99, None);
const MAX: PercentileColumn = ("max", |summary| summary.max, None);

/// Returns all figures that are available for at least one run.
pub(super) fn collect(runs: &[&RunResult]) -> Vec<ComparisonMetric> {
    let measured = |run: &RunResult| run.measured_seconds > 0.0 || run.backup.is_some();
    let metric = |name: &str,
                  unit: Unit,
                  better: BetterDirection,
                  value: &dyn Fn(&RunResult) -> Option<MetricValue>| {
        let value = |run: &&RunResult| measured(run).then(|| value(run)).flatten();
        let finite = |value: &MetricValue| value.figure.is_finite();
        ComparisonMetric {
            name: name.into(),
            unit,
            better,
            values: runs.iter().map(|run| value(run).filter(finite)).collect(),
        }
    };
    let recovery = |value: fn(&RecoveryTestResult) -> f64| {
        move |run: &RunResult| single_value(value(run.recovery.as_ref()?))
    };
    let per_log = |value: fn(&ReplayedDatabase) -> u64| {
        move |run: &RunResult| {
            single_value(run.recovery.as_ref()?.mean(|database| database.per_log(value(database) as f64)))
        }
    };
    let mib = |value: fn(&BackupTestResult) -> f64| {
        move |run: &RunResult| single_value(value(run.backup.as_ref()?) / MIB)
    };
    let load = |run: &RunResult| run.measured_seconds > 0.0;
    let mut all = vec![
        metric(
            "Backup, each database",
            MebibytesPerSecond,
            Higher,
            &mib(BackupTestResult::rate_per_database),
        ),
        metric("Backup, all databases", MebibytesPerSecond, Higher, &mib(BackupTestResult::rate)),
        metric("Seconds per log", Seconds, Lower, &recovery(RecoveryTestResult::seconds_per_log)),
        metric("Log records replayed", PerSecond, Higher, &recovery(RecoveryTestResult::records_per_second)),
        metric("Replay, reads per log", PerLog, Lower, &per_log(|database| database.database_reads)),
        metric("Replay, writes per log", PerLog, Lower, &per_log(|database| database.database_writes)),
        metric("Passive over active I/O, kept, steady", Ratio, Lower, &|run| passive_io(run, true, false)),
        metric("Passive over active I/O, kept, catch-up", Ratio, Lower, &|run| passive_io(run, true, true)),
        metric("Passive over active I/O, discarded, steady", Ratio, Lower, &|run| {
            passive_io(run, false, false)
        }),
        metric("Passive over active I/O, discarded, catch-up", Ratio, Lower, &|run| {
            passive_io(run, false, true)
        }),
        metric("Log missing on a copy, mean", Kibibytes, Lower, &|run| {
            missing_log(run, |log| log.mean_bytes)
        }),
        metric("Log missing on a copy, most", Kibibytes, Lower, &|run| {
            missing_log(run, |log| log.most_bytes)
        }),
        metric("Transactional I/O", PerSecond, Higher, &|run| {
            value_with_interval(run, run.achieved_transactional_iops, |all| all.transactional_iops)
                .filter(|_| load(run))
        }),
        metric("Operations", PerSecond, Higher, &|run| {
            value_with_interval(run, run.operations.per_second, |all| all.operations_per_second)
                .filter(|_| load(run))
        }),
    ];
    for (kind, name, percentiles) in LATENCIES {
        all.push(metric(&format!("{name} mean"), Milliseconds, Lower, &|run| mean_latency(run, kind)));
        for (percentile, value, interval) in percentiles {
            all.push(metric(&format!("{name} {percentile}"), Milliseconds, Lower, &|run| {
                // The samples of a killed run lack percentiles.
                let summary = run.latency.get(kind).filter(|summary| summary.count > 0)?;
                let repeated = run.analysis.repetitions.as_ref().and_then(|all| all.latencies(kind));
                let interval =
                    repeated.zip(*interval).and_then(|(all, of)| repeated_figure(run, in_ms(of(&all))));
                Some(MetricValue { figure: value(summary) as f64 / 1000.0, interval })
            }));
        }
    }
    let host = |run: &RunResult| Some(run.analysis.host.clone()).filter(|host| host.seconds > 0.0);
    all.extend([
        metric("CPU, this test", Percent, Lower, &|run| single_value(host(run)?.process_cpu_percent)),
        metric("CPU, whole machine", Percent, Lower, &|run| single_value(host(run)?.cpu_percent)),
        metric("CPU per 1000 I/O/s", Percent, Lower, &|run| {
            let iops = run.achieved_transactional_iops;
            single_value(host(run).filter(|_| iops > 0.0)?.process_cpu_percent * 1000.0 / iops)
        }),
        metric("Written per operation", Kibibytes, Lower, &written_per_operation),
        metric("Page-fault stalls", Count, Lower, &|run| single_value(run.page_fault_stalls as f64)),
    ]);
    // Energies with different scopes are different figures.
    let scopes = runs.iter().filter_map(|run| Some(run.energy.as_ref()?.energy.scope.name()));
    for scope in scopes.collect::<BTreeSet<_>>() {
        all.push(metric(&format!("Energy per I/O, {scope}"), Joules, Lower, &|run| {
            let energy = run.energy.as_ref().filter(|energy| energy.energy.scope.name() == scope)?;
            single_value(energy.joules_per_transactional_io?)
        }));
    }
    all.retain(|metric| metric.values.iter().any(Option::is_some));
    all
}

/// Converts an interval from microseconds to milliseconds.
fn in_ms(us: ConfidenceInterval) -> ConfidenceInterval {
    ConfidenceInterval { mean: us.mean / 1000.0, half_width: us.half_width / 1000.0 }
}

fn single_value(figure: f64) -> Option<MetricValue> {
    Some(MetricValue { figure, interval: None })
}

fn value_with_interval(
    run: &RunResult,
    figure: f64,
    of: fn(&Repetitions) -> ConfidenceInterval,
) -> Option<MetricValue> {
    let interval = run.analysis.repetitions.as_ref().map(of);
    Some(MetricValue { figure, interval: interval.and_then(|interval| repeated_figure(run, interval)) })
}

/// Combines an interval with the run's number of repetitions.
fn repeated_figure(run: &RunResult, interval: ConfidenceInterval) -> Option<RepeatedFigure> {
    let repetitions = run.analysis.repetitions.as_ref()?.each.len();
    Some(RepeatedFigure { interval, repetitions })
}

/// Returns the ratio between a copy's database I/O and its active side's, in one part of a replication test.
fn passive_io(run: &RunResult, keep_instance: bool, catch_up: bool) -> Option<MetricValue> {
    let replication = run.replication.as_ref()?;
    let part: Option<&ReplicationPart> =
        if catch_up { replication.catch_up.as_ref() } else { replication.steady.as_ref() };
    single_value(replication.ratio(part?, keep_instance, ReplicationSideIo::transfers)?)
}

/// Returns the amount of log data, in KiB, that a failover to a copy would have lost in the steady part of a
/// replication test.
fn missing_log(run: &RunResult, figure: fn(&MissingLogAmount) -> u64) -> Option<MetricValue> {
    let replication = run.replication.as_ref()?;
    let missing = replication.missing_log(replication.steady.as_ref()?, replication.has_copies(true))?;
    single_value(figure(&missing) as f64 / 1024.0)
}

/// Returns the mean latency for the slowest instance, as in the verdict, or `None` if there was no I/O of this kind.
fn mean_latency(run: &RunResult, kind: &str) -> Option<MetricValue> {
    let value: fn(&InstanceRow) -> (f64, f64) = match kind {
        "database_read" => |row| (row.database_reads_per_second, row.database_reads_average_latency_ms),
        "database_write" => |row| (row.database_writes_per_second, row.database_writes_average_latency_ms),
        _ => |row| (row.log_writes_per_second, row.log_writes_average_latency_ms),
    };
    let used = run.instances.iter().map(value).filter(|(rate, _)| *rate > 0.0);
    let figure = used.map(|(_, latency)| latency).reduce(f64::max)?;
    match kind {
        "database_read" => value_with_interval(run, figure, |all| all.database_read_ms),
        "log_write" => value_with_interval(run, figure, |all| all.log_write_ms),
        _ => single_value(figure),
    }
}

/// Returns the number of bytes written to databases and logs per completed load operation.
fn written_per_operation(run: &RunResult) -> Option<MetricValue> {
    let written = |row: &InstanceRow| {
        row.database_writes_per_second * row.database_writes_average_bytes
            + row.log_writes_per_second * row.log_writes_average_bytes
    };
    let operations = Some(run.operations.per_second).filter(|rate| *rate > 0.0)?;
    single_value(run.instances.iter().map(written).sum::<f64>() / operations / 1024.0)
}

/// Returns charts over time with one line per run, omitting charts without values.
pub(super) fn charts(runs: &[(String, StoredRun)]) -> Vec<Chart> {
    let chart = |title: &str, unit: &str, points: &dyn Fn(&StoredRun) -> Vec<(f64, f64)>| {
        // Lines have short labels because the table of runs contains the full names.
        let line =
            |(run, (_, stored)): (usize, &(String, StoredRun))| ChartSeries::new(label(run), points(stored));
        Chart::over_time(title, unit, runs.iter().enumerate().map(line).collect())
    };
    let of_load = |title: &str, unit: &str, value: &dyn Fn(&Sample) -> f64| {
        let generating = runs.first().is_some_and(|(_, stored)| stored.result.test == TestKind::Recovery);
        let title = if generating { format!("{title} while logs are generated") } else { title.into() };
        chart(&title, unit, &|stored| {
            stored.samples.iter().map(|sample| (sample.at_seconds, value(sample))).collect()
        })
    };
    let slowest = |sample: &Sample, io: fn(&InstanceSample) -> jetcell_workload::measurement::IoRates| {
        let used = sample.instances.iter().map(io).filter(|rates| rates.per_second > 0.0);
        // An interval without transfers becomes a gap.
        used.map(|rates| rates.average_ms).reduce(f64::max).unwrap_or(f64::NAN)
    };
    let backup = |stored: &StoredRun| -> Vec<(f64, f64)> {
        let rate = |backup: &BackupTestResult| {
            backup_over_time(backup, |sample| sample.bytes.iter().map(|bytes| *bytes as f64 / MIB).sum())
        };
        stored.result.backup.as_ref().map(rate).unwrap_or_default()
    };
    let logs = |stored: &StoredRun| -> Vec<(f64, f64)> {
        let samples = stored.result.recovery.iter().flat_map(|recovery| &recovery.samples);
        samples.map(|sample| (sample.at_seconds, sample.logs.iter().map(|logs| *logs as f64).sum())).collect()
    };
    let reads = |stored: &StoredRun| -> Vec<(f64, f64)> {
        let rate =
            |recovery: &RecoveryTestResult| replay_over_time(recovery, |sample| sample.database_reads as f64);
        stored.result.recovery.as_ref().map(rate).unwrap_or_default()
    };
    let passive = |stored: &StoredRun| -> Vec<(f64, f64)> {
        let transfers = |sample: &ReplicationSample| {
            sample.copies.iter().map(|copy| ReplicationSideIo::transfers(&copy.io) as f64).sum()
        };
        let rate = |replication: &ReplicationTestResult| side_over_time(replication, transfers);
        stored.result.replication.as_ref().map(rate).unwrap_or_default()
    };
    let latency = "milliseconds, average of an interval, slowest instance";
    let mut all = vec![
        chart("Backup rate", "MiB per second, all databases", &backup),
        chart("Logs replayed", "of all databases", &logs),
        chart("Passive I/O", "database reads and writes per second, all copies", &passive),
        chart("Replay reads", "database reads per second, all databases", &reads),
        of_load("Transactional I/O", "transfers per second, all instances", &Sample::iops),
        of_load("Database read latency", latency, &|sample| slowest(sample, |i| i.database_read)),
        of_load("Log write latency", latency, &|sample| slowest(sample, |i| i.log_write)),
    ];
    all.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
    all
}
