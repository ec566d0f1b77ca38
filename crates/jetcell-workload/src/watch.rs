//! Counters of running work. The working thread sets them, and another thread reads them.

use jetcell_host::Cancellation;
use parking_lot::Mutex;

use crate::measurement::{BackupCounters, ReplayCounters};

/// Counters for a running replay, shared between threads. The replaying thread sets them, and another thread reads
/// them.
#[derive(Debug, Default)]
pub struct ReplayWatch {
    counters: Mutex<ReplayCounters>,
    stop: Cancellation,
}

impl ReplayWatch {
    /// Creates a watch that stops the replay early when `stop` is set.
    pub(crate) fn new(stop: Cancellation) -> ReplayWatch {
        ReplayWatch { counters: Mutex::default(), stop }
    }

    /// Sets the counters. Returns true if the replay should continue.
    pub(crate) fn update(&self, counters: ReplayCounters) -> bool {
        *self.counters.lock() = counters;
        !self.stop.is_cancelled()
    }

    /// Returns the current counters.
    pub(crate) fn counters(&self) -> ReplayCounters {
        self.counters.lock().clone()
    }
}

/// Counters for a running backup, shared between threads. The reading thread sets them, and another thread reads
/// them.
#[derive(Debug, Default)]
pub struct BackupWatch {
    counters: Mutex<BackupCounters>,
    stop: Cancellation,
}

impl BackupWatch {
    /// Creates a watch that stops the backup early when `stop` is set.
    pub(crate) fn new(stop: Cancellation) -> BackupWatch {
        BackupWatch { counters: Mutex::default(), stop }
    }

    /// Updates the counters. Returns true if the backup should continue.
    pub(crate) fn update(&self, change: impl FnOnce(&mut BackupCounters)) -> bool {
        change(&mut self.counters.lock());
        !self.stop.is_cancelled()
    }

    /// Returns the current counters.
    pub(crate) fn counters(&self) -> BackupCounters {
        self.counters.lock().clone()
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.counters.lock().bytes
    }
}
