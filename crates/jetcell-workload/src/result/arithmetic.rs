//! Figures for a report. A figure that Jetstress also reports is computed by Jetstress's definition.
//!
//! Achieved I/O is the sum of the load's database reads and writes on all instances. It excludes log I/O, background
//! maintenance and log replication. A mean is computed by dividing the total once. Jetstress averages over samples
//! instead, and samples without I/O lower its means.

use crate::measurement::{InstanceSample, IoRates, Sample};
use crate::result::RunResult;
use crate::result::instance_row::InstanceRow;

/// Returns the achieved transactional I/O per second: the database reads and writes of all rows.
pub fn achieved_iops(rows: &[InstanceRow]) -> f64 {
    rows.iter().map(|row| row.database_reads_per_second + row.database_writes_per_second).sum()
}

/// Subtracts `apart` from `total`. Rates and bytes are subtracted. The latency is kept, because a single counter
/// measures it for both.
pub fn subtract(total: IoRates, apart: IoRates) -> IoRates {
    let per_second = total.per_second - apart.per_second;
    let bytes = total.per_second * total.average_bytes - apart.per_second * apart.average_bytes;
    let average_bytes = if per_second > 0.0 { bytes / per_second } else { 0.0 };
    IoRates { per_second, average_bytes, average_ms: total.average_ms }
}

/// Returns the database reads for the total I/O table: those of the load and those of background maintenance. The
/// latency is that of the load's reads, because a single counter measures it for both.
pub fn total_reads(row: &InstanceRow) -> IoRates {
    combine(
        (row.database_reads_per_second, row.database_reads_average_bytes),
        (row.maintenance_reads_per_second, row.maintenance_reads_average_bytes),
        row.database_reads_average_latency_ms,
    )
}

/// Returns the log reads for the total I/O table: those of the engine and those of log replication. As for database
/// reads, the latency is that of the engine's reads.
pub fn total_log_reads(row: &InstanceRow) -> IoRates {
    combine(
        (row.log_reads_per_second, row.log_reads_average_bytes),
        (row.replication_reads_per_second, row.replication_reads_average_bytes),
        row.log_reads_average_latency_ms,
    )
}

/// Adds two kinds of I/O, each given by its rate and its mean size.
fn combine(one: (f64, f64), other: (f64, f64), average_ms: f64) -> IoRates {
    let per_second = one.0 + other.0;
    let bytes = one.0 * one.1 + other.0 * other.1;
    IoRates { per_second, average_bytes: if per_second > 0.0 { bytes / per_second } else { 0.0 }, average_ms }
}

/// Combines all instances into one row. Rates are added. Sizes and latencies are averaged over transfers.
pub fn total(rows: &[InstanceRow]) -> InstanceRow {
    type RowFigure = fn(&InstanceRow) -> f64;
    let combined_rates = |rate: RowFigure, bytes: RowFigure, ms: RowFigure| {
        let per_second: f64 = rows.iter().map(rate).sum();
        let mean = |value: RowFigure| {
            if per_second > 0.0 {
                rows.iter().map(|row| rate(row) * value(row)).sum::<f64>() / per_second
            } else {
                0.0
            }
        };
        IoRates { per_second, average_bytes: mean(bytes), average_ms: mean(ms) }
    };
    let highest = |value: RowFigure| rows.iter().map(value).fold(0.0, f64::max);
    let no_latency: RowFigure = |_| 0.0;
    let scan = combined_rates(
        |row| row.maintenance_reads_per_second,
        |row| row.maintenance_reads_average_bytes,
        no_latency,
    );
    let copies = combined_rates(
        |row| row.replication_reads_per_second,
        |row| row.replication_reads_average_bytes,
        no_latency,
    );
    InstanceRow {
        maximum_database_read_ms: highest(|row| row.maximum_database_read_ms),
        maximum_log_write_ms: highest(|row| row.maximum_log_write_ms),
        maintenance_reads_per_second: scan.per_second,
        maintenance_reads_average_bytes: scan.average_bytes,
        replication_reads_per_second: copies.per_second,
        replication_reads_average_bytes: copies.average_bytes,
        ..InstanceRow::new("Total".into(), "".into(), "".into())
    }
    .with_rates(
        combined_rates(
            |row| row.database_reads_per_second,
            |row| row.database_reads_average_bytes,
            |row| row.database_reads_average_latency_ms,
        ),
        combined_rates(
            |row| row.database_writes_per_second,
            |row| row.database_writes_average_bytes,
            |row| row.database_writes_average_latency_ms,
        ),
        combined_rates(
            |row| row.log_reads_per_second,
            |row| row.log_reads_average_bytes,
            |row| row.log_reads_average_latency_ms,
        ),
        combined_rates(
            |row| row.log_writes_per_second,
            |row| row.log_writes_average_bytes,
            |row| row.log_writes_average_latency_ms,
        ),
    )
}

/// The seven lines of an ESRP summary, computed from the rows of the total I/O table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EsrpSummary {
    /// Database reads and writes per second.
    pub database_transfers: f64,
    /// Database reads per second.
    pub database_reads: f64,
    /// Database writes per second.
    pub database_writes: f64,
    /// Unweighted mean of the instances' read latencies, in milliseconds.
    pub database_read_ms: f64,
    /// Unweighted mean of the instances' write latencies, in milliseconds.
    pub database_write_ms: f64,
    /// Log writes per second.
    pub log_writes: f64,
    /// Unweighted mean of the instances' log write latencies, in milliseconds.
    pub log_write_ms: f64,
}

