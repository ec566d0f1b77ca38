//! Categories and severities of events.

use std::fmt;

/// What an event is about. The numbers are those of ESE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum EventCategory {
    /// Instances and databases.
    General = 1,
    /// The log, recovery and backups.
    LoggingRecovery = 3,
    /// Space on disks.
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

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSeverity {
    /// Normal operation.
    Information,
    /// Something needs attention, and work goes on.
    Warning,
    /// Something failed.
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
