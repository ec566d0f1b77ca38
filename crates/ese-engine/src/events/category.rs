//! Categories and severities of events.

use std::fmt;

/// Subject area of an event. The numbers match ESE's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum EventCategory {
    /// Instances and databases.
    General = 1,
    /// The log, recovery and backups.
    LoggingRecovery = 3,
    /// Disk space.
    Space = 4,
    /// Scan, zeroing and defragmentation.
    Maintenance = 10,
    /// Damaged pages.
    Corruption = 12,
    /// Snapshots.
    #[doc(alias = "OS_SNAPSHOT_BACKUP")]
    Snapshot = 16,
}

impl fmt::Display for EventCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventCategory::General => "General",
            EventCategory::LoggingRecovery => "Logging/Recovery",
            EventCategory::Space => "Space Management",
            EventCategory::Maintenance => "Online Defragmentation",
            EventCategory::Corruption => "Database Corruption",
            EventCategory::Snapshot => "ShadowCopy",
        })
    }
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSeverity {
    /// Normal operation.
    Information,
    /// A condition that needs attention; the operation continues.
    Warning,
    /// A failure.
    Error,
}

impl fmt::Display for EventSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventSeverity::Information => "information",
            EventSeverity::Warning => "warning",
            EventSeverity::Error => "error",
        })
    }
}
