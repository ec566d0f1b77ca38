//! Reasons why a backup or a restore is refused, or a snapshot fails.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use ese_format::header::DatabaseState;
use jetcell_sync::Arc;
use jetcell_vfs::FileName;

/// Reason why a backup or a restore was refused, or a snapshot failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupRefusal {
    /// The volume is too small.
    #[error("{}: the backup needs {bytes} bytes, but only {free} are free", .directory.display())]
    NeedsSpace {
        /// Directory of the backup.
        directory: PathBuf,
        /// Size of the backup in bytes.
        bytes: u64,
        /// Free space in bytes.
        free: u64,
    },
    /// Two of the given backups contain databases.
    #[error("{} and {} both contain databases", .0.display(), .1.display())]
    TwoFullBackups(PathBuf, PathBuf),
    /// The directory contains several backups, but only one was expected.
    #[error("{}: the directory contains {} backups", .directory.display(), .found.len())]
    SeveralBackups {
        /// The directory.
        directory: PathBuf,
        /// Directories of the backups.
        found: Vec<PathBuf>,
    },
    /// A database has a name that a restore uses for another file.
    #[error("{0}: a restore uses this name for another file, so a database cannot use it")]
    ReservedName(FileName),
    /// The target of the restore is one of the backups.
    #[error("{}: the restore would overwrite the backup", .0.display())]
    RestoreOntoBackup(PathBuf),
    /// The restore would remove the only copy of this log, whose header is damaged.
    #[error("{}: the restore would remove this log, whose header is damaged", .0.display())]
    OverwritesDamagedLog(PathBuf),
    /// No database was found.
    #[error("no database was found next to the logs, so there is nothing to back up")]
    NoDatabase,
    /// A database is being repaired, restored or reseeded.
    #[error("{}: a database in state {state:?} cannot be backed up", .path.display())]
    DatabaseState {
        /// Database file.
        path: PathBuf,
        /// State of the database.
        state: DatabaseState,
    },
    /// Logs cannot be removed after a snapshot.
    #[error("logs cannot be removed after a snapshot")]
    SnapshotRemovesLogs,
    /// A snapshot is always a full backup.
    #[error("a snapshot contains databases and cannot continue another backup")]
    SnapshotIsFull,
    /// The directory of the snapshot is inside the directory of a file of the instance.
    #[error("{}: the directory is inside {}", .directory.display(), .outer.display())]
    SnapshotInside {
        /// Directory of the snapshot.
        directory: PathBuf,
        /// Directory of the instance.
        outer: PathBuf,
    },
    /// The files of the instance are in several directories.
    #[error("{}: the file is not in {}", .file.display(), .directory.display())]
    SeveralDirectories {
        /// One of the files.
        file: PathBuf,
        /// Directory of the other files.
        directory: PathBuf,
    },
    /// The caller stopped the snapshot.
    #[error("the backup was stopped; no backup was made")]
    SnapshotStopped,
    /// The snapshot took too long.
    #[error("the snapshot timed out; no backup was made")]
    SnapshotTimedOut,
    /// The file system of this file cannot share blocks between files.
    #[error(
        "{}: the file system cannot share blocks between files, so reflink cannot be used", .0.display()
    )]
    NoReflink(PathBuf),
    /// A file and its clone would be on different file systems.
    #[error("{}: the path and {} are on different file systems, which cannot share blocks", .to.display(), .from.display())]
    OtherFileSystem {
        /// The original file.
        from: PathBuf,
        /// The clone.
        to: PathBuf,
    },
    /// The program that makes the snapshot failed.
    #[error("{name}: {failure}; no backup was made")]
    Program {
        /// Description of the program.
        name: &'static str,
        /// Reason for the failure.
        #[source]
        failure: ProgramFailure,
    },
    /// The length of a file in the snapshot differs from that of the original.
    #[error(
        "{}: the file is {bytes} bytes long in the snapshot, but the original is {expected} bytes long, so \
         the snapshot is not a backup", .path.display()
    )]
    SnapshotFileLength {
        /// File of the snapshot.
        path: PathBuf,
        /// Length of the file in the snapshot, in bytes.
        bytes: u64,
        /// Length of the original in bytes.
        expected: u64,
    },
    /// The snapshot does not contain this file.
    #[error("{}: the snapshot does not contain this file, so the snapshot is not a backup", .0.display())]
    SnapshotFileMissing(PathBuf),
    /// The snapshot in this directory is read-only.
    #[error(
        "{}: the snapshot is not writable, but the manifest of the backup must be stored there", .0.display()
    )]
    ReadOnlySnapshot(PathBuf),
}

/// Reason why a program that makes a snapshot failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProgramFailure {
    /// The program with this name is not installed.
    #[error("{} is not installed", .0.display())]
    NotInstalled(PathBuf),
    /// The program could not be started, or its exit could not be awaited.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
    /// The program took too long.
    #[error("the command timed out and was stopped")]
    TimedOut,
    /// The program failed without a message.
    #[error("{0}")]
    Exit(ExitStatus),
    /// The program failed with this message.
    #[error("{0}: {1}")]
    Message(ExitStatus, String),
}

impl BackupRefusal {
    pub(crate) fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            BackupRefusal::SeveralBackups { found, .. } => {
                let first: Vec<String> =
                    found.iter().take(3).map(|path| path.display().to_string()).collect();
                let more = if found.len() > first.len() { ", ..." } else { "" };
                return Some(format!("specify one of them: {}{more}", first.join(", ")).into());
            }
            BackupRefusal::NeedsSpace { .. } => "free some space, or specify a different directory",
            BackupRefusal::TwoFullBackups(..) => "specify only one of them",
            BackupRefusal::ReservedName(_) => "rename the database",
            BackupRefusal::RestoreOntoBackup(_) | BackupRefusal::OverwritesDamagedLog(_) => {
                "specify a different directory"
            }
            BackupRefusal::DatabaseState { .. } => "repair it first",
            BackupRefusal::SnapshotInside { .. } => "specify a directory outside it",
            BackupRefusal::SeveralDirectories { .. } => {
                "a snapshot requires all databases and logs in one directory"
            }
            BackupRefusal::NoReflink(_) => "back up without a snapshot, or use another method",
            BackupRefusal::ReadOnlySnapshot(_) => "make a writable snapshot",
            _ => return None,
        }))
    }
}
