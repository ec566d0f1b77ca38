//! What a passive copy has done and what it has to do.

use std::path::PathBuf;

use crate::measurement::InstanceIo;

/// The counters of a passive copy at one time.
#[derive(Clone, Debug, Default)]
pub struct CopyCounters {
    /// Its directory.
    pub directory: PathBuf,
    /// Its I/O, with the reads of the active side's logs.
    pub io: InstanceIo,
    /// The first generation that it does not have.
    pub next: u32,
    /// Bytes of that generation which have arrived, as it is being written.
    pub next_bytes: u64,
    /// Bytes of logs that arrived so while they were being written.
    pub streamed_bytes: u64,
    /// Closed generations that it does not have.
    pub copy_queue: u32,
    /// Generations that it has and has not replayed.
    pub replay_queue: u32,
    /// Bytes of the logs of both queues.
    pub lag_bytes: u64,
    /// Logs that it has replayed.
    pub logs: u64,
    /// Age of what it has replayed, in seconds, when it looked last; `None` before the first log.
    pub lag_seconds: Option<u64>,
    /// What it waits for.
    pub waiting: Option<String>,
    /// Why it does not follow any more.
    pub failure: Option<String>,
}

impl CopyCounters {
    /// Closed generations that were not replayed.
    pub fn behind(&self) -> u32 {
        self.copy_queue.saturating_add(self.replay_queue)
    }
}
