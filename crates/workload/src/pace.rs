//! Open loop: operations start by the clock, not when the one before has ended.
//!
//! Operation `n` is due at `start + n / rate`, whatever the storage does. A thread takes the next number, waits until
//! it is due, and its latency counts from then: time spent waiting for a free thread behind a stall is in it, so a
//! stall is not hidden by the operations that it kept from starting (coordinated omission).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// Longest sleep without looking whether the load has ended.
const NAP: Duration = Duration::from_millis(50);

/// What all threads keep to: a schedule that can be replaced while they run.
#[derive(Default)]
pub struct Pace(RwLock<Option<Arc<Schedule>>>);

struct Schedule {
    rate: f64,
    start: Instant,
    taken: AtomicU64,
}

impl Pace {
    /// The first of `rate` operations per second is due now; what was due before is forgotten.
    pub fn start(&self, rate: f64) {
        let schedule = Schedule { rate, start: Instant::now(), taken: AtomicU64::new(0) };
        *self.0.write() = Some(Arc::new(schedule));
    }

    fn current(&self) -> Option<Arc<Schedule>> {
        self.0.read().clone()
    }

    /// Waits for the next operation and returns when it was due. Before the start every operation is due at once;
    /// `None` when the load ends first.
    pub fn wait(&self, quit: &AtomicBool) -> Option<Instant> {
        'schedules: loop {
            let Some(schedule) = self.current() else { return Some(Instant::now()) };
            let number = schedule.taken.fetch_add(1, Relaxed);
            let due = schedule.start + Duration::from_secs_f64(number as f64 / schedule.rate);
            loop {
                let early = due.saturating_duration_since(Instant::now());
                if early.is_zero() {
                    return Some(due);
                }
                if quit.load(Relaxed) {
                    return None;
                }
                std::thread::sleep(early.min(NAP));
                if self.current().is_none_or(|now| !Arc::ptr_eq(&now, &schedule)) {
                    continue 'schedules;
                }
            }
        }
    }

    /// What was due and not begun by now; `None` before the start.
    pub fn state(&self) -> Option<OpenLoop> {
        let schedule = self.current()?;
        let Schedule { rate, start, taken } = &*schedule;
        let due = (start.elapsed().as_secs_f64() * rate) as u64;
        let waiting = due.saturating_sub(taken.load(Relaxed));
        Some(OpenLoop { target_rate: *rate, due, waiting, behind_seconds: waiting as f64 / rate })
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
    /// A rate of which no more waits is kept.
    pub const TOLERATED_SECONDS: f64 = 0.1;

    /// Whether the rate was kept: at most a tenth of a second of operations is waiting.
    pub fn kept_up(&self) -> bool {
        self.behind_seconds <= OpenLoop::TOLERATED_SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_for_every_operation_it_delays() {
        let (pace, quit) = (Pace::default(), AtomicBool::new(false));
        pace.start(1000.0);
        let first = pace.wait(&quit).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        // 200 operations were due during the stall, one of which was begun before it.
        let behind = pace.state().unwrap();
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
        let (pace, quit) = (Pace::default(), AtomicBool::new(false));
        let began = Instant::now();
        pace.start(50.0);
        (0..6).for_each(|_| assert!(pace.wait(&quit).is_some()));
        assert!(began.elapsed() >= Duration::from_millis(99));
        quit.store(true, Relaxed);
        assert!(pace.wait(&quit).is_none());
    }
    #[test]
    fn a_new_rate_replaces_the_old_one_at_once() {
        let (pace, quit) = (Pace::default(), AtomicBool::new(false));
        assert!(pace.wait(&quit).is_some() && pace.state().is_none());
        pace.start(0.01);
        assert!(pace.wait(&quit).is_some());
        std::thread::scope(|scope| {
            // The second operation is due in a hundred seconds, until the rate changes.
            let waiting = scope.spawn(|| pace.wait(&quit));
            std::thread::sleep(Duration::from_millis(20));
            pace.start(1000.0);
            let due = waiting.join().unwrap().unwrap();
            assert!(due.elapsed() < Duration::from_secs(20));
        });
        let state = pace.state().unwrap();
        assert_eq!(state.target_rate, 1000.0);
    }
}
