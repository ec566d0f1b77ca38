//! Settings for a scan: its pace, its schedule, and the work that it does on each page.

use std::time::Duration;

use ese_format::PageSize;
use jetcell_sync::Arc;

use crate::task::{MaintenanceThrottle, MaintenanceTurn, MaintenanceWindow, TaskSchedule};
use crate::{Result, UsageError};

/// Size in bytes of one read in Exchange 2013.
pub const EXTENT_BYTES: usize = 256 << 10;

/// Minimum and maximum size of one read in bytes.
const BATCH_BYTES: std::ops::RangeInclusive<usize> = (64 << 10)..=(16 << 20);

/// Settings for a scan.
#[derive(Clone)]
pub struct ScanOptions {
    /// Rate limits of the scan. A step is one read.
    pub throttle: MaintenanceThrottle,
    /// Size of one read in bytes, from 64 KiB to 16 MiB, rounded down to whole pages. Exchange 2007 SP1 uses 320 KiB,
    /// and Exchange 2013 uses 256 KiB.
    pub batch_bytes: usize,
    /// Whether the scan overwrites remnants of deleted data. ESE: `JET_bitDatabaseScanZeroPages`.
    #[doc(alias = "JET_bitDatabaseScanZeroPages")]
    pub zero: bool,
    /// Whether the scan logs the state of each page so that copies can compare it, if the instance has copies. ESE:
    /// `JET_paramEnableExternalAutoHealing`.
    #[doc(alias = "JET_paramEnableExternalAutoHealing")]
    pub compare_copies: bool,
    /// Whether progress is stored in the database, so that a later scan can resume the pass.
    pub keep_progress: bool,
    /// Whether the scan stops after one pass. ESE: `JET_bitDatabaseScanBatchStart`.
    pub single_pass: bool,
    /// Maintenance window. Outside the window, the pass is interrupted. If `None`, the scan runs at any time.
    pub window: Option<MaintenanceWindow>,
    /// Turn that serializes scans: databases with the same turn are scanned one at a time, pass by pass. Usually
    /// these are the databases on one disk. ESE: `JET_paramEnableDbScanSerialization`.
    #[doc(alias = "JET_paramEnableDbScanSerialization")]
    pub turn: Option<Arc<MaintenanceTurn>>,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions {
            throttle: MaintenanceThrottle::pausing(Duration::from_millis(20)),
            batch_bytes: EXTENT_BYTES,
            zero: false,
            compare_copies: true,
            keep_progress: false,
            single_pass: false,
            window: None,
            turn: None,
        }
    }
}

impl ScanOptions {
    /// Checks the settings.
    ///
    /// # Errors
    /// Returns [`Error::Usage`](crate::Error::Usage) if a setting is invalid.
    pub fn check(&self) -> Result<()> {
        if !BATCH_BYTES.contains(&self.batch_bytes) {
            return Err(UsageError::ReadSize(self.batch_bytes).into());
        }
        self.throttle.check()
    }

    pub(crate) fn schedule(&self) -> TaskSchedule {
        TaskSchedule {
            throttle: self.throttle.clone(),
            window: self.window,
            turn: self.turn.clone(),
            single_pass: self.single_pass,
        }
    }

    pub(super) fn pages_per_batch(&self, size: PageSize) -> usize {
        (self.batch_bytes / size.bytes()).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused() {
        let good = ScanOptions::default();
        good.check().unwrap();
        let bad = [
            ScanOptions {
                throttle: MaintenanceThrottle::pausing(Duration::from_millis(60_001)),
                ..good.clone()
            },
            ScanOptions { batch_bytes: 4096, ..good.clone() },
            ScanOptions { batch_bytes: usize::MAX, ..good.clone() },
        ];
        for options in bad {
            assert!(matches!(options.check(), Err(crate::Error::Usage(_))));
        }
        let sp1 = ScanOptions { batch_bytes: 320 << 10, ..good };
        assert_eq!((sp1.check().is_ok(), sp1.pages_per_batch(PageSize::KIB_8)), (true, 40));
    }
}
