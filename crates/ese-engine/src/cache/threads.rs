//! The optional thread that keeps the pool of available frames filled.

use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Condvar, Mutex, Weak, thread};
use jetcell_vfs::abort_on_panic;

use super::Cache;
use crate::{Error, Result};

/// A cleaner that missed nothing still looks after this long.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Wakes the cleaner.
#[derive(Default)]
pub(super) struct Wake {
    work: AtomicBool,
    stop: AtomicBool,
    asleep: Mutex<()>,
    bell: Condvar,
}

impl Wake {
    /// There may be work. Costs one load while the last call has not been answered.
    pub fn ring(&self) {
        if !self.work.load(Ordering::Relaxed) && !self.work.swap(true, Ordering::AcqRel) {
            let _asleep = self.asleep.lock();
            self.bell.notify_all();
        }
    }

    /// Whether there was a call since the last answer.
    #[cfg(test)]
    pub fn answer(&self) -> bool {
        self.work.swap(false, Ordering::AcqRel)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _asleep = self.asleep.lock();
        self.bell.notify_all();
    }

    /// `false` when it is time to stop.
    fn wait(&self) -> bool {
        let mut asleep = self.asleep.lock();
        if !self.stop.load(Ordering::Acquire) && !self.work.load(Ordering::Acquire) {
            self.bell.wait_for(&mut asleep, LONGEST_SLEEP);
        }
        self.work.store(false, Ordering::Release);
        !self.stop.load(Ordering::Acquire)
    }
}

impl Cache {
    /// Starts the cleaner, which calls [`Cache::clean_step`] when frames run low. Does nothing if it runs.
    pub fn start_threads(self: &Arc<Self>) -> Result<()> {
        let mut cleaner = self.cleaner.lock();
        if cleaner.is_none() {
            self.books.wake.stop.store(false, Ordering::Release);
            let (cache, books) = (Arc::downgrade(self), self.books.clone());
            let run = move || {
                while books.wake.wait() {
                    clean(&cache);
                }
            };
            let run = || abort_on_panic(run);
            let thread = thread::Builder::new().name("cache-cleaner".into()).spawn(run);
            *cleaner = Some(thread.map_err(|error| Error::io("cache-cleaner", &error))?);
        }
        Ok(())
    }

    /// Stops the cleaner and waits for it. The cache works on without.
    pub fn shutdown(&self) {
        self.books.wake.stop();
        if let Some(thread) = self.cleaner.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // The cleaner may be the one who drops the last reference, so it is not joined here.
        self.books.wake.stop();
    }
}

/// Works until there is nothing to do now. A failure leaves the work to sessions, who get the error.
fn clean(cache: &Weak<Cache>) {
    while let Some(cache) = cache.upgrade() {
        if !matches!(cache.clean_step(), Ok(1..)) {
            return;
        }
    }
}
