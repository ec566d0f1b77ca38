//! Open loop: operations start by the clock, not when the one before has ended.
//!
//! Operation `n` is due at `start + n / rate`, whatever the storage does. A thread takes the next number, waits until
//! it is due, and its latency counts from then: time spent waiting for a free thread behind a stall is in it, so a
//! stall is not hidden by the operations that it kept from starting (coordinated omission).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Longest sleep without looking whether the load has ended.
const NAP: Duration = Duration::from_millis(50);

/// The schedule that all threads share.
pub struct Pace {
    rate: f64,
    start: OnceLock<Instant>,
    taken: AtomicU64,
}

impl Pace {
    /// `rate` operations per second, from [`Pace::start`] on.
    pub fn new(rate: f64) -> Pace {
        Pace { rate, start: OnceLock::new(), taken: AtomicU64::new(0) }
    }

    /// The first operation is due now.
    pub fn start(&self) {
        self.start.get_or_init(Instant::now);
    }

    /// Waits for the next operation and returns when it was due. Before the start every operation is due at once;
    /// `None` when the load ends first.
    pub fn wait(&self, quit: &AtomicBool) -> Option<Instant> {
        let Some(start) = self.start.get() else { return Some(Instant::now()) };
        let number = self.taken.fetch_add(1, Relaxed);
        let due = *start + Duration::from_secs_f64(number as f64 / self.rate);
        loop {
            let early = due.saturating_duration_since(Instant::now());
            if early.is_zero() {
                return Some(due);
            }
            if quit.load(Relaxed) {
                return None;
            }
            std::thread::sleep(early.min(NAP));
        }
    }

    /// What was due and not begun by now.
    pub fn state(&self) -> OpenLoop {
        let elapsed = self.start.get().map_or(0.0, |start| start.elapsed().as_secs_f64());
        let due = (elapsed * self.rate) as u64;
        let waiting = due.saturating_sub(self.taken.load(Relaxed));
        OpenLoop { target_rate: self.rate, due, waiting, behind_seconds: waiting as f64 / self.rate }
    }
}

/// How well an open loop was kept up with, at the end of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Operations per second that were asked for.
    pub target_rate: f64,
    /// Operations that were due.
    pub due: u64,
    /// Those of them that had not begun. They are in no latency, so latencies are too low when there are any.
    pub waiting: u64,
    /// How long ago the oldest of them was due.
    pub behind_seconds: f64,
}

impl OpenLoop {
    /// Whether the rate was kept: less than a tenth of a second of operations is waiting.
    pub fn kept_up(&self) -> bool {
        self.behind_seconds < 0.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_for_every_operation_it_delays() {
        let (pace, quit) = (Pace::new(1000.0), AtomicBool::new(false));
        pace.start();
        let first = pace.wait(&quit).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        // 200 operations were due during the stall, one of which was begun before it.
        let behind = pace.state();
        assert!(behind.waiting >= 198 && !behind.kept_up(), "{behind:?}");
        for number in 1..=100 {
            let due = pace.wait(&quit).unwrap();
            let after = (due - first).as_secs_f64();
            assert!((after - f64::from(number) / 1000.0).abs() < 1e-6, "{number}: {after}");
            assert!(due.elapsed() >= Duration::from_millis(99), "counted from when it was due");
        }
    }

    #[test]
    fn nothing_runs_ahead_of_the_rate_and_the_end_is_seen() {
        let (pace, quit) = (Pace::new(50.0), AtomicBool::new(false));
        let began = Instant::now();
        pace.start();
        (0..6).for_each(|_| assert!(pace.wait(&quit).is_some()));
        assert!(began.elapsed() >= Duration::from_millis(99));
        quit.store(true, Relaxed);
        assert!(pace.wait(&quit).is_none());
    }
}
