//! What the replay of logs has done so far.

use crate::measurement::counters::InstanceIo;

/// What the replay of one database has done so far.
#[derive(Clone, Debug, Default)]
pub struct ReplayCounters {
    /// Logs replayed.
    pub logs: u64,
    /// Log records replayed.
    pub records: u64,
    /// Changes of pages that redo made.
    pub changes: u64,
    /// I/O of the replay.
    pub io: InstanceIo,
}
