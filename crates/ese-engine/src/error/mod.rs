//! The engine's errors. [`Error`] describes the state after an error; its variants describe exceptions and how to
//! proceed.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ese_format::log::header::LogHeaderError;
use ese_format::{Generation, LogPosition, PageNumber};
use jetcell_sync::Arc;

use self::corruption::NOT_LOGGED;
pub use self::corruption::{Corruption, LogDamage, MacroError, PageDefect, PageTimeMismatch};
pub use self::kinds::{AttachmentErrorKind, InternalError, LogErrorKind};
pub use self::usage_error::UsageError;
use crate::file_error::FileError;

mod corruption;
mod kinds;
mod usage_error;

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
    /// The caller used the interface incorrectly.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The file cannot be used as a database. The file was not changed.
    #[error("{path}: {error}")]
    File {
        /// Path of the unusable file.
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
    /// A bug in the engine. Please report it. ESE: `JET_errInternalError`.
    #[error("internal error: {0}")]
    Internal(#[from] InternalError),
    /// The version store has reached its limit. Commit or roll back the oldest transaction. ESE:
    /// `JET_errVersionStoreOutOfMemory`.
    #[error("version store is full ({limit_bytes} bytes): a transaction has been open for too long")]
    VersionStoreFull {
        /// Configured limit of the version store.
        limit_bytes: usize,
    },
    /// The volume is full, and the operation was not performed. Rollback and shutdown still work. Free some space,
    /// then retry.
    #[error("{path}: the disk is full, and nothing was changed")]
    DiskFull {
        /// File that could not be extended.
        path: PathBuf,
        /// Advice from the file system, if it provides any.
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
    /// Stored data is corrupt.
    #[error("{path}: {}{fault}", page.map_or(String::new(), |page| format!("page {page}: ")))]
    Corrupt {
        /// Damaged file.
        path: PathBuf,
        /// Page number, if the file is a database.
        page: Option<PageNumber>,
        /// Kind of damage.
        fault: Corruption,
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
        /// Difference between the record and the form that this version writes.
        difference: MacroError,
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
    #[error("{path}: at log position {position}: {fault}")]
    Log {
        /// Log file.
        path: PathBuf,
        /// Position in the log.
        position: LogPosition,
        /// Reason why the log cannot be replayed.
        fault: LogErrorKind,
    },
    /// A page's database time does not match the log record to be replayed. Redo stopped at this page, in the
    /// record's generation.
    #[error(
        "{path}: page {page}: {fault}{} (log record at {position:?})",
        if *bulk_load { format!("; {NOT_LOGGED}") } else { String::new() }
    )]
    PageTime {
        /// Database file.
        path: PathBuf,
        /// Page number.
        page: PageNumber,
        /// Position of the log record that does not match the page.
        position: LogPosition,
        /// Kind of mismatch.
        fault: PageTimeMismatch,
        /// Whether the record refers to the pages of a bulk load, which are not in the log.
        bulk_load: bool,
    },
    /// A database is not in the state from which the log continues. The database was not changed.
    #[error("{path}: {fault}")]
    Attachment {
        /// Database file.
        path: PathBuf,
        /// Reason why the database cannot be attached.
        fault: AttachmentErrorKind,
    },
    /// A backup cannot be started or continued. The databases were not changed.
    #[error(transparent)]
    Backup(#[from] BackupErrorKind),
    /// The instance refuses changes because a write, a sync, or a session's rollback has failed. Reopen the instance
    /// to recover from the log.
    #[error("instance is read-only after a failure: {0}")]
    ReadOnly(#[source] InstanceFailure),
    /// A read failed, or a write failed before anything depended on its data.
    #[error("{path}: {source}")]
    Io {
        /// File that was read or written.
        path: PathBuf,
        /// Kind of operating system error.
        kind: io::ErrorKind,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
}

/// Reason why a backup cannot be started or continued.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum BackupErrorKind {
    #[error("a backup of the instance is running")]
    Running,
    #[error("a bulk load is running, and its pages are not logged")]
    BulkLoadRunning,
    #[error("pages are still being read, or were already read, or this backup does not include pages")]
    WrongStep,
    #[error("the logs of the backup have not been closed yet")]
    LogsNotClosed,
    #[error("{0}: the database does not have a full backup yet")]
    NoFullBackup(PathBuf),
    #[error("only full backups are possible, because circular logging is enabled")]
    CircularLogging,
    #[error("{0}: the log was removed, but the backup needs it")]
    LogsRemoved(PathBuf),
    #[error("{path}: failed to back up the log: {error}")]
    LogUnreadable { path: PathBuf, error: Arc<Error> },
    #[error("not all logs of the backup have been read")]
    LogNotCopied,
    #[error("the snapshot does not contain all logs of the backup")]
    IncompleteSnapshot,
    #[error("the instance was frozen for more than {} s, so it was released automatically", .0.as_secs_f64())]
    FreezeTimedOut(Duration),
}

/// Failure after which an instance refuses changes.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum InstanceFailure {
    #[error("the instance has ended")]
    Ended,
    #[error("another engine writes the log, so replay cannot append to it")]
    ReplayOnly,
    #[error("no log file has been prepared")]
    NoPreparedLog,
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: Arc<io::Error> },
    #[error(transparent)]
    Other(Arc<Error>),
    #[error("{operation}: {source}")]
    During { operation: FailedOperation, source: Arc<InstanceFailure> },
}

/// Operation whose failure makes an instance refuse changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum FailedOperation {
    #[error("failed to write the header")]
    WriteHeader,
    #[error("failed to make the files durable")]
    SyncFiles,
    #[error("failed to attach {0}")]
    Attach(PathBuf),
    #[error("failed to roll back a transaction")]
    Rollback,
}

