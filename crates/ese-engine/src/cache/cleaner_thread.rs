//! The optional background thread that calls [`Cache::clean_step`].

use jetcell_sync::{Arc, Weak, thread};
use jetcell_vfs::abort_on_panic;

use super::Cache;
use crate::{Error, Result};

impl Cache {
    /// Starts the cleaner thread, which calls [`Cache::clean_step`] when frames run low. Does nothing if the thread
    /// is already running.
    pub fn start_threads(self: &Arc<Self>) -> Result<()> {
        let mut cleaner = self.cleaner.lock();
        if cleaner.is_none() {
            self.shared.cleaner_signal.start();
            let (cache, shared) = (Arc::downgrade(self), self.shared.clone());
            let run = move || {
                while shared.cleaner_signal.wait() {
                    clean(&cache);
                }
            };
            let run = || abort_on_panic(run);
            let thread = thread::Builder::new().name("cache-cleaner".into()).spawn(run);
            *cleaner = Some(thread.map_err(|error| Error::io("cache-cleaner", &error))?);
        }
        Ok(())
    }

    /// Stops the cleaner thread and waits until it has ended. The cache also works without this thread.
    pub fn shutdown(&self) {
        self.shared.cleaner_signal.stop();
        if let Some(thread) = self.cleaner.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // The cleaner thread itself may drop the last reference, so it is not joined here.
        self.shared.cleaner_signal.stop();
    }
}

/// Calls [`Cache::clean_step`] until nothing is left to do. Errors are ignored here: the next session that needs a
/// frame repeats the work and gets the error.
fn clean(cache: &Weak<Cache>) {
    while let Some(cache) = cache.upgrade() {
        if !matches!(cache.clean_step(), Ok(1..)) {
            return;
        }
    }
}
