//! Trends over a long run: whether a figure drifts, and how fast.
//!
//! The samples are averaged in blocks of equal length. The slope is the median of the slopes between all pairs of
//! blocks (Theil–Sen), so isolated incidents do not affect it. The confidence interval follows Sen (1968) and uses
//! the variance of Kendall's statistic. Because neighboring blocks are correlated, random variation can look like a
//! trend. The variance is therefore increased according to the correlation between neighboring ranks after the trend
//! is removed (effective sample size, Yue and Wang 2004). It is never reduced.

use jetcell_input::Unit;
use serde::{Deserialize, Serialize};

use crate::measurement::io::IoRates;
use crate::measurement::sample::{InstanceSample, Sample};

/// Minimum number of blocks needed to compute a trend.
const MIN_BLOCKS: usize = 12;
/// Maximum number of blocks. In a long run, each block averages more samples to stay within this number.
const MAX_BLOCKS: usize = 240;
/// Two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_964;
/// Maximum correlation between neighboring blocks. If it is higher, the run is too short for a conclusion.
const MAX_CORRELATION: f64 = 0.95;
/// Minimum change over the run, as a fraction of the median, that counts as a drift. A smaller change may be
/// statistically significant but does not matter in practice.
const MIN_DRIFT: f64 = 0.05;

/// The trend of a metric over the measured interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Name of the figure with its unit.
    pub figure: String,
    /// Number of blocks that have a value.
    pub blocks: usize,
    /// Median over the blocks.
    pub median: f64,
    /// Change per hour.
    pub per_hour: f64,
    /// Lower bound of the 95 % confidence interval for the change per hour.
    pub low_per_hour: f64,
    /// Upper bound of the 95 % confidence interval for the change per hour.
    pub high_per_hour: f64,
    /// Change over the measured interval, as a fraction of the median.
    pub change: f64,
    /// Whether the interval excludes zero and the change is 5 % or more.
    pub drifts: bool,
}

/// Computes the trends of a run. The result is empty if the run has too few samples.
pub fn trends(samples: &[Sample]) -> Vec<Trend> {
    let blocks: Vec<&[Sample]> = samples.chunks(samples.len().div_ceil(MAX_BLOCKS).max(1)).collect();
    let latency = |block: &[Sample], kind: fn(&InstanceSample) -> IoRates| {
        let (mut transfers, mut ms) = (0.0, 0.0);
        for sample in block {
            for rates in sample.instances.iter().map(kind) {
                let count = rates.per_second * sample.seconds;
                transfers += count;
                ms += count * rates.average_ms;
            }
        }
        ms / transfers
    };
    let rate = |block: &[Sample], value: fn(&Sample) -> f64| {
        let seconds: f64 = block.iter().map(|sample| sample.seconds).sum();
        block.iter().map(|sample| value(sample) * sample.seconds).sum::<f64>() / seconds
    };
    let fit_trend = |(title, figure): &(&str, TrendFigure)| {
        let value = |block: &[Sample]| match figure {
            TrendFigure::Rate(select) => rate(block, *select),
            TrendFigure::Latency(select) => latency(block, *select),
        };
        let points: Vec<(f64, f64)> = blocks
            .iter()
            .filter_map(|block| Some((block.last()?.at_seconds / 3600.0, value(block))))
            .filter(|(_, value)| value.is_finite())
            .collect();
        let trend = Trend::fit(&points)?;
        Some(Trend { figure: (*title).to_string(), ..trend })
    };
    FIGURES.iter().filter_map(fit_trend).collect()
}

/// How a figure with a trend is computed from the samples in a block.
enum TrendFigure {
    /// Mean of a rate per second.
    Rate(fn(&Sample) -> f64),
    /// Mean latency in milliseconds of one kind of I/O.
    Latency(fn(&InstanceSample) -> IoRates),
}

/// Figures that have trends, with their stored titles.
const FIGURES: [(&str, TrendFigure); 5] = [
    ("Transactional I/O per second", TrendFigure::Rate(Sample::iops)),
    ("Operations per second", TrendFigure::Rate(|sample| sample.operations_per_second)),
    ("Database read latency (msec)", TrendFigure::Latency(|instance| instance.database_read)),
    ("Database write latency (msec)", TrendFigure::Latency(|instance| instance.database_write)),
    ("Log write latency (msec)", TrendFigure::Latency(|instance| instance.log_write)),
];

impl Trend {
    /// Returns the unit of the figure, which is looked up by its title. A stored trend contains only the title.
    pub fn unit(&self) -> Unit {
        match FIGURES.iter().find(|(title, _)| *title == self.figure) {
            Some((_, TrendFigure::Rate(_))) => Unit::PerSecond,
            Some((_, TrendFigure::Latency(_))) => Unit::Milliseconds,
            None => Unit::None,
        }
    }