impl EsrpSummary {
    /// Sums the rates and averages the latencies of `rows`.
    pub fn from_rows(rows: &[InstanceRow]) -> EsrpSummary {
        let sum = |value: fn(&InstanceRow) -> f64| rows.iter().map(value).sum::<f64>();
        let mean = |value| sum(value) / rows.len().max(1) as f64;
        let (reads, writes) =
            (sum(|row| row.database_reads_per_second), sum(|row| row.database_writes_per_second));
        EsrpSummary {
            database_transfers: reads + writes,
            database_reads: reads,
            database_writes: writes,
            database_read_ms: mean(|row| row.database_reads_average_latency_ms),
            database_write_ms: mean(|row| row.database_writes_average_latency_ms),
            log_writes: sum(|row| row.log_writes_per_second),
            log_write_ms: mean(|row| row.log_writes_average_latency_ms),
        }
    }
}

/// Combines one kind of I/O over several intervals. The interval totals are added up and divided once.
pub fn over_intervals(intervals: impl Iterator<Item = (f64, IoRates)>) -> IoRates {
    let (mut seconds, mut count, mut bytes, mut ms) = (0.0, 0.0, 0.0, 0.0);
    for (length, rates) in intervals {
        let transfers = rates.per_second * length;
        seconds += length;
        count += transfers;
        bytes += transfers * rates.average_bytes;
        ms += transfers * rates.average_ms;
    }
    let each = |sum: f64| if count > 0.0 { sum / count } else { 0.0 };
    IoRates {
        per_second: if seconds > 0.0 { count / seconds } else { 0.0 },
        average_bytes: each(bytes),
        average_ms: each(ms),
    }
}

impl RunResult {
    /// Computes the figures of a result without a measurement, as left by a killed run, from its samples. Percentiles
    /// remain empty because samples contain only means.
    pub fn fill_from_samples(&mut self, samples: &[Sample]) {
        let Some(last) = samples.last() else { return };
        self.measured_seconds = samples.iter().map(|sample| sample.seconds).sum();
        self.cache_used_bytes = last.cache_used_bytes;
        self.page_fault_stalls =
            samples.iter().fold(0, |sum: u64, sample| sum.saturating_add(sample.page_fault_stalls));
        let operations: f64 =
            samples.iter().map(|sample| sample.operations_per_second * sample.seconds).sum();
        self.operations.per_second =
            if self.measured_seconds > 0.0 { operations / self.measured_seconds } else { 0.0 };
        for (index, row) in self.instances.iter_mut().enumerate() {
            let intervals = || samples.iter().filter_map(|s| Some((s.seconds, s.instances.get(index)?)));
            let rates = |kind: fn(&InstanceSample) -> IoRates| {
                over_intervals(intervals().map(|(seconds, instance)| (seconds, kind(instance))))
            };
            *row = row.clone().with_rates(
                rates(|i| i.database_read),
                rates(|i| i.database_write),
                rates(|i| i.log_read),
                rates(|i| i.log_write),
            );
            row.maximum_database_read_ms =
                intervals().map(|(_, i)| i.database_read.average_ms).fold(0.0, f64::max);
            row.maximum_log_write_ms = intervals().map(|(_, i)| i.log_write.average_ms).fold(0.0, f64::max);
        }
        self.achieved_transactional_iops = achieved_iops(&self.instances);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(per_second: f64, average_bytes: f64, average_ms: f64) -> IoRates {
        IoRates { per_second, average_bytes, average_ms }
    }

    #[test]
    fn maintenance_is_separated_from_rates_and_bytes_but_not_latency() {
        let rest = subtract(rates(30.0, 100.0, 7.0), rates(10.0, 200.0, 99.0));
        assert_eq!(rest, rates(20.0, 50.0, 7.0));
        assert_eq!(subtract(rates(5.0, 8.0, 1.0), rates(5.0, 8.0, 1.0)).average_bytes, 0.0);
    }

    #[test]
    fn intervals_without_io_do_not_lower_means() {
        let joined =
            over_intervals([(1.0, rates(10.0, 4096.0, 5.0)), (3.0, rates(0.0, 0.0, 0.0))].into_iter());
        assert_eq!(joined, rates(2.5, 4096.0, 5.0));
        assert_eq!(over_intervals(std::iter::empty()), IoRates::default());
    }

    #[test]
    fn totals_add_rates_and_weight_means_by_transfers() {
        let row = |reads: f64, ms: f64, scans: f64| InstanceRow {
            maintenance_reads_per_second: scans,
            maintenance_reads_average_bytes: 262_144.0,
            maximum_database_read_ms: ms * 2.0,
            ..InstanceRow::new("x".into(), "".into(), "".into()).with_rates(
                rates(reads, 32768.0, ms),
                IoRates::default(),
                IoRates::default(),
                rates(1.0, 4096.0, ms),
            )
        };
        let all = total(&[row(300.0, 2.0, 10.0), row(100.0, 6.0, 0.0)]);
        assert_eq!((all.instance.as_str(), all.database_reads_per_second), ("Total", 400.0));
        assert_eq!((all.database_reads_average_latency_ms, all.database_reads_average_bytes), (3.0, 32768.0));
        assert_eq!((all.database_writes_per_second, all.database_writes_average_bytes), (0.0, 0.0));
        assert_eq!((all.log_writes_per_second, all.log_writes_average_latency_ms), (2.0, 4.0));
        assert_eq!(
            (all.maintenance_reads_per_second, all.maintenance_reads_average_bytes),
            (10.0, 262_144.0)
        );
        assert_eq!(all.maximum_database_read_ms, 12.0);
        assert_eq!(achieved_iops(&[all]), 400.0);
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let rounded: Vec<f64> = [17.66225, 2.0755, 1.2925, 1.9685, 1.3375, -1.9685]
            .map(|value| jetcell_input::number::rounded(value, 3))
            .into();
        assert_eq!(rounded, [17.662, 2.076, 1.293, 1.969, 1.338, -1.969]);
    }
}
