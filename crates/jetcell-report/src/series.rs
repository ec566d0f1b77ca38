//! The time series of a run, and the curve of a search, as charts.

use jetcell_workload::TestKind;
use jetcell_workload::measurement::{InstanceSample, Sample, Saturation, Step};
use jetcell_workload::result::{
    Backup, BackupSample, CopySample, DatabaseBackup, Recovery, ReplaySample, ReplayedDatabase, Replication,
    ReplicationSample, RunResult, SideIo,
};

use crate::chart::{Along, Chart, Scale, Series};
use crate::number::plain;

const MIB: f64 = 1_048_576.0;

/// The charts of a page, from the samples. Charts of the machine need samples of the machine.
pub(crate) fn charts(result: &RunResult, samples: &[Sample]) -> Vec<Chart> {
    let over = |name: &str, value: &dyn Fn(&Sample) -> f64| {
        Series::new(name, samples.iter().map(|sample| (sample.at_seconds, value(sample))))
    };
    let sum = |name: &str, value: fn(&InstanceSample) -> f64| {
        over(name, &|sample| sample.instances.iter().map(value).sum())
    };
    let worst = |name: &str, value: fn(&InstanceSample) -> Option<f64>| {
        over(name, &|sample| sample.instances.iter().filter_map(value).reduce(f64::max).unwrap_or(f64::NAN))
    };
    let profile = &result.configuration;
    let transfers = Chart::over_time(
        "Database I/O",
        "transfers per second, all instances",
        vec![
            sum("reads and writes", |i| i.database_read.per_second + i.database_write.per_second),
            sum("reads", |i| i.database_read.per_second),
            sum("writes", |i| i.database_write.per_second),
        ],
    );
    let transfers = match profile.target_iops {
        Some(target) => transfers.limited(target * (1.0 - profile.margin), "reads and writes, at least"),
        None => transfers,
    };
    let latency = Chart::over_time(
        "Latency",
        "milliseconds, average of an interval, slowest instance",
        vec![
            worst("database reads", |i| some_io(i.database_read)),
            worst("database writes", |i| some_io(i.database_write)),
            worst("log writes", |i| some_io(i.log_write)),
        ],
    );
    let limits = &profile.thresholds;
    let latency = match result.test.judges_speed() {
        true => latency
            .limited(limits.average_database_read_ms, "average database reads")
            .limited(limits.average_log_write_ms, "average log writes"),
        false => latency,
    };
    let mut charts = vec![
        transfers,
        latency,
        Chart::over_time(
            "Log writes",
            "MiB per second, all instances",
            vec![sum("log writes", |i| i.log_write.per_second * i.log_write.average_bytes / MIB)],
        ),
        Chart::over_time(
            "Operations",
            "per second",
            vec![over("operations", &|sample| sample.operations_per_second)],
        ),
        Chart::over_time(
            "Cache in use",
            "MiB",
            vec![over("cache", &|sample| sample.cache_used_bytes as f64 / MIB)],
        ),
    ];
    if samples.iter().any(|sample| sample.page_fault_stalls > 0) {
        let stalls = over("stalls", &|sample| sample.page_fault_stalls as f64);
        charts.push(Chart::over_time("Database page fault stalls", "in an interval", vec![stalls]));
    }
    let host = &result.analysis.host_samples;
    if !host.is_empty() {
        let series = |name: &str, value: fn(&jetcell_workload::measurement::HostUse) -> f64| {
            Series::new(name, host.iter().map(|used| (used.at_seconds, value(used))))
        };
        charts.push(Chart::over_time(
            "Processors",
            "percent of all",
            vec![
                series("whole machine", |used| used.cpu_percent),
                series("this test", |used| used.process_cpu_percent),
            ],
        ));
    }
    charts
}

/// The charts of the part of a run that only one kind of test has, with their heading.
pub(crate) fn test_charts(result: &RunResult) -> Option<(&'static str, Vec<Chart>)> {
    if let Some(replication) = &result.replication {
        return Some(("Replication over time", replication_charts(replication)));
    }
    let recovery = result.recovery.as_ref().map(|recovery| ("Replay over time", replay_charts(recovery)));
    recovery.or_else(|| Some(("Backup over time", vec![backup_rate(result.backup.as_ref()?)])))
}

