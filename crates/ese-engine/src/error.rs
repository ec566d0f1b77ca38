//! The engine's errors. There are few kinds; each tells the caller what state holds afterwards and how to proceed.

use std::io;
use std::path::PathBuf;

use ese_format::{Generation, LogPosition, PageNumber};
use jetcell_sync::Arc;

/// Result of engine calls.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an engine call. Unless a variant says otherwise, the call changed nothing and the session can continue.
#[derive(Debug, thiserror::Error, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Another session changed the record first. Roll back and retry.
    #[error("write conflict: another transaction changed this record")]
    WriteConflict,
    /// A unique index has this key already.
    #[error("duplicate key")]
    KeyDuplicate,
    /// The key of a row of a bulk load is not above that of the row before. The row is not loaded; the load can go on
    /// without it, and [`crate::Table::insert`] inserts it after the load.
    #[error(
        "the key of the row is below that of the row before, and the bulk load has no room to keep it for an insert: insert it after the load"
    )]
    OutOfOrder,
    /// The program asked to stop. Nothing was changed.
    #[error("stopped on request; nothing was changed")]
    Cancelled,
    /// There is no such record.
    #[error("no record found")]
    RecordNotFound,
    /// A mistake of the caller; the text describes it.
    #[error("{0}")]
    Usage(String),
    /// A fault of the engine itself; the text describes it. Please report it. ESE: `JET_errInternalError`.
    #[error("internal error: {0}")]
    Internal(String),
    /// The version store reached its limit: commit or roll back the oldest transaction. ESE: `JET_errVersionStoreOutOfMemory`.
    #[error("version store is full ({limit_bytes} bytes): a transaction has been open for too long")]
    VersionStoreFull {
        /// Configured limit.
        limit_bytes: usize,
    },
    /// The volume is full, and the operation was not done. Rollback and shutdown still work. Retry after space was
    /// freed.
    #[error("{path}: disk full; free space and retry (nothing was changed)")]
    DiskFull {
        /// File that could not grow.
        path: PathBuf,
    },
    /// The system refused memory within the configured size of the cache. Retry after memory was freed, or open the
    /// instance again with a smaller cache. ESE: `JET_errOutOfMemory`.
    #[error(
        "the system has no memory for {bytes} bytes of the page cache; use a smaller cache, or raise the memory limit of the process"
    )]
    OutOfMemory {
        /// Size of the request.
        bytes: usize,
    },
    /// Another process or instance uses the files.
    #[error("{path} is in use by another process")]
    InUse {
        /// The locked path.
        path: PathBuf,
    },
    /// Stored bytes are wrong; the text names the page or log and describes the fault.
    #[error("{path}: {what}")]
    Corrupt {
        /// File.
        path: PathBuf,
        /// Page number, if the file is a database.
        page: Option<PageNumber>,
        /// Description of the fault.
        what: String,
    },
    /// Logs that recovery needs are missing.
    #[error("{path}: recovery needs log generations {first:X} to {last:X} (hexadecimal), and not all of them are in the log directory",
        first = required.0.0, last = required.1.0)]
    LogsMissing {
        /// Database or log directory.
        path: PathBuf,
        /// First and last generation required.
        required: (Generation, Generation),
    },
    /// Logs that may hold committed transactions are missing. The databases are consistent without them.
    #[error("{path}: log generations {first:X} to {last:X} (hexadecimal) may hold committed transactions, and they are missing",
        first = committed.0.0, last = committed.1.0)]
    CommittedLogsMissing {
        /// Database.
        path: PathBuf,
        /// First and last generation that may hold them.
        committed: (Generation, Generation),
    },
    /// A log file is missing: the newest one, or one between others. Put it back.
    #[error("{path}: log generation {generation:X} (hexadecimal) is missing", generation = generation.0)]
    LogMissing {
        /// Directory, or the path that the file should have.
        path: PathBuf,
        /// The generation.
        generation: Generation,
    },
    /// A log file is damaged, or is not the one that belongs there. Nothing of it was replayed.
    #[error("{path}: at log position {position}: {what}")]
    Log {
        /// File.
        path: PathBuf,
        /// Where in the log.
        position: LogPosition,
        /// Kind of the fault.
        fault: LogFault,
        /// Description of the fault.
        what: String,
    },
    /// A page is not in a state that the log can bring forward. Redo of its generation stopped there.
    #[error("{path}: page {page}: {what} (log record at {position:?})")]
    PageTime {
        /// Database.
        path: PathBuf,
        /// The page.
        page: PageNumber,
        /// The record that does not fit.
        position: LogPosition,
        /// Kind of the fault.
        fault: PageTimeFault,
        /// Description of the fault.
        what: String,
    },
    /// A database is not in the state from which the log continues. It was not changed.
    #[error("{path}: {what}")]
    Attachment {
        /// File.
        path: PathBuf,
        /// Kind of the fault.
        fault: AttachmentFault,
        /// Description of the fault, and what to do.
        what: String,
    },
    /// A backup cannot be made, or cannot go on. The databases are not changed.
    #[error("{what}")]
    Backup {
        /// Kind of the fault.
        fault: BackupFault,
        /// Description of the fault, and what to do.
        what: String,
    },
    /// A write or sync failed, or the rollback of a session failed before the session ended. The instance refuses
    /// further changes. Open it again to recover from the log.
    #[error("instance is read-only after a failure: {0}")]
    ReadOnly(String),
    /// A read failed, or a write that nothing depended on yet.
    #[error("{path}: {message}")]
    Io {
        /// File.
        path: PathBuf,
        /// Text of the operating system's error.
        message: String,
        /// Kind of the error.
        kind: io::ErrorKind,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
}

