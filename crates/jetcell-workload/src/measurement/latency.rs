//! Latency distributions.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// Maximum latency that is recorded: one hour, in microseconds. Longer latencies are recorded as this value.
const MAX_US: u64 = 3_600_000_000;

/// Maximum count of a stored bucket. No run has as many operations, and the sum of thousands of such counts does not
/// overflow.
const MAX_OPERATIONS: u64 = 1 << 50;

/// A latency histogram in microseconds with three significant digits, or two in runs with many databases.
///
/// The histogram is stored as text: `bucket upper bound in microseconds:operation count` pairs, in ascending order
/// and separated by spaces, such as `87:2 1023:1`. Recording each upper bound as often as its count reproduces the
/// same histogram. Stored runs can therefore be added up.
///
/// An empty histogram uses no memory. A histogram can take tens of KiB, and most kinds of I/O never occur.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LatencyHistogram(Option<Box<Histogram<u64>>>);

impl fmt::Debug for LatencyHistogram {
    /// Formats the stored text form, which omits the many empty buckets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(self.clone()))
    }
}

impl From<LatencyHistogram> for String {
    fn from(latencies: LatencyHistogram) -> String {
        let bucket = |bucket: IterationValue<u64>| {
            format!("{}:{}", bucket.value_iterated_to(), bucket.count_at_value())
        };
        latencies.buckets().map(bucket).collect::<Vec<_>>().join(" ")
    }
}

impl TryFrom<String> for LatencyHistogram {
    type Error = ParseError;
    fn try_from(text: String) -> Result<LatencyHistogram, ParseError> {
        let mut latencies = LatencyHistogram::default();
        for bucket in text.split_ascii_whitespace() {
            let parsed = bucket.split_once(':').and_then(|(us, count)| {
                let (us, count): (u64, u64) = (us.parse().ok()?, count.parse().ok()?);
                let possible = (1..=MAX_US * 2).contains(&us) && count <= MAX_OPERATIONS;
                possible.then_some((us, count))
            });
            let Some((us, count)) = parsed.filter(|_| latencies.count() <= MAX_OPERATIONS) else {
                let shown: String = bucket.chars().take(40).collect();
                return Err(ParseError::Bucket(shown));
            };
            latencies.histogram().record_n(us, count)?;
        }
        Ok(LatencyHistogram::from_histogram(latencies.0))
    }
}

impl From<Histogram<u64>> for LatencyHistogram {
    /// Converts a histogram of microseconds.
    fn from(histogram: Histogram<u64>) -> LatencyHistogram {
        LatencyHistogram::from_histogram(Some(Box::new(histogram)))
    }
}

impl LatencyHistogram {
    fn from_histogram(histogram: Option<Box<Histogram<u64>>>) -> LatencyHistogram {
        LatencyHistogram(histogram.filter(|histogram| !histogram.is_empty()))
    }

    fn histogram(&mut self) -> &mut Histogram<u64> {
        self.0.get_or_insert_with(|| {
            let mut histogram = Histogram::new(3).expect("three digits are supported");
            // The histogram grows on demand, so most histograms stay small.
            histogram.auto(true);
            Box::new(histogram)
        })
    }

    fn buckets(&self) -> impl Iterator<Item = IterationValue<u64>> {
        self.0.iter().flat_map(|histogram| histogram.iter_recorded())
    }

    fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.len())
    }

    /// Records one operation with its latency in microseconds.
    pub fn record(&mut self, us: u64) {
        self.record_many(us, 1);
    }

    /// Records `count` operations that all have about this latency, in microseconds.
    pub fn record_many(&mut self, us: u64, count: u64) {
        if count > 0 {
            self.histogram().record_n(us.clamp(1, MAX_US), count).expect("the histogram grows");
        }
    }

    /// Adds the operations of `other`.
    pub fn add(&mut self, other: &LatencyHistogram) {
        match (&mut self.0, &other.0) {
            (Some(histogram), Some(other)) => **histogram += &**other,
            (empty @ None, other) => empty.clone_from(other),
            (Some(_), None) => {}
        }
    }

    /// Returns this histogram minus the operations in `earlier`, which must be an earlier state of it.
    #[must_use]
    pub fn since(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let (Some(now), Some(earlier)) = (&self.0, &earlier.0) else { return self.clone() };
        let mut rest = now.clone();
        match rest.subtract(&**earlier) {
            Ok(()) => LatencyHistogram::from_histogram(Some(rest)),
            Err(_) => self.clone(),
        }
    }

    /// Returns the number of operations that took at most `us` microseconds, to within the histogram's precision.
    pub fn count_at_most(&self, us: u64) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.count_between(0, us))
    }

    /// Returns the share of operations in each logarithmic latency interval, from the fastest to the slowest
    /// operation. Each factor of ten is divided into `per_decade` intervals. An entry contains the interval's lower
    /// bound in microseconds and its share.
    pub fn shares(&self, per_decade: u32) -> Vec<(f64, f64)> {
        let per_decade = f64::from(per_decade.max(1));
        let number = |us: u64| ((us.max(1) as f64).log10() * per_decade + 1e-9).floor() as usize;
        let (Some(histogram), Some(fastest)) = (&self.0, self.buckets().next()) else { return Vec::new() };
        let (first, all) = (number(fastest.value_iterated_to()), histogram.len() as f64);
        let mut counts = vec![0_u64; number(histogram.max()).saturating_sub(first) + 1];
        for bucket in self.buckets() {
            let at = number(bucket.value_iterated_to()).saturating_sub(first);
            if let Some(count) = counts.get_mut(at) {
                *count += bucket.count_at_value();
            }
        }
        let lower = |at: usize| 10_f64.powf((first + at) as f64 / per_decade);
        counts.iter().enumerate().map(|(at, count)| (lower(at), *count as f64 / all)).collect()
    }

    /// Returns true if no operation was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Returns the latency figures for a report.
    pub fn summary(&self) -> LatencySummary {
        let Some(histogram) = self.0.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return LatencySummary::default();
        };
        let value_at = |percentile| histogram.value_at_percentile(percentile);
        LatencySummary {
            count: histogram.len(),
            mean: histogram.mean(),
            min: histogram.min(),
            p50: value_at(50.0),
            p90: value_at(90.0),
            p95: value_at(95.0),
            p99: value_at(99.0),
            p99_9: value_at(99.9),
            p99_99: value_at(99.99),
            max: histogram.max(),
        }
    }
}

/// Latency percentiles in microseconds. All fields are zero if there was no operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of operations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Minimum.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// 99.99th percentile.
    pub p99_99: u64,
    /// Maximum.
    pub max: u64,
}

/// Latency percentiles for each kind of operation.
pub type LatencyTable = BTreeMap<String, LatencySummary>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_histograms_read_back_and_add_up() {
        let mut latencies = LatencyHistogram::default();
        for us in [1, 2, 87, 87, 1023, 5_000_001, u64::MAX] {
            latencies.record(us);
        }
        let text = String::from(latencies.clone());
        assert!(text.starts_with("1:1 2:1 87:2 1023:1 500"), "{text}");
        let mut back = LatencyHistogram::try_from(text).unwrap();
        assert_eq!((&back, back.summary()), (&latencies, latencies.summary()));
        back.add(&latencies);
        assert_eq!((back.summary().count, back.summary().p50), (14, 87));
        assert_eq!(LatencyHistogram::try_from(String::new()).unwrap(), LatencyHistogram::default());
        let most = format!("5:{MAX_OPERATIONS} 6:1");
        assert_eq!(LatencyHistogram::try_from(most.clone()).unwrap().summary().count, MAX_OPERATIONS + 1);
        for wrong in [
            "x",
            "1",
            "1:",
            ":1",
            "1:-1",
            "0:1",
            "1:1,2:1",
            "99999999999999999999:1",
            "9000000000000:1",
            "1:18446744073709551615",
            &format!("{most} 7:1"),
        ] {
            assert!(LatencyHistogram::try_from(wrong.to_string()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_cover_all_operations_once() {
        let mut latencies = LatencyHistogram::default();
        for (us, count) in [(10, 5), (14, 1), (100, 3), (9_999, 1)] {
            latencies.record_many(us, count);
        }
        let shares = latencies.shares(10);
        assert_eq!(shares.len(), 30, "from 10 us to below 10 ms");
        assert_eq!((shares[0].1, shares[1].1, shares[10].1, shares[29].1), (0.5, 0.1, 0.3, 0.1));
        assert!((shares[10].0 / 100.0 - 1.0).abs() < 1e-9);
        assert!((shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(LatencyHistogram::default().shares(10).is_empty());
        latencies.record(u64::MAX);
        assert!((latencies.shares(1).iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_right_within_three_digits() {
        let mut latencies = LatencyHistogram::default();
        (1..=10_000).for_each(|us| latencies.record(us));
        let summary = latencies.summary();
        assert_eq!(summary.count, 10_000);
        for (value, expected) in [(summary.p50, 5_000), (summary.p99, 9_900), (summary.p99_99, 9_999)] {
            assert!(value.abs_diff(expected) <= expected / 500, "{value} {expected}");
        }
        assert_eq!(summary.min, 1);
        assert!(latencies.count_at_most(2_000).abs_diff(2_000) < 4, "{}", latencies.count_at_most(2_000));
        assert_eq!((latencies.count_at_most(0), latencies.count_at_most(u64::MAX)), (0, 10_000));
        latencies.record(u64::MAX);
        assert!(latencies.summary().max.abs_diff(MAX_US) < MAX_US / 500);
    }
}
