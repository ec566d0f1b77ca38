//! Why a backup, a verification or a restore failed.

use std::path::{Path, PathBuf};

use jetcell_vfs::{NameError, is_out_of_reach};

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, BackupError>;

/// Why a backup, a verification or a restore failed. The source of a backup is not changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The engine's error.
    #[error(transparent)]
    Engine(#[from] ese_engine::Error),
    /// The backups do not fit each other, the logs or the request.
    #[error("{what}")]
    Set {
        /// Kind of the fault.
        fault: SetFault,
        /// Description of the fault, and what to do.
        what: String,
    },
    /// A file of a backup does not have the bytes that were backed up.
    #[error("{path}: {what}")]
    Changed {
        /// The file.
        path: PathBuf,
        /// Description.
        what: String,
    },
    /// A file cannot have this name in a backup.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A mistake of the caller; the text describes it.
    #[error("{0}")]
    Usage(String),
    /// The caller stopped the work.
    #[error("stopped")]
    Stopped,
}

/// What does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetFault {
    /// The directory for a backup has files.
    NotEmpty,
    /// The directory is not a backup, or not a whole one.
    NotABackup,
    /// Pages of a database are bad.
    BadPages,
    /// The backup continues another one that is not given, or of which it is not known.
    NoFullBackup,
    /// The database and the logs are of different moments.
    OtherMoment,
    /// The logs end before the databases are consistent.
    EndTooLow,
    /// The logs begin behind the end of the full backup.
    StartTooHigh,
    /// A log is of another stream.
    OtherStream,
    /// Logs between others are missing.
    Gap,
    /// The log of a generation is not there.
    LogMissing,
    /// Two histories have different logs of one generation.
    OtherHistory,
}

impl SetFault {
    /// The error of ESE for the fault, with its number.
    pub fn jet_error(self) -> (i32, &'static str) {
        match self {
            SetFault::NotEmpty => (-504, "JET_errBackupDirectoryNotEmpty"),
            SetFault::NotABackup => (-615, "JET_errRestoreOfNonBackupDatabase"),
            SetFault::BadPages => (-1018, "JET_errReadVerifyFailure"),
            SetFault::NoFullBackup => (-560, "JET_errMissingFullBackup"),
            SetFault::OtherMoment => (-552, "JET_errDatabasePatchFileMismatch"),
            SetFault::EndTooLow => (-553, "JET_errEndingRestoreLogTooLow"),
            SetFault::StartTooHigh => (-554, "JET_errStartingRestoreLogTooHigh"),
            SetFault::OtherStream => (-555, "JET_errGivenLogFileHasBadSignature"),
            SetFault::Gap => (-556, "JET_errGivenLogFileIsNotContiguous"),
            SetFault::LogMissing => (-557, "JET_errMissingRestoreLogFiles"),
            SetFault::OtherHistory => (-515, "JET_errInvalidLogSequence"),
        }
    }
}

impl BackupError {
    pub(crate) fn set(fault: SetFault, what: impl Into<String>) -> BackupError {
        BackupError::Set { fault, what: what.into() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, error: &std::io::Error) -> BackupError {
        BackupError::Engine(ese_engine::Error::io(path, error))
    }

    /// Whether a backup that failed so goes on later where it was: it was stopped, or its source is on another host and cannot be
    /// reached now. What was copied is kept.
    pub fn can_be_continued(&self) -> bool {
        match self {
            BackupError::Stopped => true,
            BackupError::Engine(ese_engine::Error::Io { kind, .. }) => is_out_of_reach(*kind),
            _ => false,
        }
    }

    /// The error of ESE for this condition, with its number.
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

/// The error for a file of a backup with other bytes.
pub(crate) fn changed(path: &Path) -> BackupError {
    let what = "it does not have the bytes that were backed up; use another backup".to_string();
    BackupError::Changed { path: path.to_path_buf(), what }
}
