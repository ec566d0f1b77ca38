//! A surviving log with a damaged header.

use std::path::PathBuf;

use ese_format::Generation;
use ese_format::log::header::LogHeaderError;

/// A surviving log that a restore cannot use, because its header is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: {error}; {}",
    .path.display(),
    match (*is_in_backup, *is_partial) {
        (true, true) => "the copy in the backup is used, but it may lack the last changes",
        (true, false) => "the copy in the backup is used",
        (false, _) => "the log is not replayed",
    }
)]
pub struct DamagedLog {
    /// Path of the log.
    pub path: PathBuf,
    /// Generation according to the file name. The name of the current log does not contain it.
    pub generation: Option<Generation>,
    /// The damage.
    pub error: LogHeaderError,
    /// True if one of the backups contains the log.
    pub is_in_backup: bool,
    /// True if the log was open when it was backed up, and no later log proves that its copy is complete.
    pub is_partial: bool,
}
