//! All counters of a run, read at the same time.

use crate::measurement::{ArrayCounters, CacheUsage, CopyCounters, InstanceIo};

/// A snapshot of all counters at one point in time.
#[derive(Clone, Debug, Default)]
pub struct CounterSnapshot {
    /// Time of the snapshot, in seconds since the start of the run.
    pub at: f64,
    /// I/O counters of each instance.
    pub io: Vec<InstanceIo>,
    /// State of the cache.
    pub cache: CacheUsage,
    /// Number of operations that the load has completed.
    pub operations: u64,
    /// Counters of the arrays that store the databases, if there are any.
    pub arrays: Option<ArrayCounters>,
    /// Counters of the passive copies in a replication test.
    pub copies: Vec<CopyCounters>,
}
