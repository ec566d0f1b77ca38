//! Mutex and read-write lock based on shuttle's semaphore.
//!
//! Invariant: a semaphore is never closed, so acquiring permits cannot fail while an execution runs.

use lock_api::GuardNoSend;
use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

/// A mutex like `parking_lot`'s, for testing with `shuttle`.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// A mutex guard like `parking_lot`'s, for testing with `shuttle`.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A read-write lock like `parking_lot`'s, for testing with `shuttle`.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// An owned read guard like `parking_lot`'s, for testing with `shuttle`.
pub type ArcRwLockReadGuard<R, T> = lock_api::ArcRwLockReadGuard<R, T>;
/// An owned write guard like `parking_lot`'s, for testing with `shuttle`.
pub type ArcRwLockWriteGuard<R, T> = lock_api::ArcRwLockWriteGuard<R, T>;

/// A mutex implemented as a semaphore with one permit.
#[derive(Debug)]
pub struct RawMutex(BatchSemaphore);

// SAFETY: `lock` returns, and `try_lock` returns true, only after acquiring the single permit. Only `unlock` puts it
// back.
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

/// Number of permits of a read-write lock. A reader acquires one permit, and a writer acquires all of them.
const READERS: usize = 1 << 16;

/// A read-write lock implemented as a semaphore with one permit for each reader.
///
/// The semaphore is fair, so a waiting writer blocks new readers, as in `parking_lot`. A thread that acquires the
/// shared lock twice can therefore deadlock, and the model must detect that.
#[derive(Debug)]
pub struct RawRwLock(BatchSemaphore);

// SAFETY: a writer holds all permits, so there is neither a reader nor another writer; unlocking returns exactly the
// permits that locking acquired.
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
    // Shuttle closes semaphores while it tears down an execution whose result is already known.
    if acquired.is_err() && !std::thread::panicking() {
        panic!("the execution has ended");
    }
}
