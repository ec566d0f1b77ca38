//! Results of a host's load while the other hosts of its fleet were idle.

use serde::{Deserialize, Serialize};

/// Load measurements taken while the load ran alone. Comparing them with the run's figures shows how much hosts with
/// shared storage slow each other down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StandaloneLoad {
    /// Start of the phase by the host's clock, in RFC 3339 format.
    pub started: String,
    /// Time at which the databases had been closed again, in RFC 3339 format.
    pub ended: String,
    /// Length of the measured interval in seconds.
    pub measured_seconds: f64,
    /// Database reads and writes per second.
    pub achieved_transactional_iops: f64,
    /// Bytes read from and written to the databases per second.
    pub database_bytes_per_second: f64,
    /// Load operations per second.
    pub operations_per_second: f64,
    /// Mean latency of database reads in milliseconds.
    pub database_read_ms: f64,
    /// 99th percentile of the database read latency in milliseconds.
    pub database_read_p99_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
}
