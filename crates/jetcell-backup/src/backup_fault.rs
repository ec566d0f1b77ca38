//! Reasons why a listed backup cannot be used.

use std::path::PathBuf;

use crate::error::BackupError;

/// Reason why a backup, or a set of backups, is unusable.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupFault {
    /// The backup was interrupted.
    #[error("interrupted and incomplete")]
    Interrupted,
    /// The manifest, or the list of the set, cannot be read.
    #[error(transparent)]
    Unreadable(#[from] BackupError),
    /// The list of the set names this backup, but the backup does not exist yet.
    #[error("the set does not contain this backup yet")]
    NotInSet,
    /// A file is missing, or its length is wrong.
    #[error("{}: {what}", .path.display())]
    WrongFile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// A check found damage in the file with this name.
    #[error("a check found damage in {0}")]
    FoundDamaged(String),
    /// A proof found this problem.
    #[error("a proof failed: {0}")]
    ProofFailed(String),
}
