//! Simulated log reads of additional copies of the databases.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Log reads for the additional copies of one database, from attach to shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCopies {
    /// Path of the database file.
    pub database: PathBuf,
    /// Number of closed logs that were read for every additional copy.
    pub logs: u64,
    /// Number of closed logs that were removed before they could be read.
    pub missed: u64,
}
