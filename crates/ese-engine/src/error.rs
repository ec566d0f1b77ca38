//! The engine's errors. [`Error`] describes the state after an error; its variants describe exceptions and how to
//! proceed.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use ese_format::{Generation, LogPosition, PageNumber};
use jetcell_sync::Arc;

use crate::file_error::FileError;

/// Result type for engine calls.
pub type Result<T> = std::result::Result<T, Error>;

/// An error from an engine call. Unless a variant says otherwise, the call changed nothing and the session can
/// continue.
#[derive(Debug, thiserror::Error, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Another session changed the record first. Roll back and retry.
    #[error("write conflict: another transaction changed this record")]
    WriteConflict,
    /// A unique index already contains this key.
    #[error("duplicate key")]
    KeyDuplicate,
    /// A row in a bulk load has a lower key than a previous row, and the memory for out-of-order rows is full. The
    /// row is not loaded. The load can continue without it, and [`crate::Table::insert`] can insert it after the
    /// load.
    #[error("the key of the row is lower than a previous key, and the bulk load cannot defer any more rows")]
    OutOfOrder,
    /// The caller requested cancellation. Nothing was changed.
    #[error("stopped on request; nothing was changed")]
    Cancelled,
    /// The record does not exist.
    #[error("no record found")]
    RecordNotFound,
    /// The caller used the interface incorrectly; the text describes the mistake.
    #[error("{0}")]
    Usage(String),
    /// The file cannot be used as a database. The file was not changed.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Reason why it cannot be used.
        #[source]
        error: FileError,
    },
    /// The database does not have a table with this name.
    #[error("{database}: table {name:?} does not exist")]
    NoTable {
        /// Path of the database.
        database: PathBuf,
        /// Name of the table.
        name: String,
    },
    /// A bug in the engine; the text describes it. Please report it. ESE: `JET_errInternalError`.
    #[error("internal error: {0}")]
    Internal(String),
    /// The version store has reached its limit. Commit or roll back the oldest transaction. ESE:
    /// `JET_errVersionStoreOutOfMemory`.
    #[error("version store is full ({limit_bytes} bytes): a transaction has been open for too long")]
    VersionStoreFull {
        /// Configured limit.
        limit_bytes: usize,
    },
    /// The volume is full, and the operation was not performed. Rollback and shutdown still work. Free some space,
    /// then retry.
    #[error("{path}: the disk is full, and nothing was changed")]
    DiskFull {
        /// File that could not be extended.
        path: PathBuf,
        /// Advice of the file system, if it has its own.
        advice: Option<Cow<'static, str>>,
    },
    /// The operating system refused to allocate memory although the cache is below its configured size. Free some
    /// memory and retry, or reopen the instance with a smaller cache. ESE: `JET_errOutOfMemory`.
    #[error("failed to allocate {bytes} bytes for the page cache")]
    OutOfMemory {
        /// Size of the allocation request in bytes.
        bytes: usize,
    },
    /// Another process or instance is using the files.
    #[error("{path} is in use by another process")]
    InUse {
        /// The locked path.
        path: PathBuf,
    },
    /// Stored data is corrupt; the text names the page or log and describes the damage.
    #[error("{path}: {what}")]
    Corrupt {
        /// Damaged file.
        path: PathBuf,
        /// Page number, if the file is a database.
        page: Option<PageNumber>,
        /// Description of the damage.
        what: String,
    },
    /// A log record has a form that only earlier versions of Jetcell wrote. It is not redone.
    #[error("{path}: {record} record at {position:?} {difference}, as earlier versions of Jetcell wrote it")]
    EarlierVersion {
        /// Log directory.
        path: PathBuf,
        /// Type of the record.
        record: &'static str,
        /// Position of the record.
        position: LogPosition,
        /// Difference from the form that this version writes.
        difference: String,
    },
    /// Logs that recovery requires are missing.
    #[error("{path}: recovery needs log generations {first:X} to {last:X} (hexadecimal), but some of them \
     are missing from the log directory",
        first = required.0.0, last = required.1.0)]
    LogsMissing {
        /// Database or log directory.
        path: PathBuf,
        /// First and last required generations.
        required: (Generation, Generation),
    },
    /// Logs that may contain committed transactions are missing. The databases are consistent without these logs.
    #[error("{path}: log generations {first:X} to {last:X} (hexadecimal) are missing and may contain \
     committed transactions",
        first = committed.0.0, last = committed.1.0)]
    CommittedLogsMissing {
        /// Database file.
        path: PathBuf,
        /// First and last generations that may contain committed transactions.
        committed: (Generation, Generation),
    },
    /// A log file is missing: either the newest one, or one between two existing files. Restore it.
    #[error("{path}: log generation {generation:X} (hexadecimal) is missing", generation = generation.0)]
    LogMissing {
        /// Log directory, or the path where the file was expected.
        path: PathBuf,
        /// Missing generation.
        generation: Generation,
    },
    /// A log file is damaged, or does not belong to this sequence. None of its records were replayed.
    #[error("{path}: at log position {position}: {what}")]
    Log {
        /// Log file.
        path: PathBuf,
        /// Position in the log.
        position: LogPosition,
        /// Kind of the error.
        fault: LogErrorKind,
        /// Description of the error.
        what: String,
    },
    /// A page's database time does not match the log record to be replayed. Redo stopped at this page, in the
    /// record's generation.
    #[error("{path}: page {page}: {what} (log record at {position:?})")]
    PageTime {
        /// Database file.
        path: PathBuf,
        /// Page number.
        page: PageNumber,
        /// Position of the log record that does not match the page.
        position: LogPosition,
        /// Kind of mismatch.
        fault: PageTimeMismatch,
        /// Description of the mismatch.
        what: String,
    },
    /// A database is not in the state that the log continues from. The database was not changed.
    #[error("{path}: {what}")]
    Attachment {
        /// Database file.
        path: PathBuf,
        /// Kind of the error.
        fault: AttachmentErrorKind,
        /// Description of the error, and what to do.
        what: String,
    },
    /// A backup cannot be started or continued. The databases were not changed.
    #[error("{what}")]
    Backup {
        /// Kind of the error.
        fault: BackupErrorKind,
        /// Description of the error, and what to do.
        what: String,
    },
    /// The instance refuses changes because a write, a sync, or a session's rollback has failed. Reopen the instance
    /// to recover from the log.
    #[error("instance is read-only after a failure: {0}")]
    ReadOnly(#[source] InstanceFailure),
    /// A read failed, or a write that nothing depended on yet.
    #[error("{path}: {message}")]
    Io {
        /// File that was read or written.
        path: PathBuf,
        /// The operating system's error message.
        message: String,
        /// Kind of operating system error.
        kind: io::ErrorKind,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
}

/// Failure after which an instance refuses changes.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}")]
pub struct InstanceFailure {
    what: String,
    /// Error of the operation that failed, unless the instance itself refused it.
    source: Option<Arc<Error>>,
}

impl InstanceFailure {
    /// Returns the failure of an operation on the file or directory `path`.
    pub(crate) fn io(path: &Path, error: &io::Error) -> InstanceFailure {
        let what = format!("{}: {error}", path.display());
        InstanceFailure { what, source: Some(Arc::new(Error::io(path, error))) }
    }

    /// Prefixes the failure with the operation that failed because of it.
    pub(crate) fn context(self, context: impl Display) -> InstanceFailure {
        InstanceFailure { what: format!("{context}: {self}"), ..self }
    }
}

impl From<&str> for InstanceFailure {
    fn from(what: &str) -> InstanceFailure {
        InstanceFailure { what: what.to_string(), source: None }
    }
}

/// Reason why a log file cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogErrorKind {
    /// A segment or a record is damaged.
    Damaged,
    /// The file belongs to another log stream: the signatures differ.
    OtherStream,
    /// The file does not continue the previous generation: the creation times differ.
    OtherHistory,
    /// The file does not continue the content of the previous generation: the accumulated checksums differ.
    OtherContent,
    /// The file contains a record that recovery cannot redo.
    UnknownRecord,
}