/// Heading of the charts of the load.
pub(crate) fn load_heading(result: &RunResult) -> &'static str {
    match result.test {
        TestKind::Performance | TestKind::Stress => "Over time",
        TestKind::Backup | TestKind::Replication => "The load over time",
        TestKind::Recovery => "Generation of the logs over time",
    }
}

fn backup_rate(backup: &Backup) -> Chart {
    let rate = |(number, database): (usize, &DatabaseBackup)| {
        let read = |sample: &BackupSample| sample.bytes.get(number).map_or(0.0, |bytes| *bytes as f64 / MIB);
        Series::new(database.instance.as_str(), backup_over_time(backup, read))
    };
    let series = backup.databases.iter().enumerate().map(rate).collect();
    Chart::over_time("Backup rate", "MiB per second of each database", series)
}

fn replay_charts(recovery: &Recovery) -> Vec<Chart> {
    let logs = |(number, database): (usize, &ReplayedDatabase)| {
        let logs = |sample: &ReplaySample| sample.logs.get(number).map_or(f64::NAN, |logs| *logs as f64);
        let points = recovery.samples.iter().map(|sample| (sample.at_seconds, logs(sample)));
        Series::new(database.instance.as_str(), points)
    };
    let rate = |name: &str, count: fn(&ReplaySample) -> u64| {
        Series::new(name, replay_over_time(recovery, |sample| count(sample) as f64))
    };
    vec![
        Chart::over_time(
            "Logs replayed",
            "of each database",
            recovery.databases.iter().enumerate().map(logs).collect(),
        ),
        Chart::over_time(
            "Replay I/O",
            "transfers per second, all databases",
            vec![
                rate("database reads", |sample| sample.database_reads),
                rate("database writes", |sample| sample.database_writes),
            ],
        ),
    ]
}

/// Both sides over time: the load alone with copies that follow, the time in which they are held, and catching up.
fn replication_charts(replication: &Replication) -> Vec<Chart> {
    let name = |at: usize| {
        let copy = &replication.copies[at];
        let directory = copy.directory.file_name().unwrap_or_default().to_string_lossy();
        format!("{directory}, instance {}", if copy.keep_instance { "kept" } else { "thrown away" })
    };
    let both = |title: &str, unit: &str, figure: &dyn Fn(&SideIo) -> f64| {
        let active = side_over_time(replication, |sample| figure(&sample.active));
        let copy = |at: usize| {
            let io =
                |sample: &ReplicationSample| sample.copies.get(at).map_or(f64::NAN, |copy| figure(&copy.io));
            Series::new(name(at), side_over_time(replication, io))
        };
        let copies = (0..replication.copies.len()).map(copy);
        Chart::over_time(
            title,
            unit,
            [Series::new("active side", active)].into_iter().chain(copies).collect(),
        )
    };
    let state = |title: &str, unit: &str, figure: fn(&CopySample) -> Option<f64>| {
        let copy = |at: usize| {
            let value =
                |sample: &ReplicationSample| sample.copies.get(at).and_then(figure).unwrap_or(f64::NAN);
            Series::new(name(at), replication.samples.iter().map(|sample| (sample.at_seconds, value(sample))))
        };
        Chart::over_time(title, unit, (0..replication.copies.len()).map(copy).collect())
    };
    vec![
        both("Database I/O of both sides", "reads and writes per second", &|io| SideIo::transfers(io) as f64),
        both("Database reads of both sides", "per second", &|io| io.database_reads as f64),
        both("Database writes of both sides", "per second", &|io| io.database_writes as f64),
        both("Database bytes of both sides", "MiB per second", &|io| io.database_bytes as f64 / MIB),
        both("Log bytes of both sides", "MiB per second", &|io| io.log_bytes as f64 / MIB),
        state("Copy queue", "closed generations that a copy does not have", |copy| {
            Some(f64::from(copy.copy_queue))
        }),
        state("Replay queue", "generations that a copy has not replayed", |copy| {
            Some(f64::from(copy.replay_queue))
        }),
        state("Lag", "seconds", |copy| Some(copy.lag_seconds? as f64)),
    ]
}

