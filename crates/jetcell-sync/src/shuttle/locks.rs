//! Mutex and read-write lock over shuttle's semaphore.
//!
//! Invariant: a semaphore is never closed, so taking permits cannot fail while an execution runs.

use lock_api::GuardNoSend;
use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

/// As in `parking_lot`.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// As in `parking_lot`.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// As in `parking_lot`.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// As in `parking_lot`.
pub type ArcRwLockReadGuard<R, T> = lock_api::ArcRwLockReadGuard<R, T>;
/// As in `parking_lot`.
pub type ArcRwLockWriteGuard<R, T> = lock_api::ArcRwLockWriteGuard<R, T>;

/// A semaphore of one permit.
#[derive(Debug)]
pub struct RawMutex(BatchSemaphore);

// SAFETY: `lock` and `try_lock` return (true) only with the only permit, and only `unlock` puts it back.
unsafe impl lock_api::RawMutex for RawMutex {
    #[expect(clippy::declare_interior_mutable_const, reason = "each lock starts as a copy of it")]
    const INIT: RawMutex = RawMutex(BatchSemaphore::const_new(1, Fairness::Unfair));
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        acquire(&self.0, 1);
    }

    fn try_lock(&self) -> bool {
        self.0.try_acquire(1).is_ok()
    }

    unsafe fn unlock(&self) {
        self.0.release(1);
    }
}

/// Permits of a read-write lock: one for a reader, all of them for a writer.
const READERS: usize = 1 << 16;

/// A semaphore with one permit for each reader. It is fair, so that a writer that waits keeps new readers out, as
/// `parking_lot` does: a thread that asks twice for the shared lock can deadlock, and the model shall see that.
#[derive(Debug)]
pub struct RawRwLock(BatchSemaphore);

// SAFETY: a writer holds all permits, so there is no reader and no other writer; each unlock returns what its lock took.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[expect(clippy::declare_interior_mutable_const, reason = "each lock starts as a copy of it")]
    const INIT: RawRwLock = RawRwLock(BatchSemaphore::const_new(READERS, Fairness::StrictlyFair));
    type GuardMarker = GuardNoSend;

    fn lock_shared(&self) {
        acquire(&self.0, 1);
    }

    fn try_lock_shared(&self) -> bool {
        self.0.try_acquire(1).is_ok()
    }

    unsafe fn unlock_shared(&self) {
        self.0.release(1);
    }

    fn lock_exclusive(&self) {
        acquire(&self.0, READERS);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.0.try_acquire(READERS).is_ok()
    }

    unsafe fn unlock_exclusive(&self) {
        self.0.release(READERS);
    }
}

fn acquire(semaphore: &BatchSemaphore, permits: usize) {
    let acquired = semaphore.acquire_blocking(permits);
    // Shuttle closes semaphores while it takes an execution down whose result is known.
    if acquired.is_err() && !std::thread::panicking() {
        panic!("the execution has ended");
    }
}
