//! Condition variables with timed waits, for the guards of [`super::Mutex`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

use super::{Mutex, MutexGuard, time};

/// A condition variable like `parking_lot::Condvar`. Threads are woken in the order in which they started to wait.
///
/// Invariant: a thread is queued before it releases the mutex, and stays queued until it is notified or its wait
/// times out.
pub struct Condvar {
    // A primitive from the standard library, which is never held across a scheduling point.
    waiters: std::sync::Mutex<VecDeque<Arc<Waiter>>>,
}

struct Waiter {
    notified: AtomicBool,
    wake: BatchSemaphore,
}

/// Result of a timed wait: true if the wait timed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns true if the wait timed out.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable without waiting threads.
    pub const fn new() -> Condvar {
        Condvar { waiters: std::sync::Mutex::new(VecDeque::new()) }
    }

    /// Releases the mutex and waits for a notification.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waiter = self.enqueue();
        MutexGuard::unlocked(guard, || {
            // An error means that the execution is ending.
            let _ = waiter.wake.acquire_blocking(1);
        });
    }

    /// Releases the mutex and waits for a notification or until `timeout` has passed.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        let waiter = self.enqueue();
        let timed_out = MutexGuard::unlocked(guard, || {
            let timed_out = time::pass(timeout, || waiter.notified.load(Ordering::SeqCst));
            if timed_out {
                self.queue().retain(|other| !Arc::ptr_eq(other, &waiter));
            }
            timed_out
        });
        WaitTimeoutResult(timed_out)
    }

    /// Waits while `condition` returns true.
    pub fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits while `condition` returns true, or until `timeout` has passed.
    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        let end = super::Deadline::after(timeout);
        while condition(guard) {
            if self.wait_for(guard, end.remaining()).timed_out() {
                return WaitTimeoutResult(condition(guard));
            }
        }
        WaitTimeoutResult(false)
    }

    /// Wakes the thread that has waited longest. Returns false if no thread waits.
    pub fn notify_one(&self) -> bool {
        scheduling_point();
        let first = self.queue().pop_front();
        first.iter().for_each(|waiter| waiter.notify());
        first.is_some()
    }

    /// Wakes all waiting threads. Returns the number of threads that were woken.
    pub fn notify_all(&self) -> usize {
        scheduling_point();
        let all = std::mem::take(&mut *self.queue());
        all.iter().for_each(|waiter| waiter.notify());
        all.len()
    }

    fn enqueue(&self) -> Arc<Waiter> {
        // A notification between checking the condition and waiting is lost.
        scheduling_point();
        let waiter = Arc::new(Waiter {
            notified: AtomicBool::new(false),
            wake: BatchSemaphore::const_new(0, Fairness::Unfair),
        });
        self.queue().push_back(waiter.clone());
        waiter
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Waiter>>> {
        self.waiters.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Waiter {
    fn notify(&self) {
        self.notified.store(true, Ordering::SeqCst);
        self.wake.release(1);
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl std::fmt::Debug for Condvar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Condvar")
    }
}

fn scheduling_point() {
    // Locking a mutex that no other thread can access is a scheduling point but not a yield, so PCT keeps the
    // thread's priority.
    drop(Mutex::new(()).lock());
}
