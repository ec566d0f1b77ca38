//! Reasons why a file cannot be used as a database.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ese_format::foreign::FileContent;
use ese_format::header::{DATABASE_UPDATE, NEWEST_DATABASE_UPDATE};
use ese_format::recognise::EseFileKind;
use ese_format::{PageSize, RecoverCommand};

/// Reason why a file cannot be used as a database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file is not an ESE database.
    #[error("not an ESE database{}", .0.correction(EseFileKind::Database))]
    NotADatabase(FileContent),
    /// Both header copies are missing.
    #[error(
        "the file does not have a database header: its creation was interrupted, or the header was \
         overwritten"
    )]
    NoHeader,
    /// The file is empty, or its creation was not completed.
    #[error("its creation was interrupted")]
    CreationInterrupted,
    /// A database is to be created, but the file already exists.
    #[error("the file already exists and was not overwritten")]
    Exists,
    /// The database has this format update, which is too new for recovery.
    #[error(
        "database format update {0:#x} is newer than {NEWEST_DATABASE_UPDATE:#x}, the newest that can be recovered"
    )]
    TooNew(u32),
    /// The database has this format update and minor number, which the engine does not write.
    #[error(
        "database format update {0:#x}.{1:#x} cannot be written by this engine, which writes only {DATABASE_UPDATE:#x}"
    )]
    OtherUpdate(u32, u32),
    /// The database's page size differs from the cache's page size.
    #[error("the database has pages of {database:?}, but the cache has {cache:?}")]
    PageSize {
        /// Size of the pages in the database.
        database: PageSize,
        /// Size of the pages in the cache.
        cache: PageSize,
    },
    /// The database is dirty and needs a different log.
    #[error("the database was last used with a different log and was not shut down cleanly")]
    OtherLog,
    /// The logs that the dirty database needs record a different path for it.
    #[error("the database is dirty, but the logs that it needs contain a different path")]
    OtherPath,
    /// The log directory contains a copy of the database at this path.
    #[error(
        "the log belongs to this database, but the log directory contains a copy of it, {}", .0.display()
    )]
    CopyInLogDirectory(PathBuf),
}

impl FileError {
    /// Returns what the user can do about this error in the file `path`.
    pub fn advice(&self, path: &Path) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            FileError::NoHeader => "delete the file if it was never used, or restore it from a backup",
            FileError::CreationInterrupted => "delete the file and create it again",
            FileError::OtherLog => {
                let command = RecoverCommand { database: Some(path), logs: None };
                return Some(Cow::Owned(format!("first recover it with that log: {command}")));
            }
            FileError::OtherPath => "move the database back to that path and reopen the instance",
            FileError::CopyInLogDirectory(_) => {
                "if the log was copied together with the database, recover in the original directory, \
                 otherwise move the copy away"
            }
            _ => return None,
        }))
    }
}
