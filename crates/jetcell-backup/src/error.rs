//! Errors returned by backups, verifications and restores.

use std::path::{Path, PathBuf};

use jetcell_vfs::{NameError, is_disconnected};

/// Result type used by this crate's functions.
pub type Result<T> = std::result::Result<T, BackupError>;

/// Reason why a backup, verification or restore failed. A failed backup does not change its source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A storage engine error.
    #[error(transparent)]
    Engine(#[from] ese_engine::Error),
    /// The backups do not match each other, the logs, or the request.
    #[error("{what}")]
    Set {
        /// Kind of problem.
        fault: BackupSetError,
        /// Description of the problem, and how to fix it.
        what: String,
    },
    /// A backup file does not have the bytes that were backed up.
    #[error("{path}: {what}")]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// Description of the difference.
        what: String,
    },
    /// The file name is not allowed in a backup.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The caller made a mistake. The text describes it.
    #[error("{0}")]
    Usage(String),
    /// The caller cancelled the operation.
    #[error("stopped")]
    Stopped,
}

/// Reason why backups do not match each other, the logs, or the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupSetError {
    /// The target directory for a backup is not empty.
    NotEmpty,
    /// The directory does not contain a complete backup.
    NotABackup,
    /// Some pages of a database are bad.
    BadPages,
    /// The backup continues another backup that was not given or is unknown.
    NoFullBackup,
    /// The database and the logs belong to different points in time.
    DifferentSourceState,
    /// The logs end before the databases are consistent.
    EndTooLow,
    /// The logs begin after the end of the full backup, and the logs in between are missing.
    StartTooHigh,
    /// A log belongs to a different log stream.
    OtherStream,
    /// The log sequence has a gap.
    Gap,
    /// The log for a generation does not exist.
    LogMissing,
    /// Two histories have different logs for the same generation.
    OtherHistory,
}

impl BackupSetError {
    /// Returns the number and the name of the corresponding ESE error.
    pub fn jet_error(self) -> (i32, &'static str) {
        match self {
            BackupSetError::NotEmpty => (-504, "JET_errBackupDirectoryNotEmpty"),
            BackupSetError::NotABackup => (-615, "JET_errRestoreOfNonBackupDatabase"),
            BackupSetError::BadPages => (-1018, "JET_errReadVerifyFailure"),
            BackupSetError::NoFullBackup => (-560, "JET_errMissingFullBackup"),
            BackupSetError::DifferentSourceState => (-552, "JET_errDatabasePatchFileMismatch"),
            BackupSetError::EndTooLow => (-553, "JET_errEndingRestoreLogTooLow"),
            BackupSetError::StartTooHigh => (-554, "JET_errStartingRestoreLogTooHigh"),
            BackupSetError::OtherStream => (-555, "JET_errGivenLogFileHasBadSignature"),
            BackupSetError::Gap => (-556, "JET_errGivenLogFileIsNotContiguous"),
            BackupSetError::LogMissing => (-557, "JET_errMissingRestoreLogFiles"),
            BackupSetError::OtherHistory => (-515, "JET_errInvalidLogSequence"),
        }
    }
}

impl BackupError {
    pub(crate) fn set(fault: BackupSetError, what: impl Into<String>) -> BackupError {
        BackupError::Set { fault, what: what.into() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, error: &std::io::Error) -> BackupError {
        BackupError::Engine(ese_engine::Error::io(path, error))
    }

    /// Returns true if a later call can continue the failed backup. This is the case if the backup was cancelled, or
    /// if its source is on another host that is currently unreachable. The pages copied so far are kept.
    pub fn can_be_continued(&self) -> bool {
        match self {
            BackupError::Stopped => true,
            BackupError::Engine(ese_engine::Error::Io { kind, .. }) => is_disconnected(*kind),
            _ => false,
        }
    }

    /// Returns the number and the name of the corresponding ESE error, if ESE has one.
    pub fn jet_error(&self) -> Option<(i32, &'static str)> {
        match self {
            BackupError::Engine(ese_engine::Error::Usage(_)) => None,
            BackupError::Engine(error) => Some((error.jet_code(), error.jet_name())),
            BackupError::Set { fault, .. } => Some(fault.jet_error()),
            BackupError::Changed { .. } => Some((-1206, "JET_errDatabaseCorrupted")),
            BackupError::Name(_) | BackupError::Usage(_) | BackupError::Stopped => None,
        }
    }
}

/// Returns the error for a backup file whose bytes have changed.
pub(crate) fn changed(path: &Path) -> BackupError {
    let what = "its content differs from the content that was backed up; use another backup".to_string();
    BackupError::Changed { path: path.to_path_buf(), what }
}
