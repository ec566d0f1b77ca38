//! Open loop: operations start by the clock, not when the one before has ended.
//!
//! Operation `n` is due at `start + n / rate`, whatever the storage does. A thread takes the next number, waits until
//! it is due, and its latency counts from then: time spent waiting for a free thread behind a stall is in it, so a
//! stall is not hidden by the operations that it kept from starting (coordinated omission).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::measurement::OpenLoop;

/// Longest sleep without looking whether the load has ended.
const NAP: Duration = Duration::from_millis(50);

/// What all threads keep to: a schedule that can be replaced while they run.
#[derive(Default)]
pub(crate) struct Pace(RwLock<Option<Arc<Schedule>>>);

struct Schedule {
    rate: f64,
    start: Instant,
    taken: AtomicU64,
    completed: AtomicU64,
}

/// The right to begin one operation.
pub(crate) struct Turn {
    /// When it was due, which may have been long ago.
    pub(crate) due: Instant,
    schedule: Option<Arc<Schedule>>,
}

impl Turn {
    /// The operation has done what it was to do.
    pub(crate) fn complete(&self) {
        if let Some(schedule) = &self.schedule {
            schedule.completed.fetch_add(1, Relaxed);
        }
    }
}

impl Pace {
    /// The first of `rate` operations per second is due now; what was due before is forgotten.
    pub(crate) fn start(&self, rate: f64) {
        let (taken, completed) = (AtomicU64::new(0), AtomicU64::new(0));
        *self.0.write() = Some(Arc::new(Schedule { rate, start: Instant::now(), taken, completed }));
    }

    fn current(&self) -> Option<Arc<Schedule>> {
        self.0.read().clone()
    }

    /// Waits for the next operation. Before the start every operation is due at once; `None` when the load ends first.
    pub(crate) fn wait(&self, quit: &AtomicBool) -> Option<Turn> {
        'schedules: loop {
            let Some(schedule) = self.current() else {
                return Some(Turn { due: Instant::now(), schedule: None });
            };
            let number = schedule.taken.fetch_add(1, Relaxed);
            let due = schedule.start + Duration::from_secs_f64(number as f64 / schedule.rate);
            loop {
                let early = due.saturating_duration_since(Instant::now());
                if early.is_zero() {
                    return Some(Turn { due, schedule: Some(schedule) });
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

    /// What was due and not begun or not completed by now; `None` before the start.
    pub(crate) fn state(&self) -> Option<OpenLoop> {
        let schedule = self.current()?;
        let Schedule { rate, start, taken, completed } = &*schedule;
        let due = (start.elapsed().as_secs_f64() * rate) as u64;
        let waiting = due.saturating_sub(taken.load(Relaxed));
        let not_completed = due.saturating_sub(completed.load(Relaxed));
        Some(OpenLoop {
            target_rate: *rate,
            due,
            waiting,
            behind_seconds: waiting as f64 / rate,
            not_completed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_for_every_operation_it_delays() {
        let (pace, quit) = (Pace::default(), AtomicBool::new(false));
        pace.start(1000.0);
        let first = pace.wait(&quit).unwrap().due;
        std::thread::sleep(Duration::from_millis(200));
        // 200 operations were due during the stall, one of which was begun before it.
        let behind = pace.state().unwrap();
        assert!(behind.waiting >= 198 && !behind.kept_up(), "{behind:?}");
        for number in 1..=100 {
            let due = pace.wait(&quit).unwrap().due;
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
        // The next one is due in a hundred seconds, so that it is not due on a slow machine either.
        pace.start(0.01);
        assert!(pace.wait(&quit).is_some());
        quit.store(true, Relaxed);
        assert!(pace.wait(&quit).is_none());
    }

    #[test]
    fn what_began_and_came_to_nothing_does_not_count() {
        let (pace, quit) = (Pace::default(), AtomicBool::new(false));
        pace.start(1000.0);
        let before = pace.wait(&quit).unwrap();
        pace.start(1000.0);
        for number in 0..300 {
            let turn = pace.wait(&quit).unwrap();
            if number % 2 == 0 {
                turn.complete();
            }
        }
        // Of another schedule.
        before.complete();
        let state = pace.state().unwrap();
        assert!(state.due >= 299 && state.not_completed == state.due - 150, "{state:?}");
        assert!(!state.kept_up(), "{state:?}");
        assert!(
            OpenLoop { not_completed: state.due / 50, ..state }.not_completed as f64 <= state.tolerated()
        );
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
            let due = waiting.join().unwrap().unwrap().due;
            assert!(due.elapsed() < Duration::from_secs(20));
        });
        let state = pace.state().unwrap();
        assert_eq!(state.target_rate, 1000.0);
    }
}
