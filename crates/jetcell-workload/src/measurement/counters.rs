//! Counters of the open databases. A run reads them at the start and at the end of each interval.

use serde::{Deserialize, Serialize};

use crate::measurement::io::IoTotals;

/// State of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Bytes of the cache that are occupied by pages.
    pub used_bytes: u64,
    /// Maximum size of the cache in bytes.
    pub limit_bytes: u64,
    /// Number of times a session waited for a free page. Jetstress: `Database Page Fault Stalls`.
    pub stalls: u64,
}

/// I/O counters for one instance since it was opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InstanceIo {
    /// Reads of pages that a session needs or that were prefetched for it.
    pub database_read: IoTotals,
    /// Page writes.
    pub database_write: IoTotals,
    /// Log reads.
    pub log_read: IoTotals,
    /// Writes of log records.
    pub log_write: IoTotals,
    /// Writes that create log files and their headers. They are not part of the log write latency.
    pub log_format: IoTotals,
    /// Reads by the background checksum scan. They are not part of the load.
    pub scan_read: IoTotals,
    /// Simulated log reads of additional copies. They are not part of the load.
    pub log_copy_read: IoTotals,
    /// Reads by a backup. They are not part of the load.
    #[serde(default)]
    pub backup_read: IoTotals,
    /// Number of failed transfers of any kind.
    pub errors: u64,
}

impl InstanceIo {
    /// Adds the I/O of another time span.
    pub fn add(&mut self, other: &InstanceIo) {
        self.database_read.add(&other.database_read);
        self.database_write.add(&other.database_write);
        self.log_read.add(&other.log_read);
        self.log_write.add(&other.log_write);
        self.log_format.add(&other.log_format);
        self.scan_read.add(&other.scan_read);
        self.log_copy_read.add(&other.log_copy_read);
        self.backup_read.add(&other.backup_read);
        self.errors = self.errors.saturating_add(other.errors);
    }

    /// Returns the I/O since the state `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &InstanceIo) -> InstanceIo {
        InstanceIo {
            database_read: self.database_read.since(&earlier.database_read),
            database_write: self.database_write.since(&earlier.database_write),
            log_read: self.log_read.since(&earlier.log_read),
            log_write: self.log_write.since(&earlier.log_write),
            log_format: self.log_format.since(&earlier.log_format),
            scan_read: self.scan_read.since(&earlier.scan_read),
            log_copy_read: self.log_copy_read.since(&earlier.log_copy_read),
            backup_read: self.backup_read.since(&earlier.backup_read),
            errors: self.errors.saturating_sub(earlier.errors),
        }
    }
}
