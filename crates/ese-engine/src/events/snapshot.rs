//! Events of a snapshot of an instance's files.

/// An event reported while a snapshot is taken. ESE: shadow copy.
#[doc(alias = "shadow copy")]
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotEvent {
    /// 2005: a snapshot that counts as a full backup is being prepared. 2009: a snapshot that does not count as one
    /// is being prepared.
    Started {
        /// Whether the snapshot counts as a full backup.
        full: bool,
    },
    /// 2001: the instance is about to be frozen.
    FreezeStarted,
    /// 2002: the instance could not be frozen.
    FreezeFailed {
        /// ESE's error code.
        error: i32,
        /// Description of the error.
        what: String,
    },
    /// 2003: the freeze has ended, and the instance continues.
    FreezeEnded,
    /// 2004: the freeze ended at its time limit, so the snapshot is not usable.
    FreezeTimedOut {
        /// Time limit of the freeze in milliseconds.
        milliseconds: u64,
    },
    /// 2006: the snapshot is complete.
    Completed,
    /// 2007: the snapshot was aborted and is not usable.
    Aborted,
}

impl SnapshotEvent {
    pub(super) fn name(&self) -> &'static str {
        match self {
            SnapshotEvent::Started { .. } => "snapshot_started",
            SnapshotEvent::FreezeStarted => "freeze_started",
            SnapshotEvent::FreezeFailed { .. } => "freeze_failed",
            SnapshotEvent::FreezeEnded => "freeze_ended",
            SnapshotEvent::FreezeTimedOut { .. } => "freeze_timed_out",
            SnapshotEvent::Completed => "snapshot_completed",
            SnapshotEvent::Aborted => "snapshot_aborted",
        }
    }
}
