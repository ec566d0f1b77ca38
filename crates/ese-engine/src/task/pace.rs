//! Rate limits for maintenance tasks, and the pauses that result from them.

use std::time::Duration;

use crate::{Result, UsageError};

/// Maximum pause after a step. ESE: the maximum of `JET_paramDbScanThrottle`.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Minimum length of a wait for clean pages that is reported as an event.
const REPORTED_WAIT: Duration = Duration::from_secs(1);

/// Minimum pause of a task that is backing off.
const MIN_BACK_OFF: Duration = Duration::from_millis(10);

/// Rate limits for a maintenance task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaintenanceThrottle {
    /// Pause after each step, up to 60 s. ESE: `JET_paramDbScanThrottle`.
    #[doc(alias = "JET_paramDbScanThrottle")]
    pub pause: Duration,
    /// Maximum number of bytes to read per second, on average.
    pub bytes_per_second: Option<u64>,
    /// Target for the average read latency of sessions. While it is exceeded, the task doubles its pause after each
    /// step, up to 60 s. If no session is reading, the task compares the duration of its own step with the target.
    pub read_latency_target: Option<Duration>,
}

impl MaintenanceThrottle {
    /// Creates a throttle whose only limit is a pause after each step.
    pub fn pausing(pause: Duration) -> MaintenanceThrottle {
        MaintenanceThrottle { pause, ..MaintenanceThrottle::default() }
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// Returns [`Error::Usage`](crate::Error::Usage) if a limit is invalid.
    pub fn check(&self) -> Result<()> {
        if self.pause > MAX_PAUSE {
            return Err(UsageError::Pause(self.pause).into());
        }
        if self.bytes_per_second == Some(0) || self.read_latency_target == Some(Duration::ZERO) {
            return Err(UsageError::ZeroThrottle.into());
        }
        Ok(())
    }
}

/// Calculates how long a maintenance task should pause.
pub(crate) struct MaintenancePacer {
    /// Current pause while session reads are too slow.
    backed_off: Duration,
    /// Number of cache faults and their total duration in microseconds, as of the last step.
    faults: (u64, u64),
}

impl MaintenancePacer {
    pub fn new(faults: (u64, u64)) -> MaintenancePacer {
        MaintenancePacer { backed_off: Duration::ZERO, faults }
    }

    /// Returns the pause after a step that read `bytes` bytes in the time `took`.
    pub fn pause(
        &mut self,
        throttle: &MaintenanceThrottle,
        bytes: usize,
        took: Duration,
        faults: (u64, u64),
    ) -> Duration {
        let mut pause = throttle.pause;
        if let Some(rate) = throttle.bytes_per_second {
            let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
            pause = pause.max(due.saturating_sub(took));
        }
        if let Some(target) = throttle.read_latency_target {
            let (count, us) = (faults.0 - self.faults.0, faults.1 - self.faults.1);
            self.faults = faults;
            let slow = us.checked_div(count).map_or(took, Duration::from_micros) > target;
            self.backed_off = if slow {
                (self.backed_off * 2).clamp(MIN_BACK_OFF, MAX_PAUSE)
            } else if self.backed_off < MIN_BACK_OFF {
                Duration::ZERO
            } else {
                self.backed_off / 2
            };
            pause = pause.max(self.backed_off);
        }
        pause
    }
}

/// Maximum number of consecutive times that a task waits for clean pages before it continues anyway. A load that keeps
/// most of the cache dirty therefore slows the task but does not stop it.
const MAX_CLEAN_PAGE_WAITS: u32 = 20;

/// State of a task that waits for clean pages. The wait is bounded, and is reported if it lasts a long time.
#[derive(Default)]
pub(crate) struct CleanPageWait {
    /// Number of consecutive waits before this step.
    waits: u32,
    /// Time at which most of the cache became dirty, if it still is.
    since: Option<Duration>,
    reported: bool,
}

/// The start or end of a pause during which a task waits for clean pages. Both are reported as events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleanPageWaitEvent {
    /// The task is paused.
    Paused,
    /// The task continues.
    Continued,
}

