//! Counters of transfers and active writers, on which threads can wait.

use jetcell_sync::{Condvar, Mutex};

/// Counts transfers in flight and active writers.
#[derive(Default)]
pub(in crate::cache) struct InFlightCounter {
    state: Mutex<InFlightState>,
    ended: Condvar,
}

#[derive(Default)]
struct InFlightState {
    count: usize,
    closed: bool,
}

/// An active writer. It is counted until this value is dropped.
pub(in crate::cache) struct ActiveWriter<'a>(&'a InFlightCounter);

impl Drop for ActiveWriter<'_> {
    fn drop(&mut self) {
        self.0.end(1);
    }
}

impl InFlightCounter {
    pub fn begin(&self, count: usize) {
        self.state.lock().count += count;
    }

    /// Removes `count` transfers or writers from the count and returns the new value.
    pub fn end(&self, count: usize) -> usize {
        let mut state = self.state.lock();
        state.count -= count;
        self.ended.notify_all();
        state.count
    }

    /// Registers an active writer. Returns `None` if writers are no longer admitted.
    pub fn enter(&self) -> Option<ActiveWriter<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.count += 1;
        Some(ActiveWriter(self))
    }

    /// Stops admitting writers. Active writers continue, and may start transfers.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    pub fn count(&self) -> usize {
        self.state.lock().count
    }

    /// Waits until the counter is zero. Must not be called with a latch held.
    pub fn wait(&self) {
        self.wait_below(1);
    }

    /// Waits until the counter is less than `limit`. Must not be called with a latch held.
    pub fn wait_below(&self, limit: usize) {
        let mut state = self.state.lock();
        while state.count >= limit {
            self.ended.wait(&mut state);
        }
    }
}
