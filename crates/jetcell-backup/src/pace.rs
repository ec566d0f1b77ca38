//! The rate of a backup or a restore, its progress, and its cancellation.

use std::time::Duration;

use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::Clock;

use crate::error::{BackupError, Result};

/// Longest sleep between two looks at the request to stop.
const NAP: Duration = Duration::from_millis(100);

/// Asks for an early end. Clones share the request.
#[derive(Clone, Default, Debug)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks for the end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

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
    clock: Arc<dyn Clock>,
    /// When the next bytes may be moved.
    next: Mutex<Duration>,
    skipped: AtomicU64,
    moved: AtomicU64,
    total: AtomicU64,
}

impl Gauge {
    pub fn new(pace: Pace, clock: Arc<dyn Clock>) -> Gauge {
        let [skipped, moved, total] = [0; 3].map(AtomicU64::new);
        Gauge { pace, clock, next: Mutex::default(), skipped, moved, total }
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
            let cost = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            let begin = {
                let mut next = self.next.lock();
                let begin = (*next).max(self.clock.monotonic());
                *next = begin.saturating_add(cost);
                begin
            };
            while let Some(left) = begin.checked_sub(self.clock.monotonic()).filter(|left| !left.is_zero()) {
                self.clock.sleep(left.min(NAP));
                self.check()?;
            }
        }
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.report();
        Ok(())
    }

    /// An error if the end was asked for.
    pub fn check(&self) -> Result<()> {
        if self.pace.cancel.is_cancelled() { Err(BackupError::Stopped) } else { Ok(()) }
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
