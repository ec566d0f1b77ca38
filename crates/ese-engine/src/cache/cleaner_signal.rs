//! Wakes and stops the cleaner thread.

use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Condvar, Mutex};

/// The cleaner looks for work after this long even without a notification.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// What the cleaner thread waits for.
#[derive(Default)]
pub(super) struct CleanerSignal {
    work: AtomicBool,
    stop: AtomicBool,
    asleep: Mutex<()>,
    notified: Condvar,
}

impl CleanerSignal {
    /// There may be work. Costs one load if the last notification has not been taken yet.
    pub fn notify(&self) {
        if !self.work.load(Ordering::Relaxed) && !self.work.swap(true, Ordering::AcqRel) {
            let _asleep = self.asleep.lock();
            self.notified.notify_all();
        }
    }

    /// Takes a notification without waiting. `false`: there was none.
    #[cfg(test)]
    pub fn take_notification(&self) -> bool {
        self.work.swap(false, Ordering::AcqRel)
    }

    /// Allows [`CleanerSignal::wait`] to return `true` again after a stop.
    pub fn start(&self) {
        self.stop.store(false, Ordering::Release);
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _asleep = self.asleep.lock();
        self.notified.notify_all();
    }

    /// Waits for a notification. `false`: the thread must stop.
    pub fn wait(&self) -> bool {
        let mut asleep = self.asleep.lock();
        if !self.stop.load(Ordering::Acquire) && !self.work.load(Ordering::Acquire) {
            self.notified.wait_for(&mut asleep, LONGEST_SLEEP);
        }
        self.work.store(false, Ordering::Release);
        !self.stop.load(Ordering::Acquire)
    }
}
