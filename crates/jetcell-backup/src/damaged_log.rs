//! A surviving log with a damaged header.

use std::path::PathBuf;

use ese_format::Generation;
use ese_format::log::header::LogHeaderError;

/// A surviving log that a restore cannot use, because its header is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: {error}; {}",
    .path.display(),
    if *is_in_backup { "the copy in the backup is used" } else { "the log is not replayed" }
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
}
