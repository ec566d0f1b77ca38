//! Simulated log reads on behalf of additional database copies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Summary of log reads for one database's additional copies, from attach to shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCopySummary {
    /// Path of the database file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub database: PathBuf,
    /// Number of closed logs that were read, once for each additional copy.
    pub logs: u64,
    /// Number of closed logs that were removed before they could be read.
    pub missed: u64,
}
