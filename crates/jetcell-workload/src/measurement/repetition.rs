//! Repetitions of the measurement, and confidence intervals for their figures.
//!
//! Repetitions run back to back on the same databases, so they are not independent: a trend affects all of them. The
//! confidence intervals cover the noise between repetitions, but not differences between devices or days.

use serde::{Deserialize, Serialize};

use crate::measurement::CounterSnapshot;
use crate::measurement::io::IoTotals;
use crate::measurement::latency::{LatencyHistogram, LatencySummary};
use crate::measurement::sample::{InstanceSample, Sample};
use crate::profile::Maintenance;

/// Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom (NIST/SEMATECH e-Handbook of Statistical
/// Methods, 1.3.6.7.2).
const STUDENT_T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Returns the quantile for this number of degrees of freedom, which is at least 1. Beyond the end of the table, the
/// last entry is used, which makes an interval slightly wider than necessary.
pub(crate) fn student_t(freedom: usize) -> f64 {
    STUDENT_T[freedom.clamp(1, STUDENT_T.len()) - 1]
}

/// Results for one measurement repetition. Average and maximum latencies are those of the worst instance, because the
/// verdict is based on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Length in seconds.
    pub seconds: f64,
    /// Database reads and writes per second, over all instances.
    pub transactional_iops: f64,
    /// Completed operations per second.
    pub operations_per_second: f64,
    /// Average latency of database reads in milliseconds.
    pub database_read_ms: f64,
    /// Average latency of log writes in milliseconds.
    pub log_write_ms: f64,
    /// Highest average database read latency of any sample that ended in this repetition, in milliseconds.
    pub maximum_database_read_ms: f64,
    /// Highest average log write latency of any sample that ended in this repetition, in milliseconds.
    pub maximum_log_write_ms: f64,
    /// Number of waits for a free cache page.
    pub page_fault_stalls: u64,
    /// Database read latencies over all instances, in microseconds.
    #[serde(default)]
    pub database_reads: LatencySummary,
    /// Log write latencies over all instances, in microseconds.
    #[serde(default)]
    pub log_writes: LatencySummary,
    /// Maintenance that ran during this repetition, if the cost of each task is being measured.
    #[serde(default, skip_serializing_if = "Maintenance::is_none")]
    pub maintenance: Maintenance,
}

impl Repetition {
    /// Computes the repetition between two snapshots. `samples` are the samples that ended between them.
    pub fn between(first: &CounterSnapshot, last: &CounterSnapshot, samples: &[Sample]) -> Repetition {
        let seconds = last.at - first.at;
        let mut one = Repetition {
            seconds,
            operations_per_second: if seconds > 0.0 {
                last.operations.saturating_sub(first.operations) as f64 / seconds
            } else {
                0.0
            },
            page_fault_stalls: last.cache.stalls.saturating_sub(first.cache.stalls),
            ..Repetition::default()
        };
        let rates = |totals: &IoTotals| totals.rates(seconds);
        let (mut database_reads, mut log_writes) = (LatencyHistogram::default(), LatencyHistogram::default());
        for (earlier, later) in first.io.iter().zip(&last.io) {
            let io = later.since(earlier);
            let reads = rates(&io.database_read);
            one.transactional_iops += reads.per_second + rates(&io.database_write).per_second;
            one.database_read_ms = one.database_read_ms.max(reads.average_ms);
            one.log_write_ms = one.log_write_ms.max(rates(&io.log_write).average_ms);
            database_reads.add(&io.database_read.latencies);
            log_writes.add(&io.log_write.latencies);
        }
        (one.database_reads, one.log_writes) = (database_reads.summary(), log_writes.summary());
        let highest = |value: fn(&InstanceSample) -> f64| {
            samples.iter().flat_map(|sample| &sample.instances).map(value).fold(0.0, f64::max)
        };
        one.maximum_database_read_ms = highest(|instance| instance.database_read.average_ms);
        one.maximum_log_write_ms = highest(|instance| instance.log_write.average_ms);
        one
    }
}

/// A mean with its 95 % confidence interval, `mean ± half_width`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceInterval {
    /// Arithmetic mean of the repetitions.
    pub mean: f64,
    /// Student's t times the standard error of the mean.
    pub half_width: f64,
}

impl ConfidenceInterval {
    /// Computes the interval for the mean of `values`. Returns `None` for fewer than two values, because they have no
    /// variance.
    pub fn from_values(values: &[f64]) -> Option<ConfidenceInterval> {
        let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64;
        Some(ConfidenceInterval { mean, half_width: student_t(freedom) * (variance / count).sqrt() })
    }

    /// Returns true if an interval of percentages does not contain zero, apart from rounding errors.
    pub fn excludes_zero(&self) -> bool {
        self.mean.abs() > self.half_width + 1e-9
    }
}

/// Confidence intervals for latencies over all instances, in microseconds.
///
/// Higher percentiles have no interval. In a single repetition, they depend on few operations and differ from the
/// percentiles of the whole measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyIntervals {
    /// Arithmetic mean.
    pub mean: ConfidenceInterval,
    /// Median.
    pub p50: ConfidenceInterval,
    /// 90th percentile.
    pub p90: ConfidenceInterval,
    /// 95th percentile.
    pub p95: ConfidenceInterval,
    /// 99th percentile.
    pub p99: ConfidenceInterval,
}

