//! The engine's errors: few kinds, each telling the caller what is true afterwards and what can be done.

use std::io;
use std::path::PathBuf;

use ese_format::{Generation, PageNumber};
use jetcell_sync::Arc;

/// Result of engine calls.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Unless a variant says otherwise, the call changed nothing and the session can go on.
#[derive(Debug, thiserror::Error, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Another session changed the record first. Roll back and retry.
    #[error("write conflict: another transaction changed this record")]
    WriteConflict,
    /// The key is already there (unique index).
    #[error("duplicate key")]
    KeyDuplicate,
    /// No record there.
    #[error("no record found")]
    RecordNotFound,
    /// The caller's mistake; the text says which.
    #[error("{0}")]
    Usage(String),
    /// A fault of the engine itself; the text says which. Please report it. ESE: `JET_errInternalError`.
    #[error("internal error: {0}")]
    Internal(String),
    /// The version store reached its limit: commit or roll back the oldest transaction. ESE: `JET_errVersionStoreOutOfMemory`.
    #[error("version store is full ({limit_bytes} bytes): a transaction has been open for too long")]
    VersionStoreFull {
        /// Configured limit.
        limit_bytes: usize,
    },
    /// The volume is full. The operation was not done; rollback and shutdown work; retry after freeing space.
    #[error("{path}: disk full; free space and retry (nothing was changed)")]
    DiskFull {
        /// File that could not grow.
        path: PathBuf,
    },
    /// Another process or instance uses the files.
    #[error("{path} is in use by another process")]
    InUse {
        /// The locked path.
        path: PathBuf,
    },
    /// Stored bytes are wrong; the text names page or log and the finding.
    #[error("{path}: {what}")]
    Corrupt {
        /// File.
        path: PathBuf,
        /// Page, if it is a database page.
        page: Option<PageNumber>,
        /// Finding.
        what: String,
    },
    /// Logs that recovery needs are missing.
    #[error("{path}: recovery needs log generations {first:X} to {last:X} (hexadecimal), and not all of them are in the log directory",
        first = required.0.0, last = required.1.0)]
    LogsMissing {
        /// Database or log directory.
        path: PathBuf,
        /// Required range.
        required: (Generation, Generation),
    },
    /// A write or sync failed, or a session ended whose rollback had failed; the instance refuses further changes. Restart
    /// to recover from the log.
    #[error("instance is read-only after a failure: {0}")]
    ReadOnly(String),
    /// A read failed, or a write before anything depended on it.
    #[error("{path}: {message}")]
    Io {
        /// File.
        path: PathBuf,
        /// The operating system's text.
        message: String,
        /// Its class.
        kind: io::ErrorKind,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// What failed, without what follows from it. A caller that keeps it makes [`Error::ReadOnly`] of it again.
    pub(crate) fn cause(&self) -> String {
        match self {
            Error::ReadOnly(what) => what.clone(),
            other => other.to_string(),
        }
    }

    /// Wraps an I/O error with the file it concerns; "no space" becomes [`Error::DiskFull`].
    pub fn io(path: impl Into<PathBuf>, error: &io::Error) -> Error {
        let path = path.into();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { path },
            kind => {
                let source = match error.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(kind, error.to_string()),
                };
                Error::Io { path, message: error.to_string(), kind, source: Arc::new(source) }
            }
        }
    }

    /// The number ESE gives this condition.
    #[doc(alias = "JET_err")]
    pub fn jet_code(&self) -> i32 {
        match self {
            Error::WriteConflict => -1102,
            Error::KeyDuplicate => -1605,
            Error::RecordNotFound => -1601,
            Error::Usage(_) => -1003,
            Error::Internal(_) => -107,
            Error::VersionStoreFull { .. } => -1069,
            Error::DiskFull { .. } => -1808,
            Error::InUse { .. } => -1032,
            Error::Corrupt { page: Some(_), .. } => -1018,
            Error::Corrupt { page: None, .. } => -1206,
            Error::LogsMissing { .. } => -543,
            Error::ReadOnly(_) => -510,
            Error::Io { .. } => -1022,
        }
    }
}
