//! Errors of a load and of its storage engine.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use ese_format::record::Value;
use jetcell_backup::BackupError;
use jetcell_copies::CopyError;

/// Error returned by a [storage engine](crate::engine::StorageEngine) or by the load that uses it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum Error {
    #[error(transparent)]
    Engine(#[from] ese_engine::Error),
    #[error(transparent)]
    Copy(CopyError),
    #[error("stopped")]
    Stopped,
    #[error("a thread panicked")]
    ThreadPanicked,
    #[error("page size {0} is not supported")]
    PageSize(u32),
    #[error("{database} does not have the load's table {table:?}")]
    NoLoadTable { database: PathBuf, table: String },
    #[error("column Id of table {table:?} contains {value:?}")]
    WrongId { table: String, value: Value },
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>, error: &io::Error) -> Error {
        ese_engine::Error::io(path, error).into()
    }

    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            Error::Engine(error) => error.advice(),
            Error::Copy(error) => error.advice(),
            Error::NoLoadTable { .. } => Some("use only databases that this program created".into()),
            _ => None,
        }
    }

    /// Returns the text of the error together with the advice.
    pub fn full_text(&self) -> String {
        jetcell_input::with_advice(self, self.advice())
    }
}

impl From<CopyError> for Error {
    fn from(error: CopyError) -> Error {
        match error {
            CopyError::Engine(error) | CopyError::Backup(BackupError::Engine(error)) => Error::Engine(error),
            CopyError::Backup(BackupError::Stopped) => Error::Stopped,
            error => Error::Copy(error),
        }
    }
}
