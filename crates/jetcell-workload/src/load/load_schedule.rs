//! Open-loop scheduling: operations start on a fixed schedule, not when the previous operation completes.
//!
//! Operation `n` is due at `start + n / rate`, no matter how slow the storage is. A thread takes the next number and
//! waits until the operation is due. The latency is measured from the due time, so it includes the time that the
//! operation waited for a free thread. A stall therefore affects the latency of all operations that it delayed (no
//! coordinated omission).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::measurement::OpenLoopBacklog;

/// Maximum sleep time before a thread checks whether the load has been stopped.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// The rate schedule shared by all load threads. It can be replaced while the threads run.
#[derive(Default)]
pub(crate) struct LoadSchedule(RwLock<Option<Arc<RateSchedule>>>);

struct RateSchedule {
    rate: f64,
    start: Instant,
    taken: AtomicU64,
    completed: AtomicU64,
}

/// Permission to start one operation.
pub(crate) struct OperationPermit {
    /// Time at which the operation was due. This time may be long past.
    pub(crate) due: Instant,
    schedule: Option<Arc<RateSchedule>>,
}

impl OperationPermit {
    /// Counts the operation as completed.
    pub(crate) fn complete(&self) {
        if let Some(schedule) = &self.schedule {
            schedule.completed.fetch_add(1, Relaxed);
        }
    }
}

impl LoadSchedule {
    /// Starts a schedule of `rate` operations per second. The first operation is due immediately. Operations of the
    /// old schedule are no longer counted.
    pub(crate) fn start(&self, rate: f64) {
        let (taken, completed) = (AtomicU64::new(0), AtomicU64::new(0));
        *self.0.write() = Some(Arc::new(RateSchedule { rate, start: Instant::now(), taken, completed }));
    }

    fn current(&self) -> Option<Arc<RateSchedule>> {
        self.0.read().clone()
    }

    /// Waits until the next operation is due. Without a schedule, it is due immediately. Returns `None` if the load
    /// is stopped first.
    pub(crate) fn wait(&self, quit: &AtomicBool) -> Option<OperationPermit> {
        'schedules: loop {
            let Some(schedule) = self.current() else {
                return Some(OperationPermit { due: Instant::now(), schedule: None });
            };
            let number = schedule.taken.fetch_add(1, Relaxed);
            let due = schedule.start + Duration::from_secs_f64(number as f64 / schedule.rate);
            loop {
                let early = due.saturating_duration_since(Instant::now());
                if early.is_zero() {
                    return Some(OperationPermit { due, schedule: Some(schedule) });
                }
                if quit.load(Relaxed) {
                    return None;
                }
                std::thread::sleep(early.min(MAX_SLEEP));
                if self.current().is_none_or(|now| !Arc::ptr_eq(&now, &schedule)) {
                    continue 'schedules;
                }
            }
        }
    }

    /// Returns how well the load keeps to the schedule, or `None` without a schedule.
    pub(crate) fn state(&self) -> Option<OpenLoopBacklog> {
        let schedule = self.current()?;
        let RateSchedule { rate, start, taken, completed } = &*schedule;
        let due = (start.elapsed().as_secs_f64() * rate) as u64;
        let waiting = due.saturating_sub(taken.load(Relaxed));
        let not_completed = due.saturating_sub(completed.load(Relaxed));
        Some(OpenLoopBacklog {
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
    fn a_stall_adds_latency_to_every_delayed_operation() {
        let (pace, quit) = (LoadSchedule::default(), AtomicBool::new(false));
        pace.start(1000.0);
        let first = pace.wait(&quit).unwrap().due;
        std::thread::sleep(Duration::from_millis(200));
        // 200 operations became due during the stall, and one of them was started before the stall.
        let behind = pace.state().unwrap();
        assert!(behind.waiting >= 198 && !behind.kept_rate(), "{behind:?}");
        for number in 1..=100 {
            let due = pace.wait(&quit).unwrap().due;
            let after = (due - first).as_secs_f64();
            assert!((after - f64::from(number) / 1000.0).abs() < 1e-6, "{number}: {after}");
            assert!(due.elapsed() >= Duration::from_millis(99), "measured from the scheduled time");
        }
    }

    #[test]
    fn operations_never_start_early_and_load_end_interrupts_waits() {
        let (pace, quit) = (LoadSchedule::default(), AtomicBool::new(false));
        let began = Instant::now();
        pace.start(50.0);
        (0..6).for_each(|_| assert!(pace.wait(&quit).is_some()));
        assert!(began.elapsed() >= Duration::from_millis(99));
        // The next operation is due in a hundred seconds, which is late enough even on a slow machine.
        pace.start(0.01);
        assert!(pace.wait(&quit).is_some());
        quit.store(true, Relaxed);
        assert!(pace.wait(&quit).is_none());
    }

    #[test]
    fn incomplete_operations_are_not_counted() {
        let (pace, quit) = (LoadSchedule::default(), AtomicBool::new(false));
        pace.start(1000.0);
        let before = pace.wait(&quit).unwrap();
        pace.start(1000.0);
        for number in 0..300 {
            let turn = pace.wait(&quit).unwrap();
            if number % 2 == 0 {
                turn.complete();
            }
        }
        // This turn belongs to the old schedule.
        before.complete();
        let state = pace.state().unwrap();
        assert!(state.due >= 299 && state.not_completed == state.due - 150, "{state:?}");
        assert!(!state.kept_rate(), "{state:?}");
        assert!(
            OpenLoopBacklog { not_completed: state.due / 50, ..state }.not_completed as f64
                <= state.max_incomplete()
        );
    }

    #[test]
    fn a_new_rate_replaces_the_old_one_at_once() {
        let (pace, quit) = (LoadSchedule::default(), AtomicBool::new(false));
        assert!(pace.wait(&quit).is_some() && pace.state().is_none());
        pace.start(0.01);
        assert!(pace.wait(&quit).is_some());
        std::thread::scope(|scope| {
            // The second operation is due in a hundred seconds, unless the rate changes.
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
