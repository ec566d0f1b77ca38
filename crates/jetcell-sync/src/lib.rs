//! Locks, condition variables, atomics and threads of Jetcell: one place, so that tests can put a scheduler below them.

#![forbid(unsafe_code)]

pub use parking_lot::{
    ArcRwLockReadGuard, ArcRwLockWriteGuard, Condvar, Mutex, MutexGuard, RawRwLock, RwLock, WaitTimeoutResult,
};
pub use std::sync::{Arc, LazyLock, OnceLock, Weak, mpsc};

/// Atomic integers, as in `std::sync::atomic`.
pub mod atomic {
    pub use std::sync::atomic::*;
}

/// Threads, as in `std::thread`.
pub mod thread {
    pub use std::thread::*;
}
