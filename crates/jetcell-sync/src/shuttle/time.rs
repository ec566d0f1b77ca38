//! Time of a model: it passes only in timed waits.
//!
//! A timed wait lasts for a number of scheduling steps that the execution's random numbers choose, or until it is
//! notified; then the clock has moved to its end. So each timed wait ends, early and late ones are both tried, and an
//! execution is repeated by its schedule, which has the random numbers in it.

use std::cell::Cell;
use std::time::Duration;

use shuttle::rand::Rng;

/// Steps that a timed wait lets others make, at most.
const STEPS: u32 = 12;

std::thread_local! {
    // All threads of an execution run in one thread of the system.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets others run until `is_over` or the time is up. Returns whether the time is up.
pub(super) fn pass(timeout: Duration, is_over: impl Fn() -> bool) -> bool {
    let end = Deadline::after(timeout);
    let steps = shuttle::rand::thread_rng().gen_range(0..=STEPS);
    for _ in 0..steps {
        if is_over() {
            return false;
        }
        shuttle::thread::yield_now();
    }
    if is_over() {
        return false;
    }
    NOW.set(NOW.get().max(end.0));
    true
}

/// The moment at which a timed wait ends, for waits that may be interrupted and have to go on.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Duration);

impl Deadline {
    /// The moment that is `timeout` from now.
    pub fn after(timeout: Duration) -> Deadline {
        Deadline(NOW.get().saturating_add(timeout))
    }

    /// The time until then; zero once it has come.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_sub(NOW.get())
    }
}
