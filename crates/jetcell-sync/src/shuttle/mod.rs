//! Primitives for models: after each operation, `shuttle` decides which thread runs next.
//!
//! Locks are built with `lock_api` on shuttle's semaphores and therefore have the same guards as `parking_lot`.
//! Shuttle does not model time; [`time`] describes the effect of a timed wait. The threads of a model are coroutines
//! in one system thread, so `thread_local!` must be shuttle's.

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

/// Atomic integers. Each operation is sequentially consistent and a scheduling point.
pub mod atomic {
    pub use shuttle::sync::atomic::*;
}