/// How a page's database time differs from the time that the log expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTimeMismatch {
    /// The page is older than expected: a write was lost, or the file is an older copy.
    Older,
    /// The page's time is between the times before and after the logged change.
    Newer,
    /// The page contains a change from a generation that the database header does not name. Another program changed
    /// the file.
    BeyondHeader,
}

/// Reason why the log cannot attach a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachmentErrorKind {
    /// The file does not exist, or is a different database.
    Missing,
    /// The file was shut down at a position that does not match the log. It is an older copy, or another program
    /// changed it.
    OtherShutdown,
    /// The file comes from a backup and was not restored.
    NotRestored,
}

/// Reason why a backup cannot be started or continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupErrorKind {
    /// Another backup of the instance is running.
    Running,
    /// A backup step was called in the wrong order.
    WrongStep,
    /// A database has no full backup yet.
    NoFullBackup,
    /// Circular logging is enabled, so the instance removes its logs itself.
    CircularLogging,
    /// Logs since the previous backup were removed.
    LogsRemoved,
    /// A log file cannot be read, or is damaged.
    LogUnreadable,
    /// The caller has not read all logs.
    LogNotCopied,
    /// The freeze reached its time limit, so the instance ended it.
    FreezeTimedOut,
}

impl Error {
    /// Returns the failure without its consequences. The caller stores the failure and later wraps it in
    /// [`Error::ReadOnly`].
    pub(crate) fn cause(&self) -> InstanceFailure {
        match self {
            Error::ReadOnly(failure) => failure.clone(),
            other => InstanceFailure { what: other.to_string(), source: Some(Arc::new(other.clone())) },
        }
    }

