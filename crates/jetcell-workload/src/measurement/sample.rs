//! Samples: the figures for each interval. Rates are averages over the interval. Latencies are means weighted by the
//! number of transfers.

use serde::{Deserialize, Serialize};

use crate::measurement::io::{IoRates, IoTotals};
use crate::measurement::latency::LatencyHistogram;
use crate::measurement::{CounterSnapshot, InstanceIo};

/// I/O rates for one instance during one measurement interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceSample {
    /// Database reads.
    pub database_read: IoRates,
    /// Database writes.
    pub database_write: IoRates,
    /// Log reads.
    pub log_read: IoRates,
    /// Log writes.
    pub log_write: IoRates,
}

/// Latency percentiles in one measurement interval, in milliseconds, over all instances. All fields are zero
/// if there were no transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplePercentiles {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl SamplePercentiles {
    /// Computes the percentiles of one kind of transfer between two states of the instances.
    fn between(before: &[InstanceIo], after: &[InstanceIo], kind: fn(&InstanceIo) -> &IoTotals) -> Self {
        let mut all = LatencyHistogram::default();
        for (earlier, later) in before.iter().zip(after) {
            all.add(&kind(later).latencies.since(&kind(earlier).latencies));
        }
        let summary = all.summary();
        let [p50, p95, p99] = [summary.p50, summary.p95, summary.p99].map(|us| us as f64 / 1000.0);
        SamplePercentiles { p50, p95, p99 }
    }
}

/// A sample: the measurements of one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, in seconds since the start of the measurement.
    pub at_seconds: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Load operations per second.
    pub operations_per_second: f64,
    /// Bytes of the cache in use at the end of the interval.
    pub cache_used_bytes: u64,
    /// Number of waits for a free cache page in the interval.
    pub page_fault_stalls: u64,
    /// I/O per instance.
    pub instances: Vec<InstanceSample>,
    /// Latencies of database reads.
    #[serde(default)]
    pub database_reads: SamplePercentiles,
    /// Latencies of log writes.
    #[serde(default)]
    pub log_writes: SamplePercentiles,
}

impl Sample {
    /// Computes the sample between two snapshots. `began` is the measurement's start time.
    pub fn between(before: &CounterSnapshot, after: &CounterSnapshot, began: f64) -> Sample {
        let seconds = after.at - before.at;
        let instance = |(earlier, later): (&InstanceIo, &InstanceIo)| InstanceSample {
            database_read: later.database_read.since(&earlier.database_read).rates(seconds),
            database_write: later.database_write.since(&earlier.database_write).rates(seconds),
            log_read: later.log_read.since(&earlier.log_read).rates(seconds),
            log_write: later.log_write.since(&earlier.log_write).rates(seconds),
        };
        Sample {
            at_seconds: after.at - began,
            seconds,
            operations_per_second: (after.operations - before.operations) as f64 / seconds,
            cache_used_bytes: after.cache.used_bytes,
            page_fault_stalls: after.cache.stalls.saturating_sub(before.cache.stalls),
            instances: before.io.iter().zip(&after.io).map(instance).collect(),
            database_reads: SamplePercentiles::between(&before.io, &after.io, |io| &io.database_read),
            log_writes: SamplePercentiles::between(&before.io, &after.io, |io| &io.log_write),
        }
    }

    /// Returns the transactional I/O per second, over all instances.
    pub fn iops(&self) -> f64 {
        self.instances.iter().map(|i| i.database_read.per_second + i.database_write.per_second).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_difference_between_two_snapshots() {
        let mut before =
            CounterSnapshot { at: 5.0, io: vec![InstanceIo::default()], ..CounterSnapshot::default() };
        before.io[0].database_read.record(32768, 99_000);
        let mut after = before.clone();
        after.at = 7.0;
        after.operations = 30;
        after.io[0].database_read.record(32768, 4_000);
        after.io[0].database_write.record(65536, 2_000);
        after.cache.stalls = 3;
        let sample = Sample::between(&before, &after, 5.0);
        assert_eq!((sample.at_seconds, sample.operations_per_second, sample.iops()), (2.0, 15.0, 1.0));
        assert_eq!((sample.instances[0].database_read.average_ms, sample.page_fault_stalls), (4.0, 3));
    }

    #[test]
    fn sample_percentiles_cover_all_instances_in_the_interval() {
        let mut before = CounterSnapshot { io: vec![InstanceIo::default(); 2], ..CounterSnapshot::default() };
        before.io[0].database_read.record(32768, 900_000);
        let mut after = before.clone();
        after.at = 1.0;
        (1..=50).for_each(|ms| after.io[0].database_read.record(32768, ms * 1000));
        (51..=100).for_each(|ms| after.io[1].database_read.record(32768, ms * 1000));
        let sample = Sample::between(&before, &after, 0.0);
        let SamplePercentiles { p50, p95, p99 } = sample.database_reads;
        for (found, expected) in [(p50, 50.0), (p95, 95.0), (p99, 99.0)] {
            assert!((found / expected - 1.0_f64).abs() < 0.002, "{found} {expected}");
        }
        assert_eq!(sample.log_writes, SamplePercentiles::default());
    }
}
