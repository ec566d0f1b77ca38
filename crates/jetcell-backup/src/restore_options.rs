//! Options of a restore.

use std::path::PathBuf;

use ese_engine::RecoverySet;
use ese_format::LogPosition;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::pace::Pace;

/// Callback that finds the position before which the replay stops, among the logs of the restore.
pub type UntilFn = dyn Fn(&Arc<dyn Vfs>, &RecoverySet) -> ese_engine::Result<LogPosition>;

/// Options of a restore.
#[derive(Default)]
pub struct RestoreOptions {
    /// Position before which the replay stops. `None` means the end of the logs.
    pub until: Option<Box<UntilFn>>,
    /// Directory of surviving logs. They are replayed after the logs of the backups.
    pub logs: Option<PathBuf>,
    /// Whether existing files may be overwritten. Ranges of databases that already have the correct bytes are left
    /// unchanged.
    pub force: bool,
    /// Whether the engine uses threads.
    pub threads: bool,
    /// Rate limit, progress callback and cancellation.
    pub pace: Pace,
}
