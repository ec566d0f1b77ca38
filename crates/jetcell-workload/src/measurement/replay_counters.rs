//! Counters for a running log replay.

use crate::measurement::counters::InstanceIo;

/// Replay progress for one database.
#[derive(Clone, Debug, Default)]
pub struct ReplayCounters {
    /// Number of logs replayed.
    pub logs: u64,
    /// Number of log records replayed.
    pub records: u64,
    /// Number of page changes that redo applied.
    pub changes: u64,
    /// I/O of the replay.
    pub io: InstanceIo,
}