impl InstanceFailure {
    /// Returns the failure of an operation on the file or directory `path`.
    pub(crate) fn io(path: impl Into<PathBuf>, error: &io::Error) -> InstanceFailure {
        InstanceFailure::Io { path: path.into(), source: Arc::new(jetcell_vfs::clone_io_error(error)) }
    }

    /// Wraps this failure together with the operation that failed because of it.
    pub(crate) fn during(self, operation: FailedOperation) -> InstanceFailure {
        InstanceFailure::During { operation, source: Arc::new(self) }
    }

    fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            InstanceFailure::Io { path, source } => Error::io(path, source).advice(),
            InstanceFailure::Other(error) => error.advice(),
            InstanceFailure::During { source, .. } => source.advice(),
            _ => None,
        }
    }
}

impl Error {
    /// Returns the failure that caused this error. The caller stores the failure and later wraps it in
    /// [`Error::ReadOnly`].
    pub(crate) fn cause(&self) -> InstanceFailure {
        match self {
            Error::ReadOnly(failure) => failure.clone(),
            other => InstanceFailure::Other(Arc::new(other.clone())),
        }
    }

    /// Returns what the user can do about the error, for example `delete the file and create it again`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Error::File { path, error } => return error.advice(path),
            Error::DiskFull { advice: Some(advice), .. } => return Some(advice.clone()),
            Error::DiskFull { advice: None, .. } => "free some space and retry",
            Error::ReadOnly(failure) => return failure.advice(),
            Error::Usage(error) => error.advice()?,
            Error::LogsMissing { .. } => "restore them, or use an older copy of the database",
            Error::LogMissing { .. } | Error::CommittedLogsMissing { .. } => "restore the missing logs",
            Error::Attachment { fault, .. } => match fault {
                AttachmentErrorKind::NotFound => {
                    "restore the file, or move the logs away to start without it"
                }
                AttachmentErrorKind::OtherDatabase => "replace the file with the correct database",
                AttachmentErrorKind::OtherShutdown { .. } => "use the file that belongs to the log",
                AttachmentErrorKind::NotRestored => "restore the backup",
            },
            Error::Corrupt { fault: Corruption::NotNewestLog { .. }, .. } => {
                "restore the newest log, or remove the logs that do not belong to this log stream"
            }
            Error::Corrupt { fault: Corruption::BulkLoad(_), .. }
            | Error::PageTime { bulk_load: true, .. } => {
                "replay the logs onto a database from after the load, or stop before the load"
            }
            Error::Backup(kind) => match kind {
                BackupErrorKind::Running => "wait for the backup, or stop it",
                BackupErrorKind::BulkLoadRunning => "start the backup after the load",
                BackupErrorKind::NoFullBackup(_) | BackupErrorKind::LogsRemoved(_) => "make a full backup",
                _ => return None,
            },
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

