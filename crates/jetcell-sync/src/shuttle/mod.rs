//! The primitives of a model: `shuttle` decides after each operation which thread goes on.
//!
//! Locks are `lock_api` over shuttle's semaphores, so that they have the guards of `parking_lot`. Shuttle has no time:
//! see [`time`] for what a timed wait does. Threads of a model are coroutines of one thread of the system, so
//! `thread_local!` must be shuttle's.

mod condvar;
mod locks;
pub mod thread;
mod time;

pub use shuttle::sync::mpsc;
pub use shuttle::thread_local;
pub use std::sync::{Arc, LazyLock, OnceLock, Weak};

pub use condvar::{Condvar, WaitTimeoutResult};
pub use locks::{ArcRwLockReadGuard, ArcRwLockWriteGuard, Mutex, MutexGuard, RawRwLock, RwLock};
pub use time::Deadline;

/// Atomic integers; each operation is sequentially consistent and a scheduling point.
pub mod atomic {
    pub use shuttle::sync::atomic::*;
}
