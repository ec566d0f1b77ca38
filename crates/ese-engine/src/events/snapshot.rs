//! What happened to a snapshot of the files of an instance.

/// What happened to a snapshot. ESE: shadow copy.
#[doc(alias = "shadow copy")]
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotEvent {
    /// 2005: a snapshot is prepared that counts as a full backup. 2009: one that does not.
    Started {
        /// Whether it counts.
        full: bool,
    },
    /// 2001: the instance is about to be frozen.
    FreezeStarted,
    /// 2002: it could not be frozen.
    FreezeFailed {
        /// ESE's number of the error.
        error: i32,
        /// The error in words.
        what: String,
    },
    /// 2003: the instance goes on.
    FreezeEnded,
    /// 2004: the freeze had ended by itself, so the snapshot is not usable.
    FreezeTimedOut {
        /// The longest time of the freeze.
        milliseconds: u64,
    },
    /// 2006: the snapshot is complete.
    Completed,
    /// 2007: there is no usable snapshot.
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
