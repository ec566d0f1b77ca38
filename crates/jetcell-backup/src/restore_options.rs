//! Settings of a restore.

use std::path::PathBuf;

use ese_engine::RecoverySet;
use ese_format::LogPosition;
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::pace::Pace;

/// Finds the position in front of which the replay stops, among the logs of the restore.
pub type UntilFn = dyn Fn(&Arc<dyn Vfs>, &RecoverySet) -> ese_engine::Result<LogPosition>;

/// Settings of a restore.
#[derive(Default)]
pub struct RestoreOptions {
    /// Where the replay stops. `None`: at the end of the logs.
    pub until: Option<Box<UntilFn>>,
    /// The directory of logs that survived. They are replayed behind those of the backups.
    pub logs: Option<PathBuf>,
    /// Restore over existing files. Ranges of databases that have the right bytes already are left as they are.
    pub force: bool,
    /// Whether the engine uses threads.
    pub threads: bool,
    /// Rate, progress and cancellation.
    pub pace: Pace,
}
