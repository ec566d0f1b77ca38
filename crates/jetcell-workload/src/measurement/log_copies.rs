//! The simulated log reads of further copies of the databases.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Log reads for the further copies of one database, from attaching to shutting down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCopies {
    /// Database file.
    pub database: PathBuf,
    /// Closed logs that were read for every further copy.
    pub logs: u64,
    /// Closed logs that were removed before they could be read.
    pub missed: u64,
}
