//! Time in a model. Time passes only in timed waits.
//!
//! A timed wait lasts until it is notified or until a random number of scheduling steps has passed. When the wait
//! times out, the clock advances to the end of the timeout. Therefore every timed wait ends, and both early and late
//! ends are tested. A schedule includes the random numbers, so it reproduces an execution.

use std::cell::Cell;
use std::time::Duration;

use shuttle::rand::Rng;

/// Maximum number of scheduling steps in a timed wait.
const STEPS: u32 = 12;

std::thread_local! {
    // All threads of an execution run on one system thread.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets other threads run until `is_over` returns true or the timeout has passed. Returns true if the timeout has
/// passed.
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

/// The deadline for a timed wait that may be interrupted and must then be resumed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Duration);

impl Deadline {
    /// Creates a deadline that is `timeout` from now.
    pub fn after(timeout: Duration) -> Deadline {
        Deadline(NOW.get().saturating_add(timeout))
    }

    /// Returns the time until the deadline, or zero if it has passed.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_sub(NOW.get())
    }
}
