//! The time series of a run as charts.

use workload::sampler::InstanceSample;
use workload::{RunResult, Sample};

use crate::chart::{Along, Chart, Series};

const MIB: f64 = 1_048_576.0;

/// The charts of a page, from the samples; those about the machine only if it was sampled.
pub(crate) fn charts(result: &RunResult, samples: &[Sample]) -> Vec<Chart> {
    let chart = |title: &str, unit: &str, series: Vec<Series>| Chart {
        title: title.into(),
        unit: unit.into(),
        along: Along::Time,
        series,
    };
    let over = |name: &str, value: &dyn Fn(&Sample) -> f64| {
        Series::new(name, samples.iter().map(|sample| (sample.at_seconds, value(sample))))
    };
    let sum = |name: &str, value: fn(&InstanceSample) -> f64| {
        over(name, &|sample| sample.instances.iter().map(value).sum())
    };
    let worst = |name: &str, value: fn(&InstanceSample) -> Option<f64>| {
        over(name, &|sample| sample.instances.iter().filter_map(value).reduce(f64::max).unwrap_or(f64::NAN))
    };
    let mut charts = vec![
        chart(
            "Database I/O",
            "transfers per second, all instances",
            vec![
                sum("reads", |i| i.database_read.per_second),
                sum("writes", |i| i.database_write.per_second),
            ],
        ),
        chart(
            "Latency",
            "milliseconds, average of an interval, slowest instance",
            vec![
                worst("database reads", |i| some_io(i.database_read)),
                worst("database writes", |i| some_io(i.database_write)),
                worst("log writes", |i| some_io(i.log_write)),
            ],
        ),
        chart(
            "Log writes",
            "MiB per second, all instances",
            vec![sum("log writes", |i| i.log_write.per_second * i.log_write.average_bytes / MIB)],
        ),
        chart("Operations", "per second", vec![over("operations", &|sample| sample.operations_per_second)]),
        chart("Cache in use", "MiB", vec![over("cache", &|sample| sample.cache_used_bytes as f64 / MIB)]),
    ];
    if samples.iter().any(|sample| sample.page_fault_stalls > 0) {
        let stalls = over("stalls", &|sample| sample.page_fault_stalls as f64);
        charts.push(chart("Database page fault stalls", "in an interval", vec![stalls]));
    }
    let host = &result.analysis.host_samples;
    if !host.is_empty() {
        let series = |name: &str, value: fn(&workload::host::HostUse) -> f64| {
            Series::new(name, host.iter().map(|used| (used.at_seconds, value(used))))
        };
        charts.push(chart(
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

/// An interval without transfers has no latency.
fn some_io(rates: workload::measure::IoRates) -> Option<f64> {
    (rates.per_second > 0.0).then_some(rates.average_ms)
}
