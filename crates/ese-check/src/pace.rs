//! Read rate and cancellation of a check.

use std::sync::Arc;
use std::time::Duration;

use jetcell_vfs::{CancelToken, Clock, Pacer};

/// Limit on a check's reads, for disks that are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckThrottle {
    /// Read one chunk at a time, pausing this long after each read.
    Pause(Duration),
    /// Maximum number of bytes per second.
    BytesPerSecond(u64),
}

/// Read rate and cancellation of one check.
pub(crate) struct ReadPacer {
    throttle: Option<CheckThrottle>,
    cancel: CancelToken,
    pacer: Pacer,
}

impl ReadPacer {
    pub(crate) fn new(
        throttle: Option<CheckThrottle>,
        cancel: CancelToken,
        clock: Arc<dyn Clock>,
    ) -> ReadPacer {
        ReadPacer { throttle, cancel, pacer: Pacer::new(clock) }
    }

    pub(crate) fn is_throttled(&self) -> bool {
        self.throttle.is_some()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits until `bytes` bytes may be read.
    pub(crate) fn wait_before_read(&self, bytes: u64) {
        let Some(throttle) = self.throttle else { return };
        let time = match throttle {
            CheckThrottle::Pause(pause) => pause,
            CheckThrottle::BytesPerSecond(rate) => Pacer::transfer_time(bytes, rate),
        };
        self.pacer.wait(time, || self.is_cancelled());
    }
}
