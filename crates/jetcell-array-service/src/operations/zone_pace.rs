//! The pace of work that proceeds zone by zone, and its progress.

use jetcell_array::RebuildProgress;
use jetcell_host::{Pacer, Rate};
use jetcell_input::quantity::ByteRate;

use super::context::{OperationContext, OperationControl, OperationProgress};
use crate::running::ZONE_BYTES;

/// Paces array work that proceeds zone by zone, and tracks its progress.
pub(super) struct ZonePace {
    control: OperationControl,
    pacer: Pacer,
    bytes_processed: u64,
}

impl ZonePace {
    /// Creates a pace with the rate requested by the user.
    pub fn start(on: &OperationContext<'_>, rate: Option<ByteRate>) -> ZonePace {
        let rate = rate.map(|rate| Rate::BytesPerSecond(rate.0));
        let pacer = Pacer::new(on.vfs.clock(), rate, on.control.cancel.clone());
        ZonePace { control: on.control.clone(), pacer, bytes_processed: 0 }
    }

    /// Returns the number of bytes processed so far.
    pub fn bytes_processed(&self) -> u64 {
        self.bytes_processed
    }

    /// Returns true if the user has cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        self.pacer.is_cancelled()
    }

    /// Records the zones that were rebuilt between two states.
    pub fn advance_to(&mut self, before: &RebuildProgress, now: &RebuildProgress) {
        self.advance(
            now.zones_since(before) * ZONE_BYTES,
            now.zones_done * ZONE_BYTES,
            now.zones * ZONE_BYTES,
        );
    }

    /// Records that `bytes` more bytes were processed, and waits as long as the rate limit requires.
    pub fn advance(&mut self, bytes: u64, done: u64, total: u64) {
        self.bytes_processed += bytes;
        if let Some(show) = &self.control.progress {
            show(OperationProgress { done, total, moved: self.bytes_processed });
        }
        self.pacer.wait(bytes);
    }
}
