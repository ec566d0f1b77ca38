//! The signal that wakes and stops the cleaner thread.

use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Condvar, Mutex};

/// Maximum time that the cleaner sleeps before it checks for work without a notification.
const MAX_SLEEP: Duration = Duration::from_millis(500);

/// Signal that wakes or stops the cleaner thread.
#[derive(Default)]
pub(in crate::cache) struct CleanerSignal {
    work: AtomicBool,
    stop: AtomicBool,
    asleep: Mutex<()>,
    notified: Condvar,
}

impl CleanerSignal {
    /// Notifies the cleaner that there may be work. This costs only one load if the previous notification is still
    /// pending.
    pub fn notify(&self) {
        if !self.work.load(Ordering::Relaxed) && !self.work.swap(true, Ordering::AcqRel) {
            let _asleep = self.asleep.lock();
            self.notified.notify_all();
        }
    }

    /// Takes a pending notification without waiting. Returns false if no notification is pending.
    #[cfg(test)]
    pub fn take_notification(&self) -> bool {
        self.work.swap(false, Ordering::AcqRel)
    }

    /// Resets the stop flag, which allows [`CleanerSignal::wait`] to return `true` again.
    pub fn start(&self) {
        self.stop.store(false, Ordering::Release);
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _asleep = self.asleep.lock();
        self.notified.notify_all();
    }

    /// Waits for a notification. Returns false if the thread must stop.
    pub fn wait(&self) -> bool {
        let mut asleep = self.asleep.lock();
        if !self.stop.load(Ordering::Acquire) && !self.work.load(Ordering::Acquire) {
            self.notified.wait_for(&mut asleep, MAX_SLEEP);
        }
        self.work.store(false, Ordering::Release);
        !self.stop.load(Ordering::Acquire)
    }
}
