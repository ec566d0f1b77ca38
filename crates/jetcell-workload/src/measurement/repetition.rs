//! Repetitions of the measured time, and the confidence intervals of their figures.
//!
//! Repetitions follow each other without a pause on the same databases, so they are not independent: a trend affects all
//! of them. An interval covers the noise between repetitions, not the difference to another device or another day.

use serde::{Deserialize, Serialize};

use crate::measurement::Snapshot;
use crate::measurement::io::IoTotals;
use crate::measurement::sample::{InstanceSample, Sample};
use crate::profile::Maintenance;

/// Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom (NIST/SEMATECH e-Handbook of Statistical
/// Methods, 1.3.6.7.2).
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Figures of one repetition. Latencies are those of the worst instance, as the verdict judges them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Length in seconds.
    pub seconds: f64,
    /// Database reads and writes per second, all instances.
    pub transactional_iops: f64,
    /// Completed operations per second.
    pub operations_per_second: f64,
    /// Average database read.
    pub database_read_ms: f64,
    /// Average log write.
    pub log_write_ms: f64,
    /// Highest average of database reads in a sample that ended in this repetition.
    pub maximum_database_read_ms: f64,
    /// Highest average of log writes in a sample that ended in this repetition.
    pub maximum_log_write_ms: f64,
    /// Waits for a free cache page.
    pub page_fault_stalls: u64,
    /// The maintenance beside this repetition, if the cost of each task is measured.
    #[serde(default, skip_serializing_if = "Maintenance::is_none")]
    pub maintenance: Maintenance,
}

impl Repetition {
    /// The repetition between two snapshots, with the samples that ended in it.
    pub fn between(first: &Snapshot, last: &Snapshot, samples: &[Sample]) -> Repetition {
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
        for (earlier, later) in first.io.iter().zip(&last.io) {
            let io = later.since(earlier);
            let reads = rates(&io.database_read);
            one.transactional_iops += reads.per_second + rates(&io.database_write).per_second;
            one.database_read_ms = one.database_read_ms.max(reads.average_ms);
            one.log_write_ms = one.log_write_ms.max(rates(&io.log_write).average_ms);
        }
        let highest = |value: fn(&InstanceSample) -> f64| {
            samples.iter().flat_map(|sample| &sample.instances).map(value).fold(0.0, f64::max)
        };
        one.maximum_database_read_ms = highest(|instance| instance.database_read.average_ms);
        one.maximum_log_write_ms = highest(|instance| instance.log_write.average_ms);
        one
    }
}

/// A mean that lies within `mean ± half_width` with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Arithmetic mean of the repetitions.
    pub mean: f64,
    /// Student's t times the standard error of the mean.
    pub half_width: f64,
}

impl Interval {
    /// The interval of the mean of `values`; `None` for fewer than two, which have no spread.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom as f64;
        // For more values than the table has, its last entry gives an interval that is slightly too wide.
        let t = T[freedom.min(T.len()) - 1];
        Some(Interval { mean, half_width: t * (variance / count).sqrt() })
    }
}

/// All repetitions with their means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetitions {
    /// The repetitions in order.
    pub each: Vec<Repetition>,
    /// Database reads and writes per second.
    pub transactional_iops: Interval,
    /// Completed operations per second.
    pub operations_per_second: Interval,
    /// Average database read.
    pub database_read_ms: Interval,
    /// Average log write.
    pub log_write_ms: Interval,
}

impl Repetitions {
    /// The means of `each`; `None` for fewer than two repetitions, or if they had different maintenance.
    pub fn of(each: &[Repetition]) -> Option<Repetitions> {
        if each.windows(2).any(|pair| pair[0].maintenance != pair[1].maintenance) {
            return None;
        }
        let interval =
            |value: fn(&Repetition) -> f64| Interval::of(&each.iter().map(value).collect::<Vec<_>>());
        Some(Repetitions {
            each: each.to_vec(),
            transactional_iops: interval(|one| one.transactional_iops)?,
            operations_per_second: interval(|one| one.operations_per_second)?,
            database_read_ms: interval(|one| one.database_read_ms)?,
            log_write_ms: interval(|one| one.log_write_ms)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_uses_students_t() {
        // Mean 12, standard deviation 2, three values: 4.303 * 2 / sqrt(3).
        let interval = Interval::of(&[10.0, 12.0, 14.0]).unwrap();
        assert!((interval.mean - 12.0).abs() < 1e-12, "{interval:?}");
        assert!((interval.half_width - 4.968_676).abs() < 1e-5, "{interval:?}");
        assert_eq!(Interval::of(&[7.0; 500]), Some(Interval { mean: 7.0, half_width: 0.0 }));
        assert_eq!(Interval::of(&[7.0]), None);
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn one_repetition_is_none() {
        assert_eq!(Repetitions::of(&[Repetition::default()]), None);
        assert_eq!(Repetitions::of(&[Repetition::default(); 3]).unwrap().each.len(), 3);
    }
}
