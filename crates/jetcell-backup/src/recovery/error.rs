//! Reasons why a recovery is not possible.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use ese_engine::{AttachmentErrorKind, Error, LogErrorKind};

/// Result type of recoveries.
pub(super) type Result<T> = std::result::Result<T, RecoveryError>;

/// Reason why a recovery failed. Unless an in-place recovery had an I/O error, no specified file was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// A storage engine error.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A file or directory cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The requested end of the replay would require truncating the original log.
    #[error("--until truncates the log")]
    TruncatesLog,
    /// There is no log to replay.
    #[error("there are no logs")]
    NoLogs,
    /// The logs for an in-place recovery are in several directories.
    #[error("the logs are in several directories")]
    SeveralLogDirectories,
    /// The logs attach the database with this path, but no file has its signature.
    #[error("{0}: the logs change this database, but it is not among the files")]
    MissingDatabase(String),
    /// No database was specified, and the logs do not create one. The path is that of the first log.
    #[error(
        "{}: the logs change databases that are not among the files, and do not start with the creation of a \
         database", .0.display()
    )]
    NoDatabase(PathBuf),
    /// Another process is using the directory of the copy.
    #[error("{}: another process is using the directory", .0.display())]
    DirectoryInUse(PathBuf),
    /// The directory of the copy is a link whose target does not exist.
    #[error("{}: the path is a link to a directory that does not exist", .0.display())]
    DanglingLink(PathBuf),
    /// The directory of the copy contains files.
    #[error("{}: the directory is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// Several databases have the name of this file, so they cannot be copied into one directory.
    #[error("{}: several databases have this name", .0.display())]
    SameName(PathBuf),
    /// A log must be renamed, but another file already has the new name.
    #[error("{}: the log must be renamed to {}, but another file has this name", .from.display(), .to.display())]
    NameTaken {
        /// Path of the log.
        from: PathBuf,
        /// Path of the other file.
        to: PathBuf,
    },
}

impl RecoveryError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            RecoveryError::Engine(
                Error::LogMissing { .. }
                | Error::CommittedLogsMissing { .. }
                | Error::Log {
                    fault: LogErrorKind::Length { .. } | LogErrorKind::Header(_) | LogErrorKind::Damaged(_),
                    ..
                },
            ) => "restore it, or, if the databases do not need it, use --allow-loss to accept the loss",
            RecoveryError::Engine(
                error @ Error::Attachment {
                    fault: AttachmentErrorKind::NotFound | AttachmentErrorKind::OtherDatabase,
                    ..
                },
            ) => {
                let map = "use --map OLD=NEW to specify the location of a database";
                return Some(
                    error.advice().map_or(Cow::Borrowed(map), |first| format!("{first}; {map}").into()),
                );
            }
            RecoveryError::Engine(Error::InUse { .. }) => "stop that process",
            RecoveryError::Engine(error) => return error.advice(),
            RecoveryError::TruncatesLog => "use a copy (--into) or --keep-dirty",
            RecoveryError::SeveralLogDirectories => "to recover into a copy, use --into",
            RecoveryError::MissingDatabase(_) => {
                "also specify its file, or use --allow-loss to recover the other databases without it"
            }
            RecoveryError::NoDatabase(_) => "specify the databases, or restore the earlier logs",
            RecoveryError::DirectoryInUse(_)
            | RecoveryError::NotEmpty(_)
            | RecoveryError::DanglingLink(_) => "use --into to specify a different directory",
            RecoveryError::SameName(_) => "specify only one of them",
            RecoveryError::NameTaken { .. } => "move that file, or use --into to recover into a copy",
            RecoveryError::Io(_) | RecoveryError::NoLogs => return None,
        }))
    }

    /// Returns the number and the name of the corresponding ESE error, if ESE has one.
    pub fn jet_error(&self) -> Option<(i32, &'static str)> {
        match self {
            RecoveryError::Engine(error) => error.jet_error(),
            RecoveryError::MissingDatabase(_) | RecoveryError::NoDatabase(_) => {
                Some((-1216, "JET_errAttachedDatabaseMismatch"))
            }
            _ => None,
        }
    }
}
