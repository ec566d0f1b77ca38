//! Memory for requests and replies, with one limit for all connections of a server.
//!
//! Each connection has a share that it may always use and that is enough for common requests. A request that needs
//! more takes the rest from a pool, in the order in which connections ask. Two rules ensure progress:
//!
//! - A connection asks for all of the memory that a request needs at once, and holds no memory from the pool while it
//!   waits for the pool.
//! - If a connection holds memory from the pool while it waits for its client, and other connections need the memory,
//!   the connection is closed after a time limit.

use std::cell::Cell;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::protocol::MAX_MESSAGE;

/// Maximum and minimum share of a connection, in bytes.
const MAX_SHARE: usize = 1 << 20;
const MIN_SHARE: usize = 16 << 10;
/// Maximum size of the input buffer of a connection, in bytes. The buffer is a quarter of the share.
const MAX_INPUT: usize = 256 << 10;
/// Granularity of memory from the pool, in bytes. It is large, which makes requests to the pool rare.
const POOL_GRANULARITY: usize = 1 << 20;

/// The memory budget shared by all connections to an NBD server.
pub struct ServerMemory {
    share: usize,
    pool: Mutex<SharedMemoryPool>,
    changed: Condvar,
}

struct SharedMemoryPool {
    free: usize,
    /// Number to be assigned to the next connection that waits for the pool. `turn` is the number of the connection
    /// whose turn it is.
    next: u64,
    turn: u64,
}

impl ServerMemory {
    /// Creates memory for this number of connections. The pool always has enough for the largest request.
    pub fn new(bytes: usize, connections: usize) -> ServerMemory {
        let share = (bytes / 2 / connections.max(1)).clamp(MIN_SHARE, MAX_SHARE);
        let pool =
            bytes.saturating_sub(share.saturating_mul(connections)) / POOL_GRANULARITY * POOL_GRANULARITY;
        let free = pool.max(MAX_MESSAGE.next_multiple_of(POOL_GRANULARITY));
        ServerMemory {
            share,
            pool: Mutex::new(SharedMemoryPool { free, next: 0, turn: 0 }),
            changed: Condvar::new(),
        }
    }

    fn pool(&self) -> MutexGuard<'_, SharedMemoryPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of unused bytes in the pool.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.pool().free
    }

    /// Returns the number of connections that wait for the pool.
    pub fn waiting(&self) -> u64 {
        let pool = self.pool();
        pool.next - pool.turn
    }
}

/// Memory used by one NBD connection.
pub struct ConnectionMemory<'server> {
    memory: &'server ServerMemory,
    /// Number of bytes from the pool.
    taken: Cell<usize>,
    /// Total time spent waiting for the client since the connection took memory from the pool.
    waited: Cell<Duration>,
    /// Maximum of `add_wait` while other connections need the memory.
    max_wait: Duration,
}

impl<'server> ConnectionMemory<'server> {
    pub fn new(memory: &'server ServerMemory, patience: Duration) -> ConnectionMemory<'server> {
        ConnectionMemory {
            memory,
            taken: Cell::new(0),
            waited: Cell::new(Duration::ZERO),
            max_wait: patience,
        }
    }

    /// Returns the size of the input buffer in bytes.
    pub fn input_bytes(&self) -> usize {
        (self.memory.share / 4).min(MAX_INPUT)
    }

    /// Returns the number of bytes that the connection's requests and replies may currently use.
    pub fn available(&self) -> usize {
        self.memory.share - self.input_bytes() + self.taken.get()
    }

    fn lacking(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.available()).next_multiple_of(POOL_GRANULARITY)
    }

    /// Allows the connection to use this number of bytes if that is possible without waiting.
    pub fn try_allow(&self, bytes: usize) -> bool {
        let lacking = self.lacking(bytes);
        if lacking == 0 {
            return true;
        }
        let mut pool = self.memory.pool();
        let is_possible = pool.next == pool.turn && lacking <= pool.free;
        if is_possible {
            pool.free -= lacking;
            self.take(lacking);
        }
        is_possible
    }

