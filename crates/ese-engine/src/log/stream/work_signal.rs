//! Signals that the log has background work, by waking either a waiting thread or a task.

use std::time::Duration;

use jetcell_sync::{Condvar, Mutex, OnceLock};

/// Wakes a task. Must not wait, and must not call the log.
pub(crate) type WakeCallback = Box<dyn Fn() + Send + Sync>;

/// Signal for one kind of work.
#[derive(Default)]
pub(in crate::log) struct WorkSignal {
    waiting: Condvar,
    task: OnceLock<WakeCallback>,
}

impl WorkSignal {
    /// Wakes the task or a thread.
    pub fn notify(&self) {
        match self.task.get() {
            Some(wake) => wake(),
            None => drop(self.waiting.notify_one()),
        }
    }

    /// Sets a task to be woken instead of a thread. Can be set only once.
    pub fn set(&self, task: WakeCallback) {
        let _ = self.task.set(task);
    }

    /// Waits until there is work. Returns `false` on timeout.
    pub fn wait<T>(&self, state: &Mutex<T>, timeout: Duration, is_there: impl Fn(&T) -> bool) -> bool {
        let mut state = state.lock();
        if !is_there(&state) {
            self.waiting.wait_for(&mut state, timeout);
        }
        is_there(&state)
    }
}
