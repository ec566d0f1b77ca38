//! Threads of a model, as in `std::thread`.

use std::num::NonZero;
use std::time::Duration;

pub use shuttle::thread::{
    Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, panicking, park, scope, sleep,
    spawn, yield_now,
};

/// Returns at any time up to the end of `timeout`, as `std::thread::park_timeout` may. A token that becomes available
/// during the wait remains for the next call, which is allowed as a spurious wake-up.
pub fn park_timeout(timeout: Duration) {
    super::time::pass(timeout, || false);
}

/// Returns two, so code that distributes work over processors does so in the model.
pub fn available_parallelism() -> std::io::Result<NonZero<usize>> {
    Ok(NonZero::new(2).expect("two"))
}

/// Returns the number of the calling thread, in the order in which the model's threads were started.
pub fn ordinal() -> usize {
    current().id().into()
}