/// What is wrong with a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// A segment or a record is damaged.
    Damaged,
    /// It is of another log stream: the signatures differ.
    OtherStream,
    /// The generation before it is another one: the creation times differ.
    OtherHistory,
    /// The generation before it has other content: the accumulated checksums differ.
    OtherContent,
    /// It has a record that recovery cannot redo.
    UnknownRecord,
}

/// How the database time of a page differs from what the log expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTimeFault {
    /// It is older: a write was lost, or the file is from another moment.
    Older,
    /// It is between the times before and after the change.
    Newer,
    /// It has a change of a generation that the header of the database does not name: something else changed the file.
    BeyondHeader,
}

/// What is wrong with a database that the log attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachmentFault {
    /// The file is not there, or it is another database.
    Missing,
    /// The file was shut down at another position than the log says: it is an older copy, or something else changed it.
    OtherShutdown,
    /// The file comes from a backup and was not restored.
    NotRestored,
}

/// Why a backup cannot be made, or cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupFault {
    /// Another backup of the instance is running.
    Running,
    /// A step was called too early or too late.
    WrongStep,
    /// A database has no full backup yet.
    NoFullBackup,
    /// The instance removes its logs by itself (circular logging).
    CircularLogging,
    /// Logs since the previous backup were removed.
    LogsRemoved,
    /// A log cannot be read, or is damaged.
    LogUnreadable,
    /// Not all logs were read.
    LogNotCopied,
    /// A freeze lasted too long, and ended by itself.
    FreezeTimedOut,
}

impl Error {
    /// The text of the failure, without its consequences. A caller that stores it wraps it in [`Error::ReadOnly`]
    /// later.
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

    /// ESE's error code for this condition.
    #[doc(alias = "JET_err")]
    pub fn jet_code(&self) -> i32 {
        self.jet().0
    }

    /// The name of [`Error::jet_code`] in ESE.
    pub fn jet_name(&self) -> &'static str {
        self.jet().1
    }

    fn jet(&self) -> (i32, &'static str) {
        match self {
            Error::WriteConflict => (-1102, "JET_errWriteConflict"),
            Error::KeyDuplicate => (-1605, "JET_errKeyDuplicate"),
            Error::OutOfOrder => (-1003, "JET_errInvalidParameter"),
            Error::Cancelled => (-2101, "JET_errCallbackFailed"),
            Error::RecordNotFound => (-1601, "JET_errRecordNotFound"),
            Error::Usage(_) => (-1003, "JET_errInvalidParameter"),
            Error::Internal(_) => (-107, "JET_errInternalError"),
            Error::VersionStoreFull { .. } => (-1069, "JET_errVersionStoreOutOfMemory"),
            Error::DiskFull { .. } => (-1808, "JET_errDiskFull"),
            Error::OutOfMemory { .. } => (-1011, "JET_errOutOfMemory"),
            Error::InUse { .. } => (-1032, "JET_errFileAccessDenied"),
            Error::Corrupt { page: Some(_), .. } => (-1018, "JET_errReadVerifyFailure"),
            Error::Corrupt { page: None, .. } => (-1206, "JET_errDatabaseCorrupted"),
            Error::LogsMissing { .. } => (-543, "JET_errRequiredLogFilesMissing"),
            Error::LogMissing { .. } => (-528, "JET_errMissingLogFile"),
            Error::CommittedLogsMissing { .. } => (-582, "JET_errCommittedLogFilesMissing"),
            Error::Log { fault, .. } => match fault {
                LogFault::Damaged | LogFault::UnknownRecord => (-501, "JET_errLogFileCorrupt"),
                LogFault::OtherStream => (-530, "JET_errBadLogSignature"),
                LogFault::OtherHistory => (-515, "JET_errInvalidLogSequence"),
                LogFault::OtherContent => (-590, "JET_errLogChecksumMismatch"),
            },
            Error::PageTime { fault, .. } => match fault {
                PageTimeFault::Older => (-566, "JET_errDbTimeTooOld"),
                PageTimeFault::Newer => (-567, "JET_errDbTimeTooNew"),
                PageTimeFault::BeyondHeader => (-625, "JET_errDbTimeBeyondMaxRequired"),
            },
            Error::Attachment { fault, .. } => match fault {
                AttachmentFault::Missing => (-1216, "JET_errAttachedDatabaseMismatch"),
                AttachmentFault::OtherShutdown => (-551, "JET_errConsistentTimeMismatch"),
                AttachmentFault::NotRestored => (-544, "JET_errSoftRecoveryOnBackupDatabase"),
            },
            Error::Backup { fault, .. } => match fault {
                BackupFault::Running => (-505, "JET_errBackupInProgress"),
                BackupFault::WrongStep => (-521, "JET_errInvalidBackupSequence"),
                BackupFault::NoFullBackup => (-560, "JET_errMissingFullBackup"),
                BackupFault::CircularLogging => (-526, "JET_errInvalidBackup"),
                BackupFault::LogsRemoved => (-569, "JET_errMissingFileToBackup"),
                BackupFault::LogUnreadable => (-612, "JET_errLogReadVerifyFailure"),
                BackupFault::LogNotCopied => (-616, "JET_errLogFileNotCopied"),
                BackupFault::FreezeTimedOut => (-2402, "JET_errOSSnapshotTimeOut"),
            },
            Error::ReadOnly(_) => (-510, "JET_errLogWriteFail"),
            Error::Io { .. } => (-1022, "JET_errDiskIO"),
        }
    }
}
