//! Charts for a run's time series and for the curve of a search.

use jetcell_input::number::{MIB, significant};
use jetcell_workload::measurement::{
    InstanceSample, LatencyHistogram, Sample, SamplePercentiles, SaturationSearch, SaturationStep,
};
use jetcell_workload::result::{
    BackupSample, BackupTestResult, CopySample, DatabaseBackup, RecoveryTestResult, ReplaySample,
    ReplayedDatabase, ReplicationSample, ReplicationSideIo, ReplicationTestResult, RunResult,
};
use jetcell_workload::{RuleBound, TestKind};

use crate::array_series;
use crate::chart::{Chart, ChartSeries, HorizontalAxis};

/// Returns the charts of the samples. Machine charts are included only if the machine was sampled.
pub(crate) fn charts(result: &RunResult, samples: &[Sample]) -> Vec<Chart> {
    let over = |name: &str, value: &dyn Fn(&Sample) -> f64| {
        ChartSeries::new(name, samples.iter().map(|sample| (sample.at_seconds, value(sample))))
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
        Some(target) => transfers.with_limit(
            RuleBound::AtLeast,
            target * (1.0 - profile.margin),
            "reads and writes, at least",
            0,
        ),
        None => transfers,
    };
    let latency = Chart::over_time(
        "Latency",
        "milliseconds, average of an interval, slowest instance",
        vec![
            worst("database reads", |i| average_latency(i.database_read)),
            worst("database writes", |i| average_latency(i.database_write)),
            worst("log writes", |i| average_latency(i.log_write)),
        ],
    );
    let mut latency = latency;
    latency.marks = array_series::marks(&result.analysis.array_samples);
    let limits = &profile.thresholds;
    let latency = if result.test.judges_speed() {
        latency
            .with_limit(RuleBound::AtMost, limits.average_database_read_ms, "average database reads", 0)
            .with_limit(RuleBound::AtMost, limits.average_log_write_ms, "average log writes", 2)
    } else {
        latency
    };
    let charts = vec![
        transfers,
        latency,
        percentiles("Database reads by percentile over time", samples, |sample| sample.database_reads),
        percentiles("Log writes by percentile over time", samples, |sample| sample.log_writes),
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
    // Samples from older builds contain no percentiles.
    let some =
        |chart: &Chart| chart.horizontal_axis != HorizontalAxis::Time || chart.series.iter().any(has_values);
    let mut charts: Vec<Chart> = charts.into_iter().filter(some).collect();
    if samples.iter().any(|sample| sample.page_fault_stalls > 0) {
        let stalls = over("stalls", &|sample| sample.page_fault_stalls as f64);
        charts.push(Chart::over_time("Database page fault stalls", "in an interval", vec![stalls]));
    }
    charts.extend(array_series::charts(&result.analysis.array_samples));
    let host = &result.analysis.host_samples;
    if !host.is_empty() {
        let series = |name: &str, value: fn(&jetcell_workload::measurement::HostUsage) -> f64| {
            ChartSeries::new(name, host.iter().map(|used| (used.at_seconds, value(used))))
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

fn has_values(series: &ChartSeries) -> bool {
    series.points.is_empty() || series.points.iter().any(|(_, value)| value.is_finite())
}

/// Returns a chart of latency percentiles over time for one kind of transfer. An interval without transfers becomes a
/// gap.
fn percentiles(title: &str, samples: &[Sample], kind: fn(&Sample) -> SamplePercentiles) -> Chart {
    let line = |name: &str, value: fn(SamplePercentiles) -> f64| {
        let positive_ms =
            |sample: &Sample| Some(value(kind(sample))).filter(|ms| *ms > 0.0).unwrap_or(f64::NAN);
        ChartSeries::new(name, samples.iter().map(|sample| (sample.at_seconds, positive_ms(sample))))
    };
    // The most informative line comes first, because the caption describes the first line.
    let lines = vec![line("p99", |all| all.p99), line("p95", |all| all.p95), line("p50", |all| all.p50)];
    Chart::over_time(title, "milliseconds, all instances", lines).logarithmic()
}

/// Returns the charts specific to one test kind, with their heading.
pub(crate) fn test_charts(result: &RunResult) -> Option<(&'static str, Vec<Chart>)> {
    if let Some(replication) = &result.replication {
        return Some(("Replication over time", replication_charts(replication)));
    }
    let recovery = result.recovery.as_ref().map(|recovery| ("Replay over time", replay_charts(recovery)));
    recovery.or_else(|| Some(("Backup over time", vec![backup_rate(result.backup.as_ref()?)])))
}

/// Returns the heading for the load charts.
pub(crate) fn load_heading(result: &RunResult) -> &'static str {
    match result.test {
        TestKind::Performance | TestKind::Stress => "Over time",
        TestKind::Backup | TestKind::Replication => "Load over time",
        TestKind::Recovery => "Log generation over time",
    }
}

fn backup_rate(backup: &BackupTestResult) -> Chart {
    let rate = |(number, database): (usize, &DatabaseBackup)| {
        let read = |sample: &BackupSample| sample.bytes.get(number).map_or(0.0, |bytes| *bytes as f64 / MIB);
        ChartSeries::new(database.instance.as_str(), backup_over_time(backup, read))
    };
    let series = backup.databases.iter().enumerate().map(rate).collect();
    Chart::over_time("Backup rate", "MiB per second, each database", series)
}

fn replay_charts(recovery: &RecoveryTestResult) -> Vec<Chart> {
    let logs = |(number, database): (usize, &ReplayedDatabase)| {
        let logs = |sample: &ReplaySample| sample.logs.get(number).map_or(f64::NAN, |logs| *logs as f64);
        let points = recovery.samples.iter().map(|sample| (sample.at_seconds, logs(sample)));
        ChartSeries::new(database.instance.as_str(), points)
    };
    let rate = |name: &str, count: fn(&ReplaySample) -> u64| {
        ChartSeries::new(name, replay_over_time(recovery, |sample| count(sample) as f64))
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

/// Returns charts of both sides over time. They cover the parts in which the copies follow the load, are suspended, and
/// catch up.
fn replication_charts(replication: &ReplicationTestResult) -> Vec<Chart> {
    let name = |at: usize| {
        let copy = &replication.copies[at];
        let directory = copy.directory.file_name().unwrap_or_default().to_string_lossy();
        format!("{directory}, instance {}", if copy.keep_instance { "kept" } else { "discarded" })
    };
    let both = |title: &str, unit: &str, figure: &dyn Fn(&ReplicationSideIo) -> f64| {
        let active = side_over_time(replication, |sample| figure(&sample.active));
        let copy = |at: usize| {
            let io =
                |sample: &ReplicationSample| sample.copies.get(at).map_or(f64::NAN, |copy| figure(&copy.io));
            ChartSeries::new(name(at), side_over_time(replication, io))
        };
        let copies = (0..replication.copies.len()).map(copy);
        Chart::over_time(
            title,
            unit,
            [ChartSeries::new("active side", active)].into_iter().chain(copies).collect(),
        )
    };
    let state = |title: &str, unit: &str, figure: fn(&CopySample) -> Option<f64>| {
        let copy = |at: usize| {
            let value =
                |sample: &ReplicationSample| sample.copies.get(at).and_then(figure).unwrap_or(f64::NAN);
            ChartSeries::new(
                name(at),
                replication.samples.iter().map(|sample| (sample.at_seconds, value(sample))),
            )
        };
        Chart::over_time(title, unit, (0..replication.copies.len()).map(copy).collect())
    };
    let streamed = |at: usize| {
        let bytes = |sample: &ReplicationSample| {
            sample.copies.get(at).map_or(f64::NAN, |copy| copy.missing_log.streamed_bytes as f64 / MIB)
        };
        ChartSeries::new(name(at), side_over_time(replication, bytes))
    };
    let streamed = replication.is_in_block_mode().then(|| {
        let copies = (0..replication.copies.len()).map(streamed).collect();
        Chart::over_time("Log that arrived as it was written", "MiB per second", copies)
    });
    let mut charts = vec![
        both("Database I/O of both sides", "reads and writes per second", &|io| {
            ReplicationSideIo::transfers(io) as f64
        }),
        both("Database reads of both sides", "per second", &|io| io.database_reads as f64),
        both("Database writes of both sides", "per second", &|io| io.database_writes as f64),
        both("Database bytes of both sides", "MiB per second", &|io| io.database_bytes as f64 / MIB),
        both("Log bytes of both sides", "MiB per second", &|io| io.log_bytes as f64 / MIB),
        state("Copy queue", "generations closed but not copied", |copy| Some(f64::from(copy.copy_queue))),
        state("Replay queue", "generations copied but not replayed", |copy| {
            Some(f64::from(copy.replay_queue))
        }),
        state("Lag", "seconds", |copy| Some(copy.lag_seconds? as f64)),
        state("Log missing on copies", "KiB that a failover would have lost, mean of an interval", |copy| {
            Some(copy.missing_log.mean_bytes as f64 / 1024.0)
        }),
    ];
    charts.extend(streamed);
    charts
}

/// Returns one side's counter as a rate between samples.
pub(crate) fn side_over_time(
    replication: &ReplicationTestResult,
    total: impl Fn(&ReplicationSample) -> f64,
) -> Vec<(f64, f64)> {
    rates(replication.samples.iter().map(|sample| (sample.at_seconds, total(sample))).collect())
}

/// Returns a backup counter as a rate between samples.
pub(crate) fn backup_over_time(
    backup: &BackupTestResult,
    total: impl Fn(&BackupSample) -> f64,
) -> Vec<(f64, f64)> {
    rates(backup.samples.iter().map(|sample| (sample.at_seconds, total(sample))).collect())
}

/// Returns a replay counter as a rate between samples.
pub(crate) fn replay_over_time(
    recovery: &RecoveryTestResult,
    total: impl Fn(&ReplaySample) -> f64,
) -> Vec<(f64, f64)> {
    rates(recovery.samples.iter().map(|sample| (sample.at_seconds, total(sample))).collect())
}

/// Returns the rate per second at which a total increases, at the end of each interval. A short remainder is merged
/// into the last interval, because its own rate would be noise.
fn rates(mut totals: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
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

/// I/O kinds whose latency distribution is drawn, each with the name of its line and its name in a result.
const DISTRIBUTION_KINDS: [(&str, &str); 3] =
    [("database reads", "database_read"), ("database writes", "database_write"), ("log writes", "log_write")];

/// A point in a chart, as a (position, value) pair.
pub(crate) type ChartPoint = (f64, f64);

/// Number of steps per decade in the histogram and in the cumulative curve.
pub(crate) const PER_DECADE: u32 = 10;

/// Returns the charts of the latency distribution: histogram, cumulative curve, and latency by percentile.
pub(crate) fn distributions(result: &RunResult) -> Vec<Chart> {
    let shares =
        |kind: &str| result.histograms.get(kind).map(|all: &LatencyHistogram| all.shares(PER_DECADE));
    let known: Vec<(&str, Vec<(f64, f64)>)> =
        DISTRIBUTION_KINDS.iter().filter_map(|(name, kind)| Some((*name, shares(kind)?))).collect();
    let logarithm_of_ms = |us: f64| (us / 1_000.0).log10();
    let chart = |title: &str, unit: &str, points: fn(&[ChartPoint]) -> Vec<ChartPoint>| {
        let line = |(name, shares): &(&str, Vec<(f64, f64)>)| {
            let points = points(shares).into_iter().map(|(us, share)| (logarithm_of_ms(us), share * 100.0));
            ChartSeries::new(*name, points)
        };
        let lines: Vec<ChartSeries> =
            known.iter().filter(|(_, shares)| !shares.is_empty()).map(line).collect();
        Chart::new(title, unit, HorizontalAxis::Logarithm("milliseconds".into()), lines)
    };
    let mut histogram =
        chart("Latency histogram", "percent of transfers, per tenth of a decade", <[_]>::to_vec);
    histogram.steps = true;
    histogram.finding = known.first().and_then(|(name, shares)| mode_text(name, shares));
    let mut cumulative =
        chart("Cumulative latency", "percent of transfers that took at most this long", |shares| {
            let mut sum = 0.0;
            let up = |(us, share): &(f64, f64)| {
                sum += share;
                (us * 10_f64.powf(1.0 / f64::from(PER_DECADE)), sum)
            };
            let start = shares.first().map(|(us, _)| (*us, 0.0));
            start.into_iter().chain(shares.iter().map(up).collect::<Vec<_>>()).collect()
        });
    let reads = result.latency.get("database_read").filter(|all| all.count > 0);
    let ms = |us: u64| significant(us as f64 / 1_000.0);
    cumulative.finding = reads.map(|all| {
        format!("half of the database reads took at most {} ms, 99 % at most {} ms", ms(all.p50), ms(all.p99))
    });
    let all = [histogram, cumulative].into_iter().chain(latency_by_percentile(result));
    all.filter(|chart| !chart.series.is_empty()).collect()
}

/// Describes a histogram's highest bar, given the fraction of transfers for each latency in microseconds.
pub(crate) fn mode_text(name: &str, shares: &[ChartPoint]) -> Option<String> {
    let (us, share) = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let from = us / 1_000.0;
    let to = from * 10_f64.powf(1.0 / f64::from(PER_DECADE));
    let percent = share * 100.0;
    Some(format!("most {name} took {} to {} ms ({percent:.0} %)", significant(from), significant(to)))
}

/// Returns a chart of latency by percentile.
fn latency_by_percentile(result: &RunResult) -> Option<Chart> {
    let line = |(name, kind): (&str, &str)| {
        let all = result.latency.get(kind).filter(|all| all.count > 0)?;
        // A percentile is shown only if the number of transfers is large enough for at least one to lie above it.
        let shares = [
            (2, all.p50),
            (10, all.p90),
            (20, all.p95),
            (100, all.p99),
            (1_000, all.p99_9),
            (10_000, all.p99_99),
        ];
        let known = shares.into_iter().filter(|(one_of, _)| all.count >= *one_of);
        Some(ChartSeries::new(name, known.map(|(one_of, us)| ((one_of as f64).log10(), us as f64 / 1_000.0))))
    };
    let series: Vec<ChartSeries> = DISTRIBUTION_KINDS.into_iter().filter_map(line).collect();
    let unit = "milliseconds, upper bound, all instances";
    (!series.is_empty())
        .then(|| Chart::new("Latency by percentile", unit, HorizontalAxis::Percentile, series).logarithmic())
}

/// Returns the average latency, or `None` if the interval has no transfers.
fn average_latency(rates: jetcell_workload::measurement::IoRates) -> Option<f64> {
    (rates.per_second > 0.0).then_some(rates.average_ms)
}

/// Returns the curve of latency over rate. Each rate is shown with its last measurement, which is the confirmation if
/// the rate was confirmed.
pub(crate) fn latency_over_rate(saturation: &SaturationSearch) -> Chart {
    let mut steps = saturation.curve();
    steps.reverse();
    steps.dedup_by_key(|step| step.rate);
    steps.reverse();
    let line = |name: &str, ms: fn(&SaturationStep) -> f64| {
        ChartSeries::new(name, steps.iter().map(|step| (step.rate, ms(step))))
    };
    let lines = vec![
        line("operations p99", |step| step.operation_latency.p99 as f64 / 1_000.0),
        line("operations p99.9", |step| step.operation_latency.p99_9 as f64 / 1_000.0),
        line("operations p50", |step| step.operation_latency.p50 as f64 / 1_000.0),
        line("database reads, mean", |step| step.figures.database_read_ms),
        line("log writes, mean", |step| step.figures.log_write_ms),
    ];
    let along = HorizontalAxis::Quantity("target rate in operations per second".into());
    let p99 =
        lines.first().and_then(|line: &ChartSeries| Some((line.points.first()?.1, line.points.last()?.1)));
    let mut chart = Chart::new("Latency over rate", "milliseconds", along, lines).logarithmic();
    chart.finding = p99.map(|(low, high)| {
        let held = saturation.sustained_rate.map_or("no rate was sustained".to_string(), |rate| {
            format!("sustained rates up to {}", significant(rate))
        });
        format!("{held}; p99 of operations {} to {}", significant(low), significant(high))
    });
    let marked = |rate| (rate, format!("highest sustained rate: {}", significant(rate)));
    chart.marks = saturation.sustained_rate.map(marked).into_iter().collect();
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples, saturation};

    #[test]
    fn limits_near_the_values_are_drawn_and_distant_limits_named() {
        let mut run = result();
        run.configuration.thresholds.average_log_write_ms = 1000.0;
        let all = charts(&run, &samples(3));
        let page = |title: &str| {
            let chart = all.iter().find(|chart| chart.title == title).expect("the chart is there");
            chart.figure().into_string()
        };
        let lines = |page: &str| page.matches("style=\"stroke:var(--bad);stroke-dasharray").count();
        // The samples contain 100 reads and 100 writes per second, with latencies of 2 ms.
        let transfers = page("Database I/O");
        assert!(transfers.contains("limit of reads and writes, at least: 257</li>"), "{transfers}");
        assert_eq!(lines(&transfers), 1);
        let latency = page("Latency");
        assert!(latency.contains("limit of average log writes: 1,000 (outside the chart)"), "{latency}");
        assert_eq!(lines(&latency), 0);
        run.configuration.thresholds.average_database_read_ms = 10.0;
        let near = charts(&run, &samples(3))[1].figure().into_string();
        assert!(near.contains("limit of average database reads: 10</li>"), "{near}");
        assert_eq!(lines(&near), 1);
    }

    #[test]
    fn a_short_remainder_is_merged_into_the_last_interval() {
        let rates = |totals: &[(f64, f64)]| rates(totals.to_vec());
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
        // One of 1000 transfers is slower than the 99.9th percentile, and none is slower than the 99.99th.
        assert_eq!(chart.series[0].points.last(), Some(&(3.0, 30.0)));
        let svg = chart.svg();
        for label in ["0", "90", "99", "99.9"] {
            assert!(svg.contains(&format!(">\n{label}\n<")), "{label}: {svg}");
        }
        let none = RunResult { latency: std::collections::BTreeMap::new(), ..result() };
        assert_eq!(distributions(&none), []);
    }

    #[test]
    fn a_distribution_is_a_histogram_plus_cumulative_sum() {
        let mut run = result();
        let mut reads = LatencyHistogram::default();
        reads.record_many(1_000, 3);
        reads.record_many(20_000, 1);
        run.histograms.insert("database_read".into(), reads);
        let charts = distributions(&run);
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles, ["Latency histogram", "Cumulative latency", "Latency by percentile"]);
        let page = charts[0].figure().into_string();
        assert!(page.contains("most database reads took 1 to 1.26 ms (75 %)"), "{page}");
        assert!(page.contains("from 1 milliseconds") && page.contains(">\nmilliseconds\n<"), "{page}");
        let [(_, first), .., (last, all)] = charts[1].series[0].points[..] else {
            panic!("there are points")
        };
        assert_eq!((first, all.round()), (0.0, 100.0));
        assert!((last - 1.3).abs() < 0.11, "20 ms is below the end: {last}");
    }

    #[test]
    fn percentiles_over_time_are_drawn_if_samples_contain_them() {
        let title = "Database reads by percentile over time";
        let has_chart =
            |samples: &[Sample]| charts(&result(), samples).iter().any(|chart| chart.title == title);
        let mut samples = samples(3);
        assert!(!has_chart(&samples), "of an older build");
        samples[1].database_reads = SamplePercentiles { p50: 1.0, p95: 2.0, p99: 30.0 };
        assert!(has_chart(&samples));
        let chart = charts(&result(), &samples).into_iter().find(|chart| chart.title == title).unwrap();
        let lines: Vec<(&str, f64)> =
            chart.series.iter().map(|line| (line.name.as_str(), line.points[1].1)).collect();
        assert_eq!(lines, [("p99", 30.0), ("p95", 2.0), ("p50", 1.0)]);
        assert!(chart.series[0].points[0].1.is_nan(), "a gap");
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
        assert_eq!(chart.marks, [(600.0, "highest sustained rate: 600".into())]);
        // Each of the lines above has two points. A line without latencies has no points.
        assert_eq!(chart.svg().matches("<circle").count(), 6);

        let none = latency_over_rate(&SaturationSearch::default());
        assert_eq!(none.marks, []);
        assert!(none.figure().into_string().contains("Nothing was recorded"));
    }
}
