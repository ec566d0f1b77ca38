//! Restore options.

use std::path::PathBuf;

use ese_engine::RecoverySet;
use ese_format::LogPosition;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::transfer_control::TransferControl;

/// Callback that searches the logs for the position at which the replay stops (exclusive).
pub type FindStopPositionFn = dyn Fn(&Arc<dyn Vfs>, &RecoverySet) -> ese_engine::Result<LogPosition>;

/// Options for a restore.
#[derive(Default)]
pub struct RestoreOptions {
    /// Position before which the replay stops. `None` means that all logs are replayed to the end.
    pub until: Option<Box<FindStopPositionFn>>,
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
