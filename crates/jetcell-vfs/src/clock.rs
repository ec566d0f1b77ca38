//! The machine's clock and a simulated clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jetcell_sync::atomic::{AtomicU64, Ordering};

use crate::Clock;

/// A clock that returns the machine's time.
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// Creates a clock whose monotonic time starts now.
    pub fn new() -> RealClock {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn unix_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        jetcell_sync::thread::sleep(duration);
    }
}

/// A clock that advances only through [`SimClock::advance`] and `sleep`.
pub struct SimClock {
    nanoseconds: AtomicU64,
}

impl SimClock {
    /// The initial value of `unix_ms`: 2024-01-01 00:00 UTC.
    pub const EPOCH_MS: i64 = 1_704_067_200_000;

    /// Creates a clock at `EPOCH_MS`.
    pub fn new() -> SimClock {
        SimClock::starting_at(Duration::ZERO)
    }

    /// Creates a clock that starts `elapsed` after `EPOCH_MS`.
    pub fn starting_at(elapsed: Duration) -> SimClock {
        SimClock { nanoseconds: AtomicU64::new(elapsed.as_nanos() as u64) }
    }

    /// Advances the clock.
    pub fn advance(&self, duration: Duration) {
        self.nanoseconds.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Default for SimClock {
    fn default() -> SimClock {
        SimClock::new()
    }
}

impl Clock for SimClock {
    fn unix_ms(&self) -> i64 {
        SimClock::EPOCH_MS + self.monotonic().as_millis() as i64
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_advances_only_on_request() {
        let clock = SimClock::new();
        assert_eq!((clock.unix_ms(), clock.monotonic()), (SimClock::EPOCH_MS, Duration::ZERO));
        clock.sleep(Duration::from_millis(1500));
        clock.advance(Duration::from_millis(500));
        assert_eq!((clock.unix_ms(), clock.monotonic()), (SimClock::EPOCH_MS + 2000, Duration::from_secs(2)));
    }

    #[test]
    fn the_real_clock_is_current_and_advances() {
        let clock = RealClock::new();
        assert!(clock.unix_ms() > SimClock::EPOCH_MS);
        let before = clock.monotonic();
        clock.sleep(Duration::from_millis(2));
        assert!(clock.monotonic() >= before + Duration::from_millis(2));
    }
}
