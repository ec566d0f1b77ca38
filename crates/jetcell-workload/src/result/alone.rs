//! The load of a host while the other hosts of its fleet rested.

use serde::{Deserialize, Serialize};

/// Figures of the load alone. Beside those of the run they show what hosts that share storage take from each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// Begin of the phase on the clock of the host, RFC 3339.
    pub started: String,
    /// When the databases were closed again.
    pub ended: String,
    /// Length of the measured time in seconds.
    pub measured_seconds: f64,
    /// Database reads and writes per second.
    pub achieved_transactional_iops: f64,
    /// Bytes of these per second.
    pub database_bytes_per_second: f64,
    /// Operations of the load per second.
    pub operations_per_second: f64,
    /// Mean latency of database reads in milliseconds.
    pub database_read_ms: f64,
    /// 99th percentile of these.
    pub database_read_p99_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
}
