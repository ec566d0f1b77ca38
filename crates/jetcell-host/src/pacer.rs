//! Limits on the rate of work.

use std::time::Duration;

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::Clock;

use crate::Cancellation;

/// A rate limit for work on disks that are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// Pause before each piece of work except the first one.
    Pause(Duration),
    /// Maximum number of bytes per second.
    BytesPerSecond(u64),
}

/// A rate limiter that assigns a start time to each piece of work, until it is cancelled. Threads can share it.
pub struct Pacer {
    clock: Arc<dyn Clock>,
    rate: Option<Rate>,
    cancellation: Cancellation,
    /// Earliest start time of the next piece.
    next: Mutex<Duration>,
}

impl Pacer {
    /// Creates a pacer whose first piece may start immediately. `None` stands for no limit.
    pub fn new(clock: Arc<dyn Clock>, rate: Option<Rate>, cancellation: Cancellation) -> Pacer {
        Pacer { clock, rate, cancellation, next: Mutex::new(Duration::ZERO) }
    }

    /// Returns the cancellation token of the paced work.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Returns true if the work is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Returns true if there is a limit.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Waits until a piece of `bytes` bytes may start, and reserves its time. Returns early on cancellation.
    pub fn wait(&self, bytes: u64) {
        let time = self.reserve(bytes);
        if !time.is_zero() {
            self.cancellation.wait(&*self.clock, time);
        }
    }

    /// Reserves time for a piece of `bytes` bytes, and returns how long the caller must wait before this piece may
    /// start.
    pub fn reserve(&self, bytes: u64) -> Duration {
        let time = match self.rate {
            None => return Duration::ZERO,
            Some(Rate::Pause(pause)) => pause,
            Some(Rate::BytesPerSecond(rate)) => Pacer::transfer_time(bytes, rate),
        };
        let mut next = self.next.lock();
        let now = self.clock.monotonic();
        let start = (*next).max(now);
        *next = start.saturating_add(time);
        start - now
    }

    /// Returns the time needed to transfer `bytes` at `rate` bytes per second.
    pub fn transfer_time(bytes: u64, rate: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
