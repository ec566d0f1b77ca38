//! Computes a drive's seek time by distance from a drive test.

use jetcell_input::number::MIB;

use super::measurement::SeekMeasurement;
use super::result::DriveTest;
use super::step::SEEK_CURVE;

/// A drive's seek times and transfer rate.
#[derive(Clone, Debug, PartialEq)]
pub struct SeekCurve {
    /// Name of the target in its test.
    pub drive: String,
    /// Sequential transfer rate in bytes per second.
    pub bytes_per_second: f64,
    /// Seconds per sequential read, which needs no seek.
    base: f64,
    /// Pairs of distance in bytes and read latency in seconds, sorted by distance.
    points: Vec<(f64, f64)>,
}

impl SeekCurve {
    /// Computes the curve for one target of a test. Returns `None` if the test lacks the read transfer, sequential
    /// read, or seek curve step.
    pub fn from_test(test: &DriveTest, target: usize) -> Option<SeekCurve> {
        let figure = |name: &str| {
            let step = test.steps.iter().find(|step| step.step.name == name)?;
            step.figures.get(target)?.as_ref()
        };
        let bytes_per_second = figure("transfer_read")?.mean * MIB;
        let repetitions = &figure(SEEK_CURVE)?.repetitions;
        let distances = repetitions.first()?.seeks.iter().map(|seek| seek.distance);
        let mean = |distance: u64| {
            let all = repetitions.iter().flat_map(|one| &one.seeks);
            let same: Vec<&SeekMeasurement> = all.filter(|seek| seek.distance == distance).collect();
            let reads: f64 = same.iter().map(|seek| seek.reads as f64).sum();
            let seconds: f64 = same.iter().map(|seek| seek.ms / 1e3 * seek.reads as f64).sum();
            (distance as f64, seconds / reads)
        };
        let mut points: Vec<(f64, f64)> = distances.map(mean).collect();
        points.retain(|(distance, seconds)| *distance > 0.0 && seconds.is_finite());
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let base = figure("sequential_read_4k")?.mean.recip();
        let drive = test.targets.get(target)?.name.clone();
        (bytes_per_second.is_finite() && bytes_per_second > 0.0 && base.is_finite() && !points.is_empty())
            .then_some(SeekCurve { drive, bytes_per_second, base, points })
    }

    /// Returns how many seconds longer a read takes at this distance from the previous read than a sequential read.
    /// The value is interpolated over the logarithm of the distance. Outside the measured range, the value at the
    /// nearest measured distance is used.
    pub fn cost(&self, distance: u64) -> f64 {
        if distance == 0 {
            return 0.0;
        }
        let distance = distance as f64;
        let at = self.points.partition_point(|(known, _)| *known <= distance);
        let seconds = match (at.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(at)) {
            (Some(before), Some(after)) => {
                let share = (distance / before.0).ln() / (after.0 / before.0).ln();
                before.1 + (after.1 - before.1) * share
            }
            (Some(nearest), None) | (None, Some(nearest)) => nearest.1,
            (None, None) => self.base,
        };
        (seconds - self.base).max(0.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn curve(points: &[(f64, f64)], bytes_per_second: f64) -> SeekCurve {
        SeekCurve { drive: "disk".into(), bytes_per_second, base: 0.001, points: points.to_vec() }
    }

    #[test]
    fn seek_costs_are_interpolated_logarithmically_and_clamped_to_the_curve() {
        let curve = curve(&[(1e5, 0.004), (1e7, 0.006), (1e9, 0.012)], 1e8);
        let close = |distance: u64, wanted: f64| {
            assert!((curve.cost(distance) - wanted).abs() < 1e-9, "{distance}: {}", curve.cost(distance));
        };
        close(0, 0.0);
        close(10, 0.003);
        close(100_000, 0.003);
        close(1_000_000, 0.004);
        close(10_000_000, 0.005);
        close(1_000_000_000, 0.011);
        close(u64::MAX, 0.011);
    }
}