/// What one side has done, as a rate between samples.
pub(crate) fn side_over_time(
    replication: &Replication,
    total: impl Fn(&ReplicationSample) -> f64,
) -> Vec<(f64, f64)> {
    rate_of(replication.samples.iter().map(|sample| (sample.at_seconds, total(sample))).collect())
}

/// What grows in a backup, as a rate between its samples.
pub(crate) fn backup_over_time(backup: &Backup, total: impl Fn(&BackupSample) -> f64) -> Vec<(f64, f64)> {
    rate_of(backup.samples.iter().map(|sample| (sample.at_seconds, total(sample))).collect())
}

/// What grows in a replay, as a rate between its samples.
pub(crate) fn replay_over_time(recovery: &Recovery, total: impl Fn(&ReplaySample) -> f64) -> Vec<(f64, f64)> {
    rate_of(recovery.samples.iter().map(|sample| (sample.at_seconds, total(sample))).collect())
}

/// The rate per second of a sum that grows, at the end of each interval. A short rest at the end is part of the last interval,
/// because its own rate would be noise.
fn rate_of(mut totals: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if let [.., (before, _), (from, _), (to, _)] = totals.as_slice()
        && (to - from) * 2.0 < from - before
    {
        totals.remove(totals.len() - 2);
    }
    let rate = |pair: &[(f64, f64)]| {
        let [(from, before), (to, after)] = *pair else { return (f64::NAN, f64::NAN) };
        (to, if to > from { (after - before).max(0.0) / (to - from) } else { f64::NAN })
    };
    totals.windows(2).map(rate).collect()
}

/// The distribution of latencies: how long all but the slowest transfers took.
pub(crate) fn latency_by_percentile(result: &RunResult) -> Option<Chart> {
    let kinds = [
        ("database reads", "database_read"),
        ("database writes", "database_write"),
        ("log writes", "log_write"),
    ];
    let line = |(name, kind): (&str, &str)| {
        let all = result.latency.get(kind).filter(|all| all.count > 0)?;
        // A percentile needs transfers above it.
        let shares = [
            (2, all.p50),
            (10, all.p90),
            (20, all.p95),
            (100, all.p99),
            (1_000, all.p99_9),
            (10_000, all.p99_99),
        ];
        let known = shares.into_iter().filter(|(one_of, _)| all.count >= *one_of);
        Some(Series::new(name, known.map(|(one_of, us)| ((one_of as f64).log10(), us as f64 / 1_000.0))))
    };
    let series: Vec<Series> = kinds.into_iter().filter_map(line).collect();
    (!series.is_empty()).then(|| Chart {
        title: "Latency by percentile".into(),
        unit: "milliseconds that they took at most, all instances".into(),
        along: Along::Percentile,
        scale: Scale::Logarithmic,
        series,
        mark: None,
        limits: Vec::new(),
    })
}

/// An interval without transfers has no latency.
fn some_io(rates: jetcell_workload::measurement::IoRates) -> Option<f64> {
    (rates.per_second > 0.0).then_some(rates.average_ms)
}

