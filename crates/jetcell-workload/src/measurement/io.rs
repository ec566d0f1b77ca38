//! Counts, bytes and latencies of one kind of I/O. Sums are divided only once, at the end, so busy and idle intervals
//! are weighted correctly.

use serde::{Deserialize, Serialize};

use crate::measurement::latency::LatencyHistogram;

/// Totals for one kind of I/O.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IoTotals {
    /// Number of transfers.
    pub operations: u64,
    /// Number of bytes transferred.
    pub bytes: u64,
    /// Sum of the latencies in microseconds.
    pub latency_us: u64,
    /// Distribution of the latencies.
    pub latencies: LatencyHistogram,
}

impl IoTotals {
    /// Counts one transfer.
    pub fn record(&mut self, bytes: u64, us: u64) {
        self.operations += 1;
        self.bytes += bytes;
        self.latency_us += us;
        self.latencies.record(us);
    }

    /// Adds the transfers of `other`.
    pub fn add(&mut self, other: &IoTotals) {
        self.operations = self.operations.saturating_add(other.operations);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency_us = self.latency_us.saturating_add(other.latency_us);
        self.latencies.add(&other.latencies);
    }

    /// Returns the transfers since the state `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &IoTotals) -> IoTotals {
        IoTotals {
            operations: self.operations.saturating_sub(earlier.operations),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            latency_us: self.latency_us.saturating_sub(earlier.latency_us),
            latencies: self.latencies.since(&earlier.latencies),
        }
    }

    /// Returns the rates and averages over `seconds`, without the distribution.
    pub fn rates(&self, seconds: f64) -> IoRates {
        let each = |sum: u64| if self.operations == 0 { 0.0 } else { sum as f64 / self.operations as f64 };
        IoRates {
            per_second: if seconds > 0.0 { self.operations as f64 / seconds } else { 0.0 },
            average_bytes: each(self.bytes),
            average_ms: each(self.latency_us) / 1000.0,
        }
    }
}

/// Rates for one kind of I/O, in the form that Jetstress shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoRates {
    /// Transfers per second.
    pub per_second: f64,
    /// Mean transfer size in bytes.
    pub average_bytes: f64,
    /// Mean latency in milliseconds, weighted by transfers.
    pub average_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_computed_from_summed_counters() {
        let mut totals = IoTotals::default();
        totals.record(32768, 10_000);
        let start = totals.clone();
        totals.record(32768, 2_000);
        totals.record(65536, 4_000);
        let rates = totals.since(&start).rates(2.0);
        assert_eq!(rates, IoRates { per_second: 1.0, average_bytes: 49152.0, average_ms: 3.0 });
        assert_eq!(totals.since(&start).latencies.summary().count, 2);
        assert_eq!(IoTotals::default().rates(2.0), IoRates::default());
    }
}
