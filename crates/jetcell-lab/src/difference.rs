//! Compares targets whose repetitions were interleaved.
//!
//! Each repetition on one target is compared with the same repetition on the other target, which ran directly before
//! or after it. A slow drift in the machine's speed affects both and cancels out.

use jetcell_workload::measurement::ConfidenceInterval;
use serde::{Deserialize, Serialize};

/// Difference between a target and the first target, as a percentage of the first target's mean. Positive if the
/// target's figure is larger.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Mean over the repetitions.
    pub percent: f64,
    /// Half width of the 95 % confidence interval, which is `percent ± half_width`. `None` if there was only one
    /// repetition.
    pub half_width: Option<f64>,
    /// True if the confidence interval does not contain zero.
    pub significant: bool,
}

impl Difference {
    /// Returns the difference between `other` and `base`, paired by repetition. Returns `None` if there are no pairs
    /// or the mean of `base` is not positive.
    pub(crate) fn between(base: &[f64], other: &[f64]) -> Option<Difference> {
        let pairs: Vec<(f64, f64)> = base.iter().copied().zip(other.iter().copied()).collect();
        let mean = pairs.iter().map(|(base, _)| base).sum::<f64>() / pairs.len() as f64;
        if !mean.is_finite() || mean <= 0.0 {
            return None;
        }
        let changes: Vec<f64> = pairs.iter().map(|(base, other)| (other - base) / mean * 100.0).collect();
        let interval = ConfidenceInterval::from_values(&changes);
        let percent = changes.iter().sum::<f64>() / changes.len() as f64;
        let significant = interval.is_some_and(|interval| interval.mean.abs() > interval.half_width);
        Some(Difference { percent, half_width: interval.map(|interval| interval.half_width), significant })
    }
}

/// Returns the index of the target that is significantly better than every other target, if there is one.
pub(crate) fn winner(lower_is_better: bool, figures: &[Vec<f64>]) -> Option<usize> {
    let beats = |one: &[f64], other: &[f64]| {
        Difference::between(other, one)
            .is_some_and(|difference| difference.significant && (difference.percent < 0.0) == lower_is_better)
    };
    let others = |at: usize| figures.iter().enumerate().filter(move |(other, _)| *other != at);
    let several = figures.iter().filter(|each| !each.is_empty()).count() > 1;
    let wins = |at: &usize| {
        let one = figures.get(*at).map(Vec::as_slice).unwrap_or_default();
        !one.is_empty() && others(*at).all(|(_, other)| other.is_empty() || beats(one, other))
    };
    several.then(|| (0..figures.len()).find(wins)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_drift_does_not_hide_a_difference() {
        // The machine slows down by half, but the second target is 5 % faster in every repetition.
        let base = [1000.0, 800.0, 600.0, 500.0];
        let other = base.map(|iops| iops * 1.05);
        let found = Difference::between(&base, &other).unwrap();
        assert!((found.percent - 5.0).abs() < 1e-9 && found.significant, "{found:?}");
        assert_eq!(winner(false, &[base.to_vec(), other.to_vec()]), Some(1));
        assert_eq!(winner(true, &[base.to_vec(), other.to_vec()]), Some(0));
    }

    #[test]
    fn noise_has_no_winner() {
        let (base, other) = ([100.0, 104.0, 98.0, 101.0], [103.0, 99.0, 101.0, 102.0]);
        let found = Difference::between(&base, &other).unwrap();
        assert!(!found.significant && found.half_width.unwrap() > found.percent.abs(), "{found:?}");
        assert_eq!(winner(false, &[base.to_vec(), other.to_vec()]), None);
        assert_eq!(winner(false, &[vec![100.0], vec![200.0]]), None, "one repetition proves nothing");
    }

    #[test]
    fn the_best_of_three_beats_both_others() {
        let around = |mean: f64| [mean - 1.0, mean + 1.0, mean, mean + 0.5].to_vec();
        let three = |a, b, c| winner(false, &[around(a), around(b), around(c)]);
        assert_eq!((three(100.0, 150.0, 200.0), three(300.0, 150.0, 200.0)), (Some(2), Some(0)));
        // The two best targets are equal.
        assert_eq!(winner(false, &[around(100.0), around(200.0), around(200.0)]), None);
        // The second target did not run this step.
        assert_eq!(winner(false, &[around(100.0), Vec::new(), around(200.0)]), Some(2));
        assert_eq!(winner(false, &[around(100.0), Vec::new()]), None);
    }

    #[test]
    fn a_zero_baseline_has_no_percentages() {
        assert_eq!(Difference::between(&[0.0, 0.0], &[1.0, 1.0]), None);
        assert_eq!(Difference::between(&[], &[]), None);
        let one = Difference::between(&[10.0], &[9.0]).unwrap();
        assert_eq!((one.percent, one.half_width, one.significant), (-10.0, None, false));
    }
}
