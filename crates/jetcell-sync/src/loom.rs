//! Atomics and threads of `loom`, for modules that consist only of a few words of memory.
//!
//! Loom supports few threads and operations, and does not support `parking_lot`. Code that uses locks is tested under
//! shuttle.

pub use ::loom::sync::Arc;
pub use ::loom::thread_local;

/// Atomic integers that loom models with the orderings given in the code.
pub mod atomic {
    pub use ::loom::sync::atomic::*;
}

/// Threads of a loom model.
pub mod thread {
    pub use ::loom::thread::{JoinHandle, park, spawn, yield_now};
}
