//! The rate of a backup or a restore, its progress, and its cancellation.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use jetcell_vfs::{Cancel, Clock, Pacer};

use crate::error::{BackupError, Result};

/// How far the work has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done, those of an earlier call that is continued included.
    pub done: u64,
    /// Bytes in all, as far as is known.
    pub total: u64,
    /// Bytes done by this call.
    pub moved: u64,
}

/// Receives the progress, often and from several threads.
type ProgressFn = dyn Fn(Progress) + Send + Sync;

/// Rate, progress and cancellation.
#[derive(Clone, Default)]
pub struct Pace {
    /// Most bytes per second. `None`: no limit.
    pub rate: Option<u64>,
    /// Ends the work early.
    pub cancel: Cancel,
    /// Receives the progress.
    pub progress: Option<Arc<ProgressFn>>,
}

/// The pace of work that is going on.
pub(crate) struct Gauge {
    pace: Pace,
    pacer: Pacer,
    skipped: AtomicU64,
    moved: AtomicU64,
    total: AtomicU64,
    /// A part of the work has failed, so the others end.
    failed: AtomicBool,
}

impl Gauge {
    pub fn new(pace: Pace, clock: Arc<dyn Clock>) -> Gauge {
        let [skipped, moved, total] = [0; 3].map(AtomicU64::new);
        let failed = AtomicBool::new(false);
        Gauge { pace, pacer: Pacer::new(clock), skipped, moved, total, failed }
    }

    /// More bytes are to be done.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes need not be moved.
    pub fn skip(&self, bytes: u64) {
        self.skipped.fetch_add(bytes, Ordering::Relaxed);
        self.report();
    }

    /// Waits until bytes may be moved, and counts them. An error if the end was asked for.
    pub fn take(&self, bytes: u64) -> Result<()> {
        self.check()?;
        if let Some(rate) = self.pace.rate {
            self.pacer.wait(Pacer::time_of(bytes, rate), || self.ends());
            self.check()?;
        }
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.report();
        Ok(())
    }

    /// Ends the parts of the work that run in other threads.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// An error if the end was asked for, or another part of the work has failed.
    pub fn check(&self) -> Result<()> {
        if self.ends() { Err(BackupError::Stopped) } else { Ok(()) }
    }

    fn ends(&self) -> bool {
        self.pace.cancel.is_cancelled() || self.failed.load(Ordering::Relaxed)
    }

    /// Bytes done by this call.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn report(&self) {
        let Some(progress) = &self.pace.progress else { return };
        let moved = self.moved.load(Ordering::Relaxed);
        let done = moved + self.skipped.load(Ordering::Relaxed);
        progress(Progress { done, moved, total: self.total.load(Ordering::Relaxed).max(done) });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jetcell_vfs::{SimVfs, Vfs};

    use super::*;

    #[test]
    fn the_rate_is_kept_and_the_end_is_seen() {
        let clock = SimVfs::new().clock();
        let cancel = Cancel::default();
        let pace = Pace { rate: Some(1000), cancel: cancel.clone(), progress: None };
        let gauge = Gauge::new(pace, clock.clone());
        for _ in 0..5 {
            gauge.take(500).unwrap();
        }
        // The last bytes may still be on their way.
        assert_eq!(clock.monotonic(), Duration::from_secs(2));
        cancel.cancel();
        assert!(matches!(gauge.take(1), Err(BackupError::Stopped)));
    }
}
