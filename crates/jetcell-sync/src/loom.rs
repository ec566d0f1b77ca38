//! Atomics and threads of `loom`, for modules that are nothing but a few words of memory.
//!
//! Loom allows few threads and operations, and knows no `parking_lot`: what locks is tested under shuttle.

pub use ::loom::sync::Arc;
pub use ::loom::thread_local;

/// Atomic integers with the orderings that they are used with.
pub mod atomic {
    pub use ::loom::sync::atomic::*;
}

/// Threads of a loom model.
pub mod thread {
    pub use ::loom::thread::{JoinHandle, park, spawn, yield_now};
}
