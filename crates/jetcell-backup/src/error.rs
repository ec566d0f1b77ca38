//! Errors returned by backups, verifications and restores.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ese_engine::Error;
use jetcell_vfs::{NameError, is_disconnected};

use crate::file_damage::FileDamage;
use crate::refusal::BackupRefusal;
use crate::set_error::BackupSetError;

/// Result type used by this crate's functions.
pub type Result<T> = std::result::Result<T, BackupError>;

/// Reason why a backup, verification or restore failed. A failed backup does not change its source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A storage engine error.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The backups do not match each other, the logs, or the request.
    #[error(transparent)]
    Set(#[from] BackupSetError),
    /// The bytes of a backup file differ from the bytes that were backed up.
    #[error("{path}: {damage}")]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// Difference from the file that was backed up.
        #[source]
        damage: FileDamage,
    },
    /// The file name is not allowed in a backup.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] BackupRefusal),
    /// A directory was specified in which a single backup was expected. A backup in it cannot be read because of this
    /// error.
    #[error(transparent)]
    UnreadableInDirectory(Box<BackupError>),
    /// The caller cancelled the operation.
    #[error("stopped")]
    Stopped,
}

impl BackupError {
    pub(crate) fn io(path: impl Into<PathBuf>, error: &std::io::Error) -> BackupError {
        BackupError::Engine(Error::io(path, error))
    }

    pub(crate) fn changed(path: &Path, damage: FileDamage) -> BackupError {
        BackupError::Changed { path: path.to_path_buf(), damage }
    }

    /// Returns true if a later call can continue the failed backup. This is the case if the backup was cancelled, or
    /// if its source is on another host that is currently unreachable. The pages copied so far are kept.
    pub fn can_be_continued(&self) -> bool {
        match self {
            BackupError::Stopped => true,
            BackupError::Engine(Error::Io { kind, .. }) => is_disconnected(*kind),
            _ => false,
        }
    }

    /// Returns the number and the name of the corresponding ESE error, if ESE has one.
    pub fn jet_error(&self) -> Option<(i32, &'static str)> {
        match self {
            BackupError::Engine(error) => error.jet_error(),
            BackupError::Set(error) => Some(error.jet_error()),
            BackupError::UnreadableInDirectory(error) => error.jet_error(),
            BackupError::Changed { .. } => Some((-1206, "JET_errDatabaseCorrupted")),
            BackupError::Name(_) | BackupError::Refused(_) | BackupError::Stopped => None,
        }
    }

    /// Returns what the user can do about the error, for example `make a full backup`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            BackupError::Engine(error) => return error.advice(),
            BackupError::Set(error) => error.advice(),
            BackupError::Refused(refusal) => return refusal.advice(),
            BackupError::UnreadableInDirectory(error) => {
                let more = "specify the backup itself";
                return Some(error.advice().map_or(more.into(), |own| format!("{own}; {more}").into()));
            }
            BackupError::Changed { damage: FileDamage::Content, .. } => Some("use another backup"),
            _ => None,
        }
        .map(Cow::Borrowed)
    }
}
