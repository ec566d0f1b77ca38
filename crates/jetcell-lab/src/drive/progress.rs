//! Progress of a test, with an upper bound for the remaining time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of bytes transferred so far. The measuring thread increases it, and the watchdog thread reads it to detect
/// a drive that has stopped responding.
#[derive(Clone, Debug, Default)]
pub(super) struct TransferredBytes(Arc<AtomicU64>);

impl TransferredBytes {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Progress of a drive test at a given moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveTestProgress {
    /// Title of the current stage.
    pub title: String,
    /// Number of completed measurements.
    pub done: usize,
    /// Total number of measurements.
    pub total: usize,
    /// Fraction of the current preparation that has been written, from 0 to 1. `None` during a measurement.
    pub written: Option<f64>,
    /// Time since the start of the test.
    pub elapsed: Duration,
    /// Upper bound for the remaining time. Preparations are extrapolated from their rate so far, and each measurement
    /// is assumed to need its maximum time. `None` while the rate is unknown.
    pub max_remaining: Option<Duration>,
}

impl DriveTestProgress {
    /// Returns the fraction of the test's total time that has passed, or `None` if the remaining time is unknown.
    pub fn fraction_elapsed(&self) -> Option<f64> {
        let whole = self.elapsed.checked_add(self.max_remaining?)?.as_secs_f64();
        Some(if whole > 0.0 { self.elapsed.as_secs_f64() / whole } else { 0.0 })
    }
}

/// A test stage: a measurement, a preconditioning round, or one complete write of the target.
#[derive(Clone, Debug)]
pub(super) struct TestStage {
    pub(super) title: String,
    pub(super) done: usize,
    pub(super) total: usize,
    /// Time at which the stage began.
    pub(super) began: Duration,
    /// Number of bytes transferred before the stage began.
    pub(super) moved: u64,
    /// Number of bytes that the stage writes, if it ends after a number of bytes rather than after a time.
    pub(super) writes: Option<u64>,
    /// Number of bytes that this stage and all later preparations have to write.
    pub(super) unwritten: u64,
    /// Write rate of the previous preparation, in bytes per second.
    pub(super) rate: Option<f64>,
    /// Maximum duration of the stage, if it ends after a time.
    pub(super) longest: Duration,
    /// Maximum total duration of this and all later stages that end after a time.
    pub(super) bounded: Duration,
}

impl TestStage {
    /// Returns the progress at time `now`, when `moved` bytes have been transferred in total. The test started at
    /// `began` and ends no later than `deadline`.
    pub(super) fn progress(
        &self,
        now: Duration,
        moved: u64,
        began: Duration,
        deadline: Option<Duration>,
    ) -> DriveTestProgress {
        let inside = now.saturating_sub(self.began);
        let written = self.writes.map(|all| moved.saturating_sub(self.moved).min(all));
        let left = self.unwritten.saturating_sub(written.unwrap_or(0));
        let rate = match written {
            Some(bytes) if bytes > 0 && !inside.is_zero() => Some(bytes as f64 / inside.as_secs_f64()),
            _ => self.rate,
        };
        let bounded = self.bounded.saturating_sub(inside.min(self.longest));
        let writing = match (left, rate) {
            (0, _) => Some(Duration::ZERO),
            (left, Some(rate)) => Duration::try_from_secs_f64(left as f64 / rate).ok(),
            (_, None) => None,
        };
        let at_most = writing.map(|writing| bounded.saturating_add(writing));
        let at_most = match deadline.map(|end| end.saturating_sub(now)) {
            Some(end) => Some(at_most.map_or(end, |at_most| at_most.min(end))),
            None => at_most,
        };
        DriveTestProgress {
            title: self.title.clone(),
            done: self.done,
            total: self.total,
            written: written.zip(self.writes).map(|(written, all)| written as f64 / all.max(1) as f64),
            elapsed: now.saturating_sub(began),
            max_remaining: at_most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn progress_weighs_fills_by_rate_and_steps_by_maximum_time() {
        let fill = TestStage {
            title: "a: fill".into(),
            done: 0,
            total: 10,
            began: seconds(5),
            moved: 100,
            writes: Some(1000),
            unwritten: 3000,
            rate: None,
            longest: Duration::ZERO,
            bounded: seconds(30),
        };
        let progress_at = |now, moved| fill.progress(seconds(now), moved, seconds(4), None);
        assert_eq!(
            (
                progress_at(5, 100).max_remaining,
                progress_at(5, 100).written,
                progress_at(5, 100).fraction_elapsed()
            ),
            (None, Some(0.0), None)
        );
        // The first quarter of the fill took 5 s, so the remaining 2750 bytes take 55 s.
        let quarter = progress_at(10, 350);
        assert_eq!((quarter.max_remaining, quarter.written), (Some(seconds(85)), Some(0.25)));
        assert_eq!((quarter.elapsed, quarter.fraction_elapsed()), (seconds(6), Some(6.0 / 91.0)));
        let late = fill.progress(seconds(10), 350, seconds(4), Some(seconds(20)));
        assert_eq!(late.max_remaining, Some(seconds(10)), "the test ends earlier");
        // The passes after the fill are estimated with the fill's rate.
        let step = TestStage { writes: None, unwritten: 0, longest: seconds(3), ..fill.clone() };
        assert_eq!(step.progress(seconds(7), 900, seconds(4), None).max_remaining, Some(seconds(28)));
        assert_eq!(step.progress(seconds(9), 900, seconds(4), None).max_remaining, Some(seconds(27)));
        let next = TestStage { rate: Some(50.0), moved: 1100, ..fill };
        assert_eq!(next.progress(seconds(5), 1100, seconds(4), None).max_remaining, Some(seconds(90)));
    }
}