    /// Returns what the user can do about the error, for example `delete the file and create it again`. The
    /// descriptions in [`Error::Usage`], [`Error::Attachment`], [`Error::Backup`] and in a few cases of
    /// [`Error::Corrupt`] contain the advice instead.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Error::File { path, error } => return error.advice(path),
            Error::DiskFull { advice: Some(advice), .. } => return Some(advice.clone()),
            Error::DiskFull { advice: None, .. } => "free some space and retry",
            Error::ReadOnly(failure) => return failure.source.as_ref()?.advice(),
            Error::OutOfOrder => "insert the row after the load",
            Error::OutOfMemory { .. } => "use a smaller cache, or raise the memory limit of the process",
            Error::EarlierVersion { .. } => {
                "open and close the database once with the version that wrote the log"
            }
            _ => return None,
        }))
    }

    /// Returns the text of the error together with the advice.
    pub fn full_text(&self) -> String {
        self.advice().map_or_else(|| self.to_string(), |advice| format!("{self}; {advice}"))
    }

    /// Wraps an I/O error together with the file's path. "No space" errors become [`Error::DiskFull`].
    pub fn io(path: impl Into<PathBuf>, error: &io::Error) -> Error {
        let path = path.into();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::DiskFull { path, advice: jetcell_vfs::io_error_advice(error) }
            }
            kind => {
                let source = match jetcell_vfs::system_error_number(error) {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(kind, error.to_string()),
                };
                Error::Io { path, message: error.to_string(), kind, source: Arc::new(source) }
            }
        }
    }

    /// Returns ESE's error code for this error.
    #[doc(alias = "JET_err")]
    pub fn jet_code(&self) -> i32 {
        self.jet().0
    }

    /// Returns ESE's name for the code that [`Error::jet_code`] returns.
    pub fn jet_name(&self) -> &'static str {
        self.jet().1
    }

    /// Returns the number and the name of the corresponding ESE error, if ESE has one. Wrong requests and unusable
    /// files have no number of their own in ESE.
    pub fn jet_error(&self) -> Option<(i32, &'static str)> {
        let is_mistake = matches!(self, Error::Usage(_) | Error::File { .. } | Error::NoTable { .. });
        (!is_mistake).then(|| self.jet())
    }

    fn jet(&self) -> (i32, &'static str) {
        match self {
            Error::WriteConflict => (-1102, "JET_errWriteConflict"),
            Error::KeyDuplicate => (-1605, "JET_errKeyDuplicate"),
            Error::OutOfOrder => (-1003, "JET_errInvalidParameter"),
            Error::Cancelled => (-2101, "JET_errCallbackFailed"),
            Error::RecordNotFound => (-1601, "JET_errRecordNotFound"),
            Error::Usage(_) | Error::File { .. } | Error::NoTable { .. } => {
                (-1003, "JET_errInvalidParameter")
            }
            Error::Internal(_) => (-107, "JET_errInternalError"),
            Error::VersionStoreFull { .. } => (-1069, "JET_errVersionStoreOutOfMemory"),
            Error::DiskFull { .. } => (-1808, "JET_errDiskFull"),
            Error::OutOfMemory { .. } => (-1011, "JET_errOutOfMemory"),
            Error::InUse { .. } => (-1032, "JET_errFileAccessDenied"),
            Error::Corrupt { page: Some(_), .. } => (-1018, "JET_errReadVerifyFailure"),
            Error::Corrupt { page: None, .. } | Error::EarlierVersion { .. } => {
                (-1206, "JET_errDatabaseCorrupted")
            }
            Error::LogsMissing { .. } => (-543, "JET_errRequiredLogFilesMissing"),
            Error::LogMissing { .. } => (-528, "JET_errMissingLogFile"),
            Error::CommittedLogsMissing { .. } => (-582, "JET_errCommittedLogFilesMissing"),
            Error::Log { fault, .. } => match fault {
                LogErrorKind::Damaged | LogErrorKind::UnknownRecord => (-501, "JET_errLogFileCorrupt"),
                LogErrorKind::OtherStream => (-530, "JET_errBadLogSignature"),
                LogErrorKind::OtherHistory => (-515, "JET_errInvalidLogSequence"),
                LogErrorKind::OtherContent => (-590, "JET_errLogChecksumMismatch"),
            },
            Error::PageTime { fault, .. } => match fault {
                PageTimeMismatch::Older => (-566, "JET_errDbTimeTooOld"),
                PageTimeMismatch::Newer => (-567, "JET_errDbTimeTooNew"),
                PageTimeMismatch::BeyondHeader => (-625, "JET_errDbTimeBeyondMaxRequired"),
            },
            Error::Attachment { fault, .. } => match fault {
                AttachmentErrorKind::Missing => (-1216, "JET_errAttachedDatabaseMismatch"),
                AttachmentErrorKind::OtherShutdown => (-551, "JET_errConsistentTimeMismatch"),
                AttachmentErrorKind::NotRestored => (-544, "JET_errSoftRecoveryOnBackupDatabase"),
            },
            Error::Backup { fault, .. } => match fault {
                BackupErrorKind::Running => (-505, "JET_errBackupInProgress"),
                BackupErrorKind::WrongStep => (-521, "JET_errInvalidBackupSequence"),
                BackupErrorKind::NoFullBackup => (-560, "JET_errMissingFullBackup"),
                BackupErrorKind::CircularLogging => (-526, "JET_errInvalidBackup"),
                BackupErrorKind::LogsRemoved => (-569, "JET_errMissingFileToBackup"),
                BackupErrorKind::LogUnreadable => (-612, "JET_errLogReadVerifyFailure"),
                BackupErrorKind::LogNotCopied => (-616, "JET_errLogFileNotCopied"),
                BackupErrorKind::FreezeTimedOut => (-2402, "JET_errOSSnapshotTimeOut"),
            },
            Error::ReadOnly(_) => (-510, "JET_errLogWriteFail"),
            Error::Io { .. } => (-1022, "JET_errDiskIO"),
        }
    }
}
