//! Steady state, computed from the samples.
//!
//! The measured interval is divided into five windows of whole samples. The load is steady if two conditions are met:
//! the windows' IOPS differ by at most 20 % of their mean, and a line fitted to them rises or falls by at most 10 %
//! of the mean. These limits come from the storage industry's performance test specification (SNIA SSS PTS).

use serde::{Deserialize, Serialize};

use crate::measurement::repetition::ConfidenceInterval;
use crate::measurement::sample::Sample;

const WINDOWS: usize = 5;
const MAX_SPREAD: f64 = 0.20;
const MAX_SLOPE: f64 = 0.10;
/// Minimum number of samples per window for a settled measurement.
const MIN_SAMPLES_PER_WINDOW: usize = 4;
/// Maximum half width of a settled measurement's confidence interval, as a fraction of the mean. A wider interval is
/// reported as a doubt about the run.
const MAX_HALF_WIDTH: f64 = 0.05;

/// Result of analysing whether a load has reached a steady state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Whether the spread and the slope are within their limits.
    pub steady: bool,
    /// Transactional I/O per second in each of the five windows.
    pub window_iops: Vec<f64>,
    /// Difference between the highest and the lowest window, as a fraction of the mean of all windows. The limit is
    /// 0.20.
    pub spread: f64,
    /// Change along the least-squares line from the first window to the last, as a fraction of the mean. The limit is
    /// ±0.10.
    pub slope: f64,
}

impl SteadyState {
    /// Computes the steady state. Returns `None` if there are fewer samples than windows, or no I/O.
    pub fn from_samples(samples: &[Sample]) -> Option<SteadyState> {
        if samples.len() < WINDOWS {
            return None;
        }
        let bound = |window: usize| window * samples.len() / WINDOWS;
        let iops = |window: usize| {
            let part = samples.get(bound(window)..bound(window + 1)).unwrap_or_default();
            let seconds: f64 = part.iter().map(|sample| sample.seconds).sum();
            part.iter().map(|sample| sample.iops() * sample.seconds).sum::<f64>() / seconds
        };
        let window_iops: Vec<f64> = (0..WINDOWS).map(iops).collect();
        let mean = window_iops.iter().sum::<f64>() / WINDOWS as f64;
        if !mean.is_finite() || mean <= 0.0 {
            return None;
        }
        let highest = window_iops.iter().copied().fold(f64::MIN, f64::max);
        let lowest = window_iops.iter().copied().fold(f64::MAX, f64::min);
        let middle = (WINDOWS - 1) as f64 / 2.0;
        let (mut along, mut square) = (0.0, 0.0);
        for (number, value) in window_iops.iter().enumerate() {
            let x = number as f64 - middle;
            along += x * value;
            square += x * x;
        }
        let (spread, slope) = ((highest - lowest) / mean, along / square * (WINDOWS - 1) as f64 / mean);
        let steady = spread <= MAX_SPREAD && slope.abs() <= MAX_SLOPE;
        Some(SteadyState { steady, window_iops, spread, slope })
    }

    /// Returns true if a longer measurement would not improve the result. The load must be steady. With the five
    /// windows treated as repetitions, the I/O per second must be known to within 5 % at 95 % confidence. There must
    /// be at least 20 samples, and they must cover at least `shortest` seconds.
    pub(crate) fn is_settled(samples: &[Sample], shortest: f64) -> bool {
        let seconds: f64 = samples.iter().map(|sample| sample.seconds).sum();
        let enough = seconds >= shortest && samples.len() >= WINDOWS * MIN_SAMPLES_PER_WINDOW;
        enough && SteadyState::from_samples(samples).is_some_and(|state| state.is_precise())
    }

    /// Returns true if the load is steady and the I/O per second is known to within 5 % at 95 % confidence.
    pub fn is_precise(&self) -> bool {
        let interval = ConfidenceInterval::from_values(&self.window_iops);
        self.steady && interval.is_some_and(|found| found.half_width <= MAX_HALF_WIDTH * found.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::io::IoRates;
    use crate::measurement::sample::InstanceSample;

    fn samples(iops: &[f64]) -> Vec<Sample> {
        let sample = |&per_second: &f64| {
            let database_read = IoRates { per_second, ..IoRates::default() };
            let instances = vec![InstanceSample { database_read, ..InstanceSample::default() }];
            Sample { seconds: 1.0, instances, ..Sample::default() }
        };
        iops.iter().map(sample).collect()
    }

    #[test]
    fn slope_and_spread_are_computed_over_five_windows() {
        let rising = SteadyState::from_samples(&samples(&[90.0, 95.0, 100.0, 105.0, 110.0])).unwrap();
        assert!((rising.spread - 0.2).abs() < 1e-9 && (rising.slope - 0.2).abs() < 1e-9 && !rising.steady);
        let level = SteadyState::from_samples(&samples(&[95.0, 105.0, 100.0, 105.0, 95.0])).unwrap();
        assert!(level.steady && level.slope.abs() < 1e-9 && (level.spread - 0.1).abs() < 1e-9, "{level:?}");
        let wild = SteadyState::from_samples(&samples(&[100.0, 60.0, 140.0, 60.0, 100.0])).unwrap();
        assert!(!wild.steady && wild.slope.abs() < 1e-9);
    }

    #[test]
    fn a_measurement_is_settled_when_more_samples_add_no_information() {
        let settled = |iops: &[f64], seconds: f64| {
            let mut samples = samples(iops);
            samples.iter_mut().for_each(|sample| sample.seconds = seconds);
            SteadyState::is_settled(&samples, 30.0)
        };
        assert!(settled(&[100.0; 20], 1.5));
        assert!(!settled(&[100.0; 20], 1.4), "28 s");
        assert!(!settled(&[100.0; 19], 10.0), "too few samples");
        // With a spread of 18 % the load is steady, but the half width exceeds 5 %: 2.776 * 8.2 / sqrt(5) is 10.2.
        let wide: Vec<f64> = [91.0, 109.0, 91.0, 109.0, 100.0].iter().flat_map(|iops| [*iops; 4]).collect();
        assert!(SteadyState::from_samples(&samples(&wide)).unwrap().steady && !settled(&wide, 10.0));
        let rising: Vec<f64> = (0..20).map(|n| 100.0 + f64::from(n)).collect();
        assert!(!settled(&rising, 10.0));
        assert!(!settled(&[0.0; 20], 10.0), "no I/O");
    }

    #[test]
    fn too_few_samples_give_no_result() {
        assert_eq!(SteadyState::from_samples(&samples(&[1.0; 4])), None);
        assert_eq!(SteadyState::from_samples(&samples(&[0.0; 9])), None);
        assert_eq!(SteadyState::from_samples(&samples(&[7.0; 13])).unwrap().window_iops, [7.0; 5]);
    }
}
