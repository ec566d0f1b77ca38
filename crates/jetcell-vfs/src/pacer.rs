//! Rate limiting and early cancellation of long operations.

use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Mutex};

use crate::Clock;

/// Maximum sleep between two checks for cancellation.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// A token for requesting that a long operation end early. Clones share their state.
#[derive(Clone, Default, Debug)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Requests cancellation.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A rate limiter that assigns a start time to each piece of work. It can be shared between threads.
pub struct Pacer {
    clock: Arc<dyn Clock>,
    /// Earliest start time of the next piece.
    next: Mutex<Duration>,
}

impl Pacer {
    /// Creates a pacer whose first piece may start immediately.
    pub fn new(clock: Arc<dyn Clock>) -> Pacer {
        Pacer { clock, next: Mutex::new(Duration::ZERO) }
    }

    /// Waits until the next piece may start and reserves `time` for it. Returns early if `ended` returns true.
    pub fn wait(&self, time: Duration, ended: impl Fn() -> bool) {
        let begin = {
            let mut next = self.next.lock();
            let begin = (*next).max(self.clock.monotonic());
            *next = begin.saturating_add(time);
            begin
        };
        while !ended() {
            match begin.checked_sub(self.clock.monotonic()) {
                Some(left) if !left.is_zero() => self.clock.sleep(left.min(MAX_SLEEP)),
                _ => return,
            }
        }
    }

    /// Returns the time needed to transfer `bytes` at `rate` bytes per second.
    pub fn transfer_time(bytes: u64, rate: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SimVfs, Vfs};

    #[test]
    fn transfers_are_paced_until_cancelled() {
        let clock = SimVfs::new().clock();
        let (pacer, cancel) = (Pacer::new(clock.clone()), CancelToken::default());
        for _ in 0..5 {
            pacer.wait(Pacer::transfer_time(500, 1000), || cancel.is_cancelled());
        }
        // The time reserved for the last piece may not have passed yet.
        assert_eq!(clock.monotonic(), Duration::from_secs(2));
        cancel.clone().cancel();
        pacer.wait(Duration::from_secs(9), || cancel.is_cancelled());
        assert_eq!(clock.monotonic(), Duration::from_secs(2));
    }
}
