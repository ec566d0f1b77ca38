//! Threads of a model, as in `std::thread`.

use std::num::NonZero;
use std::time::Duration;

pub use shuttle::thread::{
    Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, panicking, park, scope, sleep,
    spawn, yield_now,
};

/// Parks the thread, and returns at any time until `timeout` has passed, as `std::thread::park_timeout` may. A token
/// that becomes available during the wait remains for the next call, which is allowed as a spurious wake-up.
pub fn park_timeout(timeout: Duration) {
    super::time::pass(timeout, || false);
}

/// Returns two, so code that distributes work over processors also does so in the model.
pub fn available_parallelism() -> std::io::Result<NonZero<usize>> {
    Ok(NonZero::new(2).expect("two"))
}

/// Returns a number for the calling thread. The model's threads are numbered in the order in which they were started.
pub fn ordinal() -> usize {
    current().id().into()
}
