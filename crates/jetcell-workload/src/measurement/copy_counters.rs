//! Progress and backlog of a passive copy.

use std::path::PathBuf;

use crate::measurement::InstanceIo;

/// A passive copy's counters at one point in time.
#[derive(Clone, Debug, Default)]
pub struct CopyCounters {
    /// Directory of the copy.
    pub directory: PathBuf,
    /// I/O of the copy, including its reads of the active side's logs.
    pub io: InstanceIo,
    /// First generation that the copy lacks.
    pub next: u32,
    /// Bytes of the generation `next` that were received while its log was still being written.
    pub next_bytes: u64,
    /// Total bytes of logs that were received while they were still being written.
    pub streamed_bytes: u64,
    /// Number of closed generations that the copy lacks.
    pub copy_queue: u32,
    /// Number of generations that the copy has received but not replayed.
    pub replay_queue: u32,
    /// Total size of the logs in both queues, in bytes.
    pub lag_bytes: u64,
    /// Number of logs that the copy has replayed.
    pub logs: u64,
    /// Age in seconds of the newest state that the copy contains completely. `None` if it is unknown.
    pub lag_seconds: Option<u64>,
    /// Reason why the copy is waiting, if it is.
    pub waiting: Option<String>,
    /// Error that stopped the copy.
    pub failure: Option<String>,
}

impl CopyCounters {
    /// Returns the number of closed generations that the copy has not replayed.
    pub fn generations_behind(&self) -> u32 {
        self.copy_queue.saturating_add(self.replay_queue)
    }
}
