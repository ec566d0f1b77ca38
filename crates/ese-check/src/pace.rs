//! The read rate of a check, and its cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jetcell_vfs::Clock;

/// Longest sleep between two looks at the request to stop.
const NAP: Duration = Duration::from_millis(100);

/// Limit on the reads of a check, for disks in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttle {
    /// One read at a time, with this pause after each.
    Pause(Duration),
    /// No more than this many bytes per second.
    BytesPerSecond(u64),
}

/// Asks a check to end early. Clones share the request.
#[derive(Clone, Default, Debug)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the check at the next page.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the request was made.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The pace of one check.
pub(crate) struct Pace {
    throttle: Option<Throttle>,
    cancel: Cancel,
    clock: Arc<dyn Clock>,
    /// When the next read may begin.
    next: Mutex<Duration>,
}

impl Pace {
    pub(crate) fn new(throttle: Option<Throttle>, cancel: Cancel, clock: Arc<dyn Clock>) -> Pace {
        Pace { throttle, cancel, clock, next: Mutex::new(Duration::ZERO) }
    }

    pub(crate) fn is_throttled(&self) -> bool {
        self.throttle.is_some()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits until `bytes` may be read.
    pub(crate) fn before_read(&self, bytes: u64) {
        let Some(throttle) = self.throttle else { return };
        let cost = match throttle {
            Throttle::Pause(pause) => pause,
            Throttle::BytesPerSecond(rate) => Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64),
        };
        let begin = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = (*next).max(self.clock.monotonic());
            *next = begin.saturating_add(cost);
            begin
        };
        while !self.is_cancelled() {
            match begin.checked_sub(self.clock.monotonic()) {
                Some(left) if !left.is_zero() => self.clock.sleep(left.min(NAP)),
                _ => return,
            }
        }
    }
}