    /// Returns the error for damage in a file that is not a database, or outside the pages of a database.
    pub fn corrupt(path: impl Into<PathBuf>, fault: impl Into<Corruption>) -> Error {
        Error::Corrupt { path: path.into(), page: None, fault: fault.into() }
    }

    /// Wraps an I/O error together with the file's path. "No space" errors become [`Error::DiskFull`].
    pub fn io(path: impl Into<PathBuf>, error: &io::Error) -> Error {
        let path = path.into();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::DiskFull { path, advice: jetcell_vfs::io_error_advice(error) }
            }
            kind => Error::Io { path, kind, source: Arc::new(jetcell_vfs::clone_io_error(error)) },
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

    /// Returns the number and the name of the corresponding ESE error. Returns `None` for usage errors, missing tables
    /// and unusable files, for which ESE does not have specific numbers.
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
            Error::Corrupt { fault, page, .. } => fault.jet().unwrap_or(match page {
                Some(_) => (-1018, "JET_errReadVerifyFailure"),
                None => (-1206, "JET_errDatabaseCorrupted"),
            }),
            Error::EarlierVersion { .. } => (-1206, "JET_errDatabaseCorrupted"),
            Error::LogsMissing { .. } => (-543, "JET_errRequiredLogFilesMissing"),
            Error::LogMissing { .. } => (-528, "JET_errMissingLogFile"),
            Error::CommittedLogsMissing { .. } => (-582, "JET_errCommittedLogFilesMissing"),
            Error::Log { fault, .. } => match fault {
                LogErrorKind::Header(LogHeaderError::UnknownVersion { .. })
                | LogErrorKind::ObsoleteRecord(_) => (-514, "JET_errBadLogVersion"),
                LogErrorKind::Length { .. } => (-541, "JET_errLogFileSizeMismatch"),
                LogErrorKind::Header(_)
                | LogErrorKind::Damaged(_)
                | LogErrorKind::UnknownRecord(_)
                | LogErrorKind::RefusedRecord(..) => (-501, "JET_errLogFileCorrupt"),
                LogErrorKind::OtherStream => (-530, "JET_errBadLogSignature"),
                LogErrorKind::OtherHistory => (-515, "JET_errInvalidLogSequence"),
                LogErrorKind::OtherContent => (-590, "JET_errLogChecksumMismatch"),
            },
            Error::PageTime { fault, .. } => fault.jet(),
            Error::Attachment { fault, .. } => match fault {
                AttachmentErrorKind::NotFound | AttachmentErrorKind::OtherDatabase => {
                    (-1216, "JET_errAttachedDatabaseMismatch")
                }
                AttachmentErrorKind::OtherShutdown { .. } => (-551, "JET_errConsistentTimeMismatch"),
                AttachmentErrorKind::NotRestored => (-544, "JET_errSoftRecoveryOnBackupDatabase"),
            },
            Error::Backup(kind) => match kind {
                BackupErrorKind::Running | BackupErrorKind::BulkLoadRunning => {
                    (-505, "JET_errBackupInProgress")
                }
                BackupErrorKind::WrongStep | BackupErrorKind::LogsNotClosed => {
                    (-521, "JET_errInvalidBackupSequence")
                }
                BackupErrorKind::NoFullBackup(_) => (-560, "JET_errMissingFullBackup"),
                BackupErrorKind::CircularLogging => (-526, "JET_errInvalidBackup"),
                BackupErrorKind::LogsRemoved(_) => (-569, "JET_errMissingFileToBackup"),
                BackupErrorKind::LogUnreadable { .. } => (-612, "JET_errLogReadVerifyFailure"),
                BackupErrorKind::LogNotCopied | BackupErrorKind::IncompleteSnapshot => {
                    (-616, "JET_errLogFileNotCopied")
                }
                BackupErrorKind::FreezeTimedOut(_) => (-2402, "JET_errOSSnapshotTimeOut"),
            },
            Error::ReadOnly(_) => (-510, "JET_errLogWriteFail"),
            Error::Io { .. } => (-1022, "JET_errDiskIO"),
        }
    }
}
