//! Metrics of a running test.

use std::fmt;

use jetcell_workload::RunPhase;
use jetcell_workload::measurement::{InstanceIo, IoTotals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::RunMonitor;
use super::copy_metrics::{CopyFigures, encode_copy_metrics};

/// Upper bounds of the latency histogram buckets in microseconds.
const BUCKETS_US: [u64; 13] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000];

/// A metrics collector that encodes the run's state on each request.
#[derive(Debug)]
pub struct RunMetrics(pub RunMonitor);

const PHASES: [(RunPhase, &str); 17] = [
    (RunPhase::Examine, "examine"),
    (RunPhase::Create, "create"),
    (RunPhase::Attach, "attach"),
    (RunPhase::Alone, "alone"),
    (RunPhase::Warm, "warm"),
    (RunPhase::Search, "search"),
    (RunPhase::Measure, "measure"),
    (RunPhase::PutBack, "put_back"),
    (RunPhase::Keep, "keep"),
    (RunPhase::Generate, "generate"),
    (RunPhase::Seed, "seed"),
    (RunPhase::CatchUp, "catch_up"),
    (RunPhase::Drain, "drain"),
    (RunPhase::Replay, "replay"),
    (RunPhase::Backup, "backup"),
    (RunPhase::Shutdown, "shutdown"),
    (RunPhase::Verify, "verify"),
];

type IoTotalsSelector = (&'static str, fn(&InstanceIo) -> &IoTotals);

const IO_TOTALS: [IoTotalsSelector; 5] = [
    ("database_read", |io| &io.database_read),
    ("database_write", |io| &io.database_write),
    ("log_read", |io| &io.log_read),
    ("log_write", |io| &io.log_write),
    ("log_format", |io| &io.log_format),
];

impl Collector for RunMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let state = self.0.state();
        let info = [("version", env!("CARGO_PKG_VERSION"))];
        encoder
            .encode_descriptor("build", "Version of the running program", None, MetricType::Info)?
            .encode_info(&info.as_slice())?;

        let help = "1 for the current phase of the run, 0 for the others";
        let mut phases = encoder.encode_descriptor("phase", help, None, MetricType::Gauge)?;
        for (phase, name) in PHASES {
            let labels = [("phase", name)];
            phases.encode_family(&labels.as_slice())?.encode_gauge(&i64::from(state.phase == Some(phase)))?;
        }
        gauge(
            &mut encoder,
            "phase_progress",
            "Completed share of the phase",
            Some(Unit::Ratios),
            state.fraction(),
        )?;
        if let Some(left) = state.remaining() {
            let help = "Estimated time until the end of the phase";
            gauge(&mut encoder, "phase_remaining", help, Some(Unit::Seconds), left.as_secs_f64())?;
        }
        let Some(counters) = &state.counters else { return Ok(()) };

        counter(&mut encoder, "operations", "Operations of the load", counters.operations)?;
        counter(
            &mut encoder,
            "page_fault_stalls",
            "Waits of the load for a free cache page",
            counters.cache.stalls,
        )?;
        let used = counters.cache.used_bytes as f64;
        gauge(&mut encoder, "cache_used", "Cache memory that contains pages", Some(Unit::Bytes), used)?;
        let limit = counters.cache.limit_bytes as f64;
        gauge(&mut encoder, "cache_limit", "Maximum cache memory", Some(Unit::Bytes), limit)?;

        let instances = || counters.io.iter().enumerate().map(|(index, io)| ((index + 1).to_string(), io));
        let help = "Transfers of any kind that failed";
        let mut errors = encoder.encode_descriptor("io_errors", help, None, MetricType::Counter)?;
        for (instance, io) in instances() {
            let labels = [("instance", instance.as_str())];
            ConstCounter::new(io.errors).encode(errors.encode_family(&labels.as_slice())?)?;
        }
        let help = "Bytes that were transferred";
        let mut bytes = encoder.encode_descriptor("io", help, Some(&Unit::Bytes), MetricType::Counter)?;
        for (instance, io) in instances() {
            for (kind, totals) in IO_TOTALS {
                let labels = [("instance", instance.as_str()), ("kind", kind)];
                ConstCounter::new(totals(io).bytes).encode(bytes.encode_family(&labels.as_slice())?)?;
            }
        }
        let help = "Latency of transfers; the count of the histogram is their number";
        let mut latency =
            encoder.encode_descriptor("io_latency", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (instance, io) in instances() {
            for (kind, totals) in IO_TOTALS {
                let labels = [("instance", instance.as_str()), ("kind", kind)];
                let totals = totals(io);
                latency.encode_family(&labels.as_slice())?.encode_histogram::<NoLabelSet>(
                    totals.latency_us as f64 / 1e6,
                    totals.operations,
                    &buckets(totals),
                    None,
                )?;
            }
        }
        encode_copy_metrics(
            &mut encoder,
            &counters.copies.iter().map(CopyFigures::from_test_counters).collect::<Vec<_>>(),
        )
    }
}

/// Returns the number of transfers per latency bucket. The last bucket contains the remaining transfers, so the sum
/// of all buckets is the total count.
fn buckets(totals: &IoTotals) -> Vec<(f64, u64)> {
    let mut below = 0;
    let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(BUCKETS_US.len() + 1);
    for bound in BUCKETS_US {
        let at_most = totals.latencies.count_at_most(bound).clamp(below, totals.operations.max(below));
        buckets.push((bound as f64 / 1e6, at_most - below));
        below = at_most;
    }
    buckets.push((f64::INFINITY, totals.operations - below.min(totals.operations)));
    buckets
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    value: f64,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

fn counter(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}
