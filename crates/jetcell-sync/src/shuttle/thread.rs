//! Threads of a model, as in `std::thread`.

use std::num::NonZero;
use std::time::Duration;

pub use shuttle::thread::{
    Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, panicking, park, scope, sleep,
    spawn, yield_now,
};

/// Returns at any time up to the end of `timeout`, as `std::thread::park_timeout` may. A token that becomes available
/// meanwhile stays for the next call, which is allowed as a spurious wake-up.
pub fn park_timeout(timeout: Duration) {
    super::time::pass(timeout, || false);
}

/// Two, so that work that is spread over processors is spread.
pub fn available_parallelism() -> std::io::Result<NonZero<usize>> {
    Ok(NonZero::new(2).expect("two"))
}

/// The place of the calling thread in the order in which the model's threads began.
pub fn ordinal() -> usize {
    current().id().into()
}
