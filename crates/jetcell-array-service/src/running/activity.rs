//! Activities that run at the same time as operations on an array in use.

use jetcell_sync::Mutex;
use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Activities that run concurrently with operations on an array in use.
#[derive(Default)]
pub struct ConcurrentActivity {
    /// LUNs that are in use.
    pub luns: Vec<String>,
    /// Maximum rate in bytes per second of the rebuild that is running, or of the next one.
    pub rate: Mutex<Option<u64>>,
    /// Number of rows that rebuilds could not recover.
    pub rows_lost: AtomicU64,
    is_scrubbing: AtomicBool,
}

impl ConcurrentActivity {
    pub fn with_luns(luns: Vec<String>) -> ConcurrentActivity {
        ConcurrentActivity { luns, ..ConcurrentActivity::default() }
    }

    /// Reserves the array for a scrub until the returned guard is dropped. Returns `None` if another scrub is
    /// running.
    pub fn begin_scrub(&self) -> Option<ScrubGuard<'_>> {
        (!self.is_scrubbing.swap(true, Ordering::SeqCst)).then_some(ScrubGuard(self))
    }
}

/// A guard that ensures that only one scrub of an array runs at a time.
pub struct ScrubGuard<'a>(&'a ConcurrentActivity);

impl Drop for ScrubGuard<'_> {
    fn drop(&mut self) {
        self.0.is_scrubbing.store(false, Ordering::SeqCst);
    }
}
