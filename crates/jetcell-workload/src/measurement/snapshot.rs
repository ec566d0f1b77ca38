//! All counters of a run, read at the same time.

use crate::measurement::{ArrayCounters, CacheState, CopyCounters, InstanceIo};

/// All counters at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Seconds since the run began.
    pub at: f64,
    /// I/O per instance.
    pub io: Vec<InstanceIo>,
    /// State of the cache.
    pub cache: CacheState,
    /// Completed operations of the load.
    pub operations: u64,
    /// Arrays below the databases, if there are any.
    pub arrays: Option<ArrayCounters>,
    /// Passive copies of a replication test.
    pub copies: Vec<CopyCounters>,
}
