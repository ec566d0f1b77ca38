//! Restore options.

use std::path::PathBuf;

use crate::recovery::ReplayEnd;
use crate::transfer_control::TransferControl;

/// Options for a restore.
#[derive(Default)]
pub struct RestoreOptions {
    /// Point at which the replay stops. `None` means that all logs are replayed to the end.
    pub until: Option<ReplayEnd>,
    /// Directory with surviving logs, which are replayed after the logs from the backups.
    pub logs: Option<PathBuf>,
    /// Whether existing files may be overwritten. Database ranges that already have the correct bytes are left
    /// unchanged.
    pub force: bool,
    /// Whether the engine uses threads.
    pub threads: bool,
    /// Rate limit, progress callback and cancellation.
    pub pace: TransferControl,
}