impl CleanPageWait {
    /// Returns whether the task has to wait again because most of the cache is dirty.
    pub fn wait(&mut self, mostly_dirty: bool) -> bool {
        let wait = mostly_dirty && self.waits < MAX_CLEAN_PAGE_WAITS;
        self.waits = if wait { self.waits + 1 } else { 0 };
        wait
    }

    /// Records whether most of the cache is dirty at time `now`. Returns the change to report, if any.
    pub fn note(&mut self, dirty: bool, now: Duration) -> Option<CleanPageWaitEvent> {
        if !dirty {
            self.since = None;
            return std::mem::take(&mut self.reported).then_some(CleanPageWaitEvent::Continued);
        }
        let since = *self.since.get_or_insert(now);
        if self.reported || now.saturating_sub(since) < REPORTED_WAIT {
            return None;
        }
        self.reported = true;
        Some(CleanPageWaitEvent::Paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_limits_are_refused() {
        MaintenanceThrottle::pausing(MAX_PAUSE).check().unwrap();
        let bad = [
            MaintenanceThrottle::pausing(Duration::from_millis(60_001)),
            MaintenanceThrottle { bytes_per_second: Some(0), ..MaintenanceThrottle::default() },
            MaintenanceThrottle {
                read_latency_target: Some(Duration::ZERO),
                ..MaintenanceThrottle::default()
            },
        ];
        for throttle in bad {
            assert!(matches!(throttle.check(), Err(crate::Error::Usage(_))));
        }
    }

    #[test]
    fn a_long_wait_for_clean_pages_is_reported_once() {
        let mut wait = CleanPageWait::default();
        let mut note = |dirty, ms| wait.note(dirty, Duration::from_millis(ms));
        assert_eq!([note(true, 0), note(true, 900), note(false, 950)], [None; 3]);
        assert_eq!([note(true, 1000), note(true, 1900)], [None; 2]);
        assert_eq!([note(true, 2000), note(true, 9000)], [Some(CleanPageWaitEvent::Paused), None]);
        assert_eq!([note(false, 9100), note(false, 9200)], [Some(CleanPageWaitEvent::Continued), None]);
    }

    #[test]
    fn a_wait_for_clean_pages_completes() {
        let mut wait = CleanPageWait::default();
        let mut waits = |mostly_dirty| (0..).take_while(|_| wait.wait(mostly_dirty)).count();
        assert_eq!([waits(true), waits(true), waits(false)], [20, 20, 0]);
    }

    #[test]
    fn the_pause_follows_the_rate_and_grows_with_slow_reads() {
        let ms = Duration::from_millis;
        let throttle = MaintenanceThrottle {
            pause: Duration::ZERO,
            bytes_per_second: Some(1 << 20),
            read_latency_target: Some(ms(20)),
        };
        let mut pace = MaintenancePacer::new((0, 0));
        // Reading 256 KiB at 1 MiB/s takes a quarter of a second. The read itself took part of this time.
        assert_eq!(pace.pause(&throttle, 256 << 10, ms(50), (10, 50_000)), ms(200));
        let throttle = MaintenanceThrottle { bytes_per_second: None, ..throttle };
        let mut faults = (10, 50_000);
        let mut slow = |each_ms: u64| {
            faults = (faults.0 + 10, faults.1 + 10 * each_ms * 1000);
            pace.pause(&throttle, 256 << 10, ms(1), faults)
        };
        assert_eq!([slow(50), slow(50), slow(50)], [ms(10), ms(20), ms(40)]);
        assert_eq!([slow(5), slow(5), slow(5), slow(5)], [ms(20), ms(10), ms(5), ms(0)]);
        for _ in 0..20 {
            assert!(slow(500) <= MAX_PAUSE);
        }
    }
}
