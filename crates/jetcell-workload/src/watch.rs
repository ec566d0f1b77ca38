//! The counters of work that is running: a thread of the engine's user sets them, and another thread reads them.

use parking_lot::Mutex;

use crate::measurement::{BackupCounters, ReplayCounters};
use crate::observer::StopSignal;

/// The counters of a replay that is running; the thread that replays sets them, another one reads them.
#[derive(Debug, Default)]
pub struct ReplayWatch {
    counters: Mutex<ReplayCounters>,
    stop: StopSignal,
}

impl ReplayWatch {
    /// A watch that ends the replay early when `stop` is set.
    pub(crate) fn new(stop: StopSignal) -> ReplayWatch {
        ReplayWatch { counters: Mutex::default(), stop }
    }

    /// Sets the counters. Returns whether the replay is to continue.
    pub(crate) fn update(&self, counters: ReplayCounters) -> bool {
        *self.counters.lock() = counters;
        !self.stop.is_set()
    }

    /// The counters at this time.
    pub(crate) fn counters(&self) -> ReplayCounters {
        self.counters.lock().clone()
    }
}

/// The counters of a backup that is running; the thread that reads sets them, another one watches.
#[derive(Debug, Default)]
pub struct BackupWatch {
    counters: Mutex<BackupCounters>,
    stop: StopSignal,
}

impl BackupWatch {
    /// A watch that ends the backup early when `stop` is set.
    pub(crate) fn new(stop: StopSignal) -> BackupWatch {
        BackupWatch { counters: Mutex::default(), stop }
    }

    /// Sets the counters. Returns whether the backup is to continue.
    pub(crate) fn update(&self, change: impl FnOnce(&mut BackupCounters)) -> bool {
        change(&mut self.counters.lock());
        !self.stop.is_set()
    }

    /// The counters at this time.
    pub(crate) fn counters(&self) -> BackupCounters {
        self.counters.lock().clone()
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.counters.lock().bytes
    }
}