impl LatencyIntervals {
    /// Computes the intervals for a list of repetitions. Returns `None` if any repetition had no such I/O or was
    /// stored without percentiles.
    fn from_summaries(each: &[LatencySummary]) -> Option<LatencyIntervals> {
        if each.iter().any(|one| one.count == 0) {
            return None;
        }
        let interval = |value: fn(&LatencySummary) -> f64| {
            ConfidenceInterval::from_values(&each.iter().map(value).collect::<Vec<_>>())
        };
        Some(LatencyIntervals {
            mean: interval(|one| one.mean)?,
            p50: interval(|one| one.p50 as f64)?,
            p90: interval(|one| one.p90 as f64)?,
            p95: interval(|one| one.p95 as f64)?,
            p99: interval(|one| one.p99 as f64)?,
        })
    }
}

/// All repetitions of a measurement, and the means of their results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetitions {
    /// The repetitions, in order.
    pub each: Vec<Repetition>,
    /// Database reads and writes per second.
    pub transactional_iops: ConfidenceInterval,
    /// Completed operations per second.
    pub operations_per_second: ConfidenceInterval,
    /// Average latency of database reads in milliseconds.
    pub database_read_ms: ConfidenceInterval,
    /// Average latency of log writes in milliseconds.
    pub log_write_ms: ConfidenceInterval,
    /// Database read latencies over all instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_reads: Option<LatencyIntervals>,
    /// Log write latencies over all instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_writes: Option<LatencyIntervals>,
}

impl Repetitions {
    /// Computes the means of `each`. Returns `None` for fewer than two repetitions, or if the repetitions had
    /// different maintenance.
    pub fn new(each: &[Repetition]) -> Option<Repetitions> {
        if each.windows(2).any(|pair| pair[0].maintenance != pair[1].maintenance) {
            return None;
        }
        let interval = |value: fn(&Repetition) -> f64| {
            ConfidenceInterval::from_values(&each.iter().map(value).collect::<Vec<_>>())
        };
        let latencies = |value: fn(&Repetition) -> LatencySummary| {
            LatencyIntervals::from_summaries(&each.iter().map(value).collect::<Vec<_>>())
        };
        Some(Repetitions {
            each: each.to_vec(),
            transactional_iops: interval(|one| one.transactional_iops)?,
            operations_per_second: interval(|one| one.operations_per_second)?,
            database_read_ms: interval(|one| one.database_read_ms)?,
            log_write_ms: interval(|one| one.log_write_ms)?,
            database_reads: latencies(|one| one.database_reads),
            log_writes: latencies(|one| one.log_writes),
        })
    }

    /// Returns the intervals for the kind of I/O with this name in results.
    pub fn latencies(&self, kind: &str) -> Option<LatencyIntervals> {
        match kind {
            "database_read" => self.database_reads,
            "log_write" => self.log_writes,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::InstanceIo;

    #[test]
    fn the_interval_uses_students_t() {
        // The mean is 12 and the standard deviation is 2. For three values, the half width is 4.303 * 2 / sqrt(3).
        let interval = ConfidenceInterval::from_values(&[10.0, 12.0, 14.0]).unwrap();
        assert!((interval.mean - 12.0).abs() < 1e-12, "{interval:?}");
        assert!((interval.half_width - 4.968_676).abs() < 1e-5, "{interval:?}");
        assert_eq!(
            ConfidenceInterval::from_values(&[7.0; 500]),
            Some(ConfidenceInterval { mean: 7.0, half_width: 0.0 })
        );
        assert_eq!(ConfidenceInterval::from_values(&[7.0]), None);
        assert_eq!(ConfidenceInterval::from_values(&[]), None);
    }

    #[test]
    fn a_single_repetition_gives_no_statistics() {
        assert_eq!(Repetitions::new(&[Repetition::default()]), None);
        assert_eq!(Repetitions::new(&[Repetition::default(); 3]).unwrap().each.len(), 3);
    }

    #[test]
    fn percentiles_have_intervals_unless_a_repetition_lacks_percentiles() {
        let snapshot_at = |seconds: f64, us: &[u64]| {
            let mut io = InstanceIo::default();
            us.iter().for_each(|us| io.database_read.record(4096, *us));
            CounterSnapshot { at: seconds, io: vec![io.clone(), io], ..CounterSnapshot::default() }
        };
        let all = [
            snapshot_at(0.0, &[]),
            snapshot_at(1.0, &[100]),
            snapshot_at(2.0, &[100, 120]),
            snapshot_at(3.0, &[100, 120, 140]),
        ];
        let each: Vec<Repetition> =
            all.windows(2).map(|pair| Repetition::between(&pair[0], &pair[1], &[])).collect();
        assert_eq!(each[1].database_reads.count, 2, "two instances");
        let found = Repetitions::new(&each).unwrap();
        let reads = found.latencies("database_read").unwrap();
        assert_eq!((reads.p50.mean, reads.p99.mean, reads.mean.mean), (120.0, 120.0, 120.0));
        assert!((reads.p95.half_width - 49.686_76).abs() < 1e-4, "{reads:?}");
        assert_eq!((found.log_writes, found.latencies("log_read")), (None, None));
        // Results written by earlier versions lack per-repetition percentiles.
        let stored = serde_json::to_value(each[0]).unwrap();
        let mut older = stored.as_object().unwrap().clone();
        older.retain(|name, _| !matches!(name.as_str(), "database_reads" | "log_writes"));
        let older: Repetition = serde_json::from_value(older.into()).unwrap();
        assert_eq!(Repetitions::new(&[older, each[1], each[2]]).unwrap().database_reads, None);
    }
}
