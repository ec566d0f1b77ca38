//! A log in the plan of a restore.

use std::path::PathBuf;

use ese_format::Generation;

use crate::manifest::StoredLog;

/// A log that a restore will replay.
pub struct PlannedLog {
    pub generation: Generation,
    pub path: PathBuf,
    /// The log's manifest entry. A surviving log has none.
    pub stored: Option<StoredLog>,
}