    /// Computes the trend of values over time, given in hours. Returns `None` if there are too few values.
    fn fit(points: &[(f64, f64)]) -> Option<Trend> {
        let count = points.len();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return None };
        if count < MIN_BLOCKS || last.0 <= first.0 {
            return None;
        }
        let mut slopes = Vec::with_capacity(count * (count - 1) / 2);
        for (number, (at, value)) in points.iter().enumerate() {
            slopes.extend(points[number + 1..].iter().map(|(later, other)| (other - value) / (later - at)));
        }
        slopes.sort_by(f64::total_cmp);
        let per_hour = median(&slopes);
        let rest: Vec<f64> = points.iter().map(|(at, value)| value - per_hour * at).collect();
        let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        let spread = Z * (variance(&values) * autocorrelation(&rest)).sqrt();
        let pairs = slopes.len() as f64;
        let slope_at = |rank: f64| slopes[(rank.max(0.0) as usize).min(slopes.len() - 1)];
        let (low, high) = (slope_at((pairs - spread) / 2.0), slope_at((pairs + spread) / 2.0));
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let middle = median(&sorted);
        let change = if middle == 0.0 { 0.0 } else { per_hour * (last.0 - first.0) / middle };
        Some(Trend {
            figure: String::new(),
            blocks: count,
            median: middle,
            per_hour,
            low_per_hour: low,
            high_per_hour: high,
            change,
            drifts: (low > 0.0 || high < 0.0) && change.abs() >= MIN_DRIFT,
        })
    }
}

/// Returns the median of sorted values.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        _ if sorted.is_empty() => 0.0,
        0 => sorted[middle - 1].midpoint(sorted[middle]),
        _ => sorted[middle],
    }
}

/// Returns the variance of Kendall's statistic for values without a trend, corrected for ties.
fn variance(values: &[f64]) -> f64 {
    let variance_term = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|equal| variance_term(equal.len() as f64)).sum();
    ((variance_term(values.len() as f64) - ties) / 18.0).max(0.0)
}

/// Returns the factor by which the correlation between neighboring values increases the variance. The factor is at
/// least 1.
fn autocorrelation(values: &[f64]) -> f64 {
    let count = values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; count];
    order.iter().enumerate().for_each(|(rank, at)| ranks[*at] = rank as f64);
    let mean = (count as f64 - 1.0) / 2.0;
    let square: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    let pairs = ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let found = pairs.sum::<f64>() / square;
    // The sample correlation underestimates the correlation of the underlying process.
    let correlation = (found + (1.0 + 3.0 * found) / count as f64).clamp(0.0, MAX_CORRELATION);
    (1.0 + correlation) / (1.0 - correlation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    /// Returns a uniformly distributed number between -1 and 1.
    fn noise(random: &mut ChaCha8Rng) -> f64 {
        f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0
    }

    fn trend(values: &[f64]) -> Trend {
        let points: Vec<(f64, f64)> =
            values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect();
        Trend::fit(&points).unwrap()
    }

    #[test]
    fn a_known_slope_is_found_despite_noise_and_outliers() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut values: Vec<f64> =
            (0..100).map(|at| 100.0 + 0.3 * f64::from(at) + noise(&mut random)).collect();
        values[50] = 900.0;
        values[70] = 0.0;
        let found = trend(&values);
        assert!((found.per_hour - 0.3).abs() < 0.02, "{found:?}");
        assert!(found.low_per_hour < 0.3 && 0.3 < found.high_per_hour && found.drifts, "{found:?}");
        assert!((found.change - 0.3 * 99.0 / found.median).abs() < 0.03, "{found:?}");
        let falling: Vec<f64> = values.iter().map(|value| -value).collect();
        assert!((trend(&falling).per_hour + 0.3).abs() < 0.02);
    }

    #[test]
    fn noise_is_a_trend_in_few_runs() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut runs = |correlated: f64| {
            let excludes_zero = (0..200).filter(|_| {
                let mut last = 0.0;
                let next = |_| {
                    last = correlated * last + noise(&mut random);
                    100.0 + last
                };
                let found = trend(&(0..120).map(next).collect::<Vec<_>>());
                found.low_per_hour > 0.0 || found.high_per_hour < 0.0
            });
            excludes_zero.count()
        };
        let independent = runs(0.0);
        assert!((2..=16).contains(&independent), "{independent} of 200");
        // Without the correction, about a third of the runs with this noise would show a trend.
        let correlated = runs(0.6);
        assert!(correlated <= 30, "{correlated} of 200");
    }

    #[test]
    fn a_significant_but_small_change_is_not_drift() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let values: Vec<f64> = (0..200).map(|at| 1000.0 + 0.1 * f64::from(at) + noise(&mut random)).collect();
        let found = trend(&values);
        assert!(found.low_per_hour > 0.0 && !found.drifts, "{found:?}");
        let level = trend(&[7.0; 40]);
        assert_eq!(
            (level.per_hour, level.low_per_hour, level.high_per_hour, level.drifts),
            (0.0, 0.0, 0.0, false)
        );
    }

    #[test]
    fn few_samples_have_no_trend_and_many_are_averaged() {
        let sample = |at: usize| Sample {
            at_seconds: at as f64,
            seconds: 1.0,
            operations_per_second: 5.0,
            ..Sample::default()
        };
        assert!(trends(&(1..MIN_BLOCKS).map(sample).collect::<Vec<_>>()).is_empty());
        let many = trends(&(1..=5000).map(sample).collect::<Vec<_>>());
        let operations = many.iter().find(|trend| trend.figure.starts_with("Operations")).unwrap();
        assert!(operations.blocks <= MAX_BLOCKS && operations.blocks > MAX_BLOCKS / 2, "{operations:?}");
        // Without transfers there is no latency and therefore no latency trend.
        assert!(many.iter().all(|trend| !trend.figure.contains("latency")), "{many:?}");
        assert_eq!(Trend::fit(&[]), None);
    }
}
