//! Primitives of production builds.

use std::time::{Duration, Instant};

pub use parking_lot::{
    ArcRwLockReadGuard, ArcRwLockWriteGuard, Condvar, Mutex, MutexGuard, RawRwLock, RwLock, WaitTimeoutResult,
};
pub use std::sync::{Arc, LazyLock, OnceLock, Weak, mpsc};
pub use std::thread_local;

/// Atomic integers, as in `std::sync::atomic`.
pub mod atomic {
    pub use std::sync::atomic::*;
}

/// Threads, as in `std::thread`.
pub mod thread {
    use std::sync::atomic::{AtomicUsize, Ordering};
    pub use std::thread::*;

    /// Returns a number for the calling thread. Threads are numbered in the order in which they first call this
    /// function.
    #[inline]
    pub fn ordinal() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed));
        OWN.with(|own| *own)
    }
}

/// The deadline for a timed wait that may be interrupted and must then be resumed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Creates a deadline that is `timeout` from now.
    pub fn after(timeout: Duration) -> Deadline {
        Deadline(Instant::now() + timeout)
    }

    /// Returns the time until the deadline, or zero if it has passed.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
