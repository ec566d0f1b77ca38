//! Rate limit, progress reporting and cancellation for a backup or a restore.

use jetcell_host::{Cancellation, Pacer, Rate};
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_vfs::Clock;

use crate::error::{BackupError, Result};

/// Progress of a backup or a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes processed, including bytes processed by an earlier call that this call continues.
    pub done: u64,
    /// Total number of bytes known so far.
    pub total: u64,
    /// Bytes processed by this call.
    pub transferred: u64,
}

/// Callback that receives the progress. It is called often and from several threads.
type BackupProgressFn = dyn Fn(BackupProgress) + Send + Sync;

/// Controls a backup or restore: rate limit, progress callback and cancellation.
#[derive(Clone, Default)]
pub struct TransferControl {
    /// Maximum number of bytes per second; `None` for no limit.
    pub rate: Option<u64>,
    /// Cancels the operation.
    pub cancel: Cancellation,
    /// Callback that receives the progress.
    pub progress: Option<Arc<BackupProgressFn>>,
}

/// The rate limiter and progress counters for a running operation.
pub(crate) struct TransferMeter {
    progress: Option<Arc<BackupProgressFn>>,
    /// Cancelled by the caller or when the part of the operation in one thread fails. The other threads then stop.
    pacer: Pacer,
    skipped: AtomicU64,
    transferred: AtomicU64,
    total: AtomicU64,
}

impl TransferMeter {
    pub fn new(pace: TransferControl, clock: Arc<dyn Clock>) -> TransferMeter {
        let [skipped, moved, total] = [0; 3].map(AtomicU64::new);
        let pacer = Pacer::new(clock, pace.rate.map(Rate::BytesPerSecond), pace.cancel.child());
        TransferMeter { progress: pace.progress, pacer, skipped, transferred: moved, total }
    }

    /// Adds bytes to the total.
    pub fn add_total(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that need not be copied.
    pub fn add_skipped(&self, bytes: u64) {
        self.skipped.fetch_add(bytes, Ordering::Relaxed);
        self.report();
    }

    /// Waits until the rate limit allows `bytes`, and counts them. Fails if the operation was cancelled.
    pub fn wait_for(&self, bytes: u64) -> Result<()> {
        self.check()?;
        self.pacer.wait(bytes);
        self.check()?;
        self.transferred.fetch_add(bytes, Ordering::Relaxed);
        self.report();
        Ok(())
    }

    /// Stops the parts of the operation that run in other threads.
    pub fn fail(&self) {
        self.pacer.cancellation().cancel();
    }

    /// Fails if the operation was cancelled or another part of it has failed.
    pub fn check(&self) -> Result<()> {
        if self.pacer.is_cancelled() { Err(BackupError::Stopped) } else { Ok(()) }
    }

    /// Returns the number of bytes processed by this call.
    pub fn transferred(&self) -> u64 {
        self.transferred.load(Ordering::Relaxed)
    }

    fn report(&self) {
        let Some(progress) = &self.progress else { return };
        let moved = self.transferred.load(Ordering::Relaxed);
        let done = moved + self.skipped.load(Ordering::Relaxed);
        progress(BackupProgress {
            done,
            transferred: moved,
            total: self.total.load(Ordering::Relaxed).max(done),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jetcell_vfs::{SimVfs, Vfs};

    use super::*;

    #[test]
    fn transfers_respect_the_rate_limit_and_cancellation() {
        let clock = SimVfs::new().clock();
        let cancel = Cancellation::default();
        let pace = TransferControl { rate: Some(1000), cancel: cancel.clone(), progress: None };
        let gauge = TransferMeter::new(pace, clock.clone());
        for _ in 0..5 {
            gauge.wait_for(500).unwrap();
        }
        // `wait_for` does not wait after the last bytes have been counted.
        assert_eq!(clock.monotonic(), Duration::from_secs(2));
        cancel.cancel();
        assert!(matches!(gauge.wait_for(1), Err(BackupError::Stopped)));
    }
}
