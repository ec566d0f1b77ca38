//! Change of a figure relative to a base, and whether it is significant.

use serde::{Deserialize, Serialize};

use crate::measurement::better::BetterDirection;
use crate::measurement::repetition::{ConfidenceInterval, student_t};

/// Change of a figure, as a percentage of the base's mean. Positive if the figure is larger.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Mean over the repetitions.
    pub percent: f64,
    /// Half width of the 95 % confidence interval, which is `percent ± half_width`. `None` if there was only one
    /// repetition.
    pub half_width: Option<f64>,
    /// True if the confidence interval does not contain zero.
    pub significant: bool,
}

impl Change {
    fn new(percent: f64, half_width: Option<f64>) -> Change {
        let interval = half_width.map(|half_width| ConfidenceInterval { mean: percent, half_width });
        let significant = interval.is_some_and(|interval| interval.excludes_zero());
        Change { percent, half_width, significant }
    }

    /// Returns the change from `base` to `other` if their repetitions alternated. Each repetition is compared with the
    /// one in the same turn, so a slow drift in the machine's speed affects both and cancels out. A turn in which one
    /// of them has no figure is ignored. Returns `None` if there are no pairs, or if the mean of `base` is not
    /// positive.
    pub fn paired<F: Copy + Into<Option<f64>>>(base: &[F], other: &[F]) -> Option<Change> {
        let pair = |(base, other): (&F, &F)| (*base).into().zip((*other).into());
        let pairs: Vec<(f64, f64)> = base.iter().zip(other).filter_map(pair).collect();
        let mean = pairs.iter().map(|(base, _)| base).sum::<f64>() / pairs.len() as f64;
        if !mean.is_finite() || mean <= 0.0 {
            return None;
        }
        let changes: Vec<f64> = pairs.iter().map(|(base, other)| (other - base) / mean * 100.0).collect();
        let percent = changes.iter().sum::<f64>() / changes.len() as f64;
        Some(Change::new(percent, ConfidenceInterval::from_values(&changes).map(|found| found.half_width)))
    }

    /// Returns the change from `base` to `other`, computed by Welch's t test. The two must have been measured
    /// independently. Returns `None` if one of them has fewer than two repetitions or the mean of `base` is not
    /// positive.
    pub fn independent(base: RepeatedFigure, other: RepeatedFigure) -> Option<Change> {
        let (of_base, of_other) = (base.squared_error()?, other.squared_error()?);
        let mean = Some(base.interval.mean).filter(|mean| mean.is_finite() && *mean > 0.0)?;
        let sum = of_base + of_other;
        let freedom = sum.powi(2)
            / (of_base.powi(2) / (base.repetitions - 1) as f64
                + of_other.powi(2) / (other.repetitions - 1) as f64);
        // Rounding errors can put a whole number of degrees of freedom slightly below its value. Without noise, the
        // number is undefined.
        let half_width = if sum > 0.0 { student_t((freedom + 1e-9) as usize) * sum.sqrt() } else { 0.0 };
        let percent = |difference: f64| difference / mean * 100.0;
        Some(Change::new(percent(other.interval.mean - base.interval.mean), Some(percent(half_width))))
    }

    /// Returns the change as an improvement: positive if the figure is better.
    #[must_use]
    pub fn improvement(self, better: BetterDirection) -> Change {
        Change { percent: better.signed_change(self.percent), ..self }
    }

    /// Returns true if the figure is significantly better.
    pub fn is_better(self, better: BetterDirection) -> bool {
        self.significant && better != BetterDirection::Neither && better.signed_change(self.percent) > 0.0
    }
}

/// Mean of a figure over its repetitions, for comparison with a figure that was measured independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RepeatedFigure {
    /// Confidence interval of the mean.
    pub interval: ConfidenceInterval,
    /// Number of repetitions.
    pub repetitions: usize,
}

impl RepeatedFigure {
    /// Returns the square of the standard error of the mean.
    fn squared_error(&self) -> Option<f64> {
        let freedom = self.repetitions.checked_sub(1).filter(|freedom| *freedom > 0)?;
        Some((self.interval.half_width / student_t(freedom)).powi(2))
    }
}

/// Returns the index of the target that is significantly better than every other target, if there is one. The
/// repetitions must have alternated between the targets.
pub fn winner<F: Copy + Into<Option<f64>>>(better: BetterDirection, figures: &[Vec<F>]) -> Option<usize> {
    let beats =
        |one: &[F], other: &[F]| Change::paired(other, one).is_some_and(|change| change.is_better(better));
    let is_measured = |each: &[F]| each.iter().any(|figure| (*figure).into().is_some());
    let others = |at: usize| figures.iter().enumerate().filter(move |(other, _)| *other != at);
    let several = figures.iter().filter(|each| is_measured(each)).count() > 1;
    let wins = |at: &usize| {
        let one = figures.get(*at).map(Vec::as_slice).unwrap_or_default();
        is_measured(one) && others(*at).all(|(_, other)| !is_measured(other) || beats(one, other))
    };
    several.then(|| (0..figures.len()).find(wins)).flatten()
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