/// The curve of latency over rate. Each rate has its last measurement, which is the confirmation if there was one.
pub(crate) fn latency_over_rate(saturation: &Saturation) -> Chart {
    let mut steps = saturation.curve();
    steps.reverse();
    steps.dedup_by_key(|step| step.rate);
    steps.reverse();
    let line =
        |name: &str, ms: fn(&Step) -> f64| Series::new(name, steps.iter().map(|step| (step.rate, ms(step))));
    Chart {
        title: "Latency over rate".into(),
        unit: "milliseconds".into(),
        along: Along::Quantity("target rate in operations per second".into()),
        scale: Scale::Logarithmic,
        series: vec![
            line("operations p50", |step| step.operation_latency.p50 as f64 / 1_000.0),
            line("operations p99", |step| step.operation_latency.p99 as f64 / 1_000.0),
            line("operations p99.9", |step| step.operation_latency.p99_9 as f64 / 1_000.0),
            line("database reads, mean", |step| step.figures.database_read_ms),
            line("log writes, mean", |step| step.figures.log_write_ms),
        ],
        mark: saturation
            .sustained_rate
            .map(|rate| (rate, format!("highest sustained rate: {}", plain(rate)))),
        limits: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples, saturation};

    #[test]
    fn limits_are_drawn_where_the_values_are_near_and_named_where_they_are_not() {
        let mut run = result();
        run.configuration.thresholds.average_log_write_ms = 1000.0;
        let all = charts(&run, &samples(3));
        let page = |title: &str| {
            let chart = all.iter().find(|chart| chart.title == title).expect("the chart is there");
            chart.figure().into_string()
        };
        let lines = |page: &str| page.matches("style=\"stroke:var(--bad);stroke-dasharray").count();
        // The samples have 100 reads and writes per second, and latencies of 2 ms.
        let transfers = page("Database I/O");
        assert!(transfers.contains("limit of reads and writes, at least: 256.5</li>"), "{transfers}");
        assert_eq!(lines(&transfers), 1);
        let latency = page("Latency");
        assert!(latency.contains("limit of average log writes: 1000 (outside the chart)"), "{latency}");
        assert_eq!(lines(&latency), 0);
        run.configuration.thresholds.average_database_read_ms = 10.0;
        let near = charts(&run, &samples(3))[1].figure().into_string();
        assert!(near.contains("limit of average database reads: 10</li>"), "{near}");
        assert_eq!(lines(&near), 1);
    }

    #[test]
    fn a_short_rest_at_the_end_is_part_of_the_last_interval() {
        let rates = |totals: &[(f64, f64)]| rate_of(totals.to_vec());
        let whole = [(0.0, 0.0), (2.0, 20.0), (4.0, 60.0)];
        assert_eq!(rates(&whole), [(2.0, 10.0), (4.0, 20.0)]);
        assert_eq!(rates(&[(0.0, 0.0), (2.0, 20.0), (4.0, 60.0), (4.5, 60.0)]), [(2.0, 10.0), (4.5, 16.0)]);
        assert_eq!(rates(&[(0.0, 0.0), (0.1, 5.0)]), [(0.1, 50.0)]);
        assert!(rates(&[(0.0, 0.0)]).is_empty() && rates(&[(1.0, 0.0), (1.0, 5.0)])[0].1.is_nan());
    }

    #[test]
    fn percentiles_without_transfers_above_them_are_not_drawn() {
        let chart = latency_by_percentile(&result()).expect("there are latencies");
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["database reads", "database writes", "log writes"]);
        // Of 1000 transfers, one is slower than 99.9 %, and none than 99.99 %.
        assert_eq!(chart.series[0].points.last(), Some(&(3.0, 30.0)));
        let svg = chart.svg();
        for label in ["0", "90", "99", "99.9"] {
            assert!(svg.contains(&format!(">\n{label}\n<")), "{label}: {svg}");
        }
        let none = RunResult { latency: std::collections::BTreeMap::new(), ..result() };
        assert_eq!(latency_by_percentile(&none), None);
    }

    #[test]
    fn the_curve_has_each_rate_once_and_marks_the_result() {
        let chart = latency_over_rate(&saturation());
        let line = |name: &str| {
            &chart.series.iter().find(|series| series.name == name).expect("the line is drawn").points
        };
        assert_eq!(*line("operations p99"), [(600.0, 5.0), (1200.0, 2000.0)]);
        assert_eq!(*line("operations p99.9"), [(600.0, 12.34), (1200.0, 12.34)]);
        assert_eq!(*line("database reads, mean"), [(600.0, 0.5), (1200.0, 0.5)]);
        assert_eq!(chart.mark, Some((600.0, "highest sustained rate: 600".into())));
        // Two points of each of the lines above, none of those without latencies.
        assert_eq!(chart.svg().matches("<circle").count(), 6);

        let none = latency_over_rate(&Saturation::default());
        assert_eq!(none.mark, None);
        assert!(none.figure().into_string().contains("Nothing was recorded"));
    }
}