    /// Allows the connection to use this number of bytes, at most [`MAX_MESSAGE`], and waits if necessary. The
    /// connection must not hold memory from the pool.
    pub fn allow(&self, bytes: usize) {
        debug_assert!(self.taken.get() == 0 && bytes <= MAX_MESSAGE);
        if self.try_allow(bytes) {
            return;
        }
        let lacking = self.lacking(bytes);
        let mut pool = self.memory.pool();
        let number = pool.next;
        pool.next += 1;
        while pool.turn != number || lacking > pool.free {
            pool = self.memory.changed.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.turn += 1;
        pool.free -= lacking;
        drop(pool);
        self.memory.changed.notify_all();
        self.take(lacking);
    }

    fn take(&self, bytes: usize) {
        if self.taken.get() == 0 {
            self.waited.set(Duration::ZERO);
        }
        self.taken.set(self.taken.get() + bytes);
    }

    /// Returns all of the connection's pool memory to the pool.
    pub fn release(&self) {
        let taken = self.taken.take();
        if taken > 0 {
            self.memory.pool().free += taken;
            self.memory.changed.notify_all();
        }
    }

    /// Returns true if the connection holds memory that others may need. In that case, waits for its client must be
    /// interrupted regularly.
    pub fn is_watched(&self) -> bool {
        self.taken.get() > 0
    }

    /// Adds a wait for the client to the total.
    ///
    /// # Errors
    /// Returns an error if the client takes too long while other connections need the memory.
    pub fn add_wait(&self, time: Duration) -> io::Result<()> {
        if !self.is_watched() {
            return Ok(());
        }
        self.waited.set(self.waited.get() + time);
        if self.waited.get() > self.max_wait && self.memory.waiting() > 0 {
            return Err(io::Error::other(
                "the client is too slow, and other clients need the memory of its requests",
            ));
        }
        Ok(())
    }
}

impl Drop for ConnectionMemory<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn connection_shares_and_the_pool_stay_within_the_bound() {
        for (bytes, connections) in [(256 << 20, 64), (256 << 20, 4096), (128 << 20, 1)] {
            let memory = ServerMemory::new(bytes, connections);
            assert!(memory.share * connections + memory.free() <= bytes, "{bytes} {connections}");
            assert!(memory.share >= MIN_SHARE && memory.free() >= MAX_MESSAGE);
            let connection = ConnectionMemory::new(&memory, LONG);
            assert_eq!(connection.available() + connection.input_bytes(), memory.share);
        }
        // There is always room for the largest request.
        assert!(ServerMemory::new(0, 0).free() >= MAX_MESSAGE);
    }

    #[test]
    fn large_requests_wait_in_order_and_small_requests_never_wait() {
        let memory = ServerMemory::new(2 * MAX_MESSAGE, 8);
        let first = ConnectionMemory::new(&memory, LONG);
        assert!(first.try_allow(MAX_MESSAGE));
        let rest = ConnectionMemory::new(&memory, LONG);
        let share = rest.available();
        assert!(rest.try_allow(memory.free() + share) && memory.free() == 0);
        let order = AtomicUsize::new(0);
        thread::scope(|scope| {
            for place in 0..3 {
                let (memory, order) = (&memory, &order);
                scope.spawn(move || {
                    let other = ConnectionMemory::new(memory, LONG);
                    other.allow(MAX_MESSAGE);
                    assert_eq!(order.fetch_add(1, Ordering::SeqCst), place);
                });
                let began = Instant::now();
                while memory.waiting() <= place as u64 {
                    assert!(began.elapsed() < LONG);
                    thread::yield_now();
                }
            }
            let small = ConnectionMemory::new(&memory, LONG);
            assert!(small.try_allow(share) && !small.try_allow(share + 1));
            // A new request does not overtake those that are already waiting.
            rest.release();
            assert!(!small.try_allow(share + 1));
            first.release();
        });
        assert_eq!(order.into_inner(), 3);
        assert!(memory.free() >= MAX_MESSAGE && memory.waiting() == 0);
    }

    #[test]
    fn a_slow_client_is_dropped_only_under_memory_pressure() {
        let memory = ServerMemory::new(0, 1);
        let slow = ConnectionMemory::new(&memory, Duration::from_secs(10));
        slow.allow(MAX_MESSAGE);
        slow.add_wait(LONG).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| ConnectionMemory::new(&memory, LONG).allow(MAX_MESSAGE));
            let began = Instant::now();
            while memory.waiting() == 0 {
                assert!(began.elapsed() < LONG);
                thread::yield_now();
            }
            assert!(slow.add_wait(Duration::ZERO).is_err());
            slow.release();
            slow.add_wait(LONG).unwrap();
        });
    }
}
