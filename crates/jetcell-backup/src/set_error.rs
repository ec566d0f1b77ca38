//! Errors in the combination of backups: they do not match each other, the logs, or the request.

use std::fmt;
use std::path::PathBuf;

use ese_format::log::header::LogHeaderError;
use ese_format::{LogPosition, LogTime};
use jetcell_vfs::FileName;

use crate::backup_type::BackupType;
use crate::bad_page::StoredBadPage;
use crate::file_names::{MANIFEST_FILE, RESTORED_FILE};

/// Reason why backups do not match each other, the logs, or the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackupSetError {
    /// The target directory for a backup or a restore is not empty.
    #[error("{}: {content}", .directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// Content of the directory.
        content: DirectoryContent,
    },
    /// The directory does not contain a backup.
    #[error("{}: the directory is not a backup, because {MANIFEST_FILE} is missing", .0.display())]
    NotABackup(PathBuf),
    /// The directory contains an interrupted backup.
    #[error("{}: the backup was interrupted and is incomplete", .0.display())]
    Incomplete(PathBuf),
    /// All databases have bad pages.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    BadPages(Vec<BadDatabase>),
    /// None of the given backups contains databases.
    #[error("none of the backups contains databases")]
    NoFullBackup,
    /// No earlier backup is known that the new one could continue.
    #[error("no earlier backup was found to continue")]
    NoEarlierBackup,
    /// The earlier backups do not contain this database.
    #[error("{}: the database does not have a full backup yet", .0.display())]
    NewDatabase(PathBuf),
    /// Tables were loaded in bulk into this database after the previous backup.
    #[error(
        "{}: tables were loaded in bulk after the previous backup, and their pages are not in the logs",
        .0.display()
    )]
    BulkLoaded(PathBuf),
    /// The log of this generation belongs to a different history than the previous backup.
    #[error(
        "log generation {0:X} (hexadecimal) does not continue the previous backup: the databases were \
         restored after that backup and their history diverged"
    )]
    RestoredSince(u32),
    /// The database in this file is not the one that the manifest describes.
    #[error("{}: the database does not match its manifest", .0.display())]
    OtherDatabase(PathBuf),
    /// The database is not clean after the replay.
    #[error(
        "{}: the database is not clean after the replay: the logs do not refer to it, so the database and the \
         logs are from different times", .0.display()
    )]
    NotClean(PathBuf),
    /// The backup in this directory ends before the full backup.
    #[error(
        "{}: the backup ends before the full backup, so it cannot continue the full backup", .0.display()
    )]
    EndsBeforeFullBackup(PathBuf),
    /// The replay would stop before the databases are consistent.
    #[error("the earliest position that a restore of these backups can reach is {earliest}{}", begun(*time))]
    EndTooLow {
        /// Earliest position that can be reached.
        earliest: LogPosition,
        /// Time at which the log segment before this position was begun.
        time: Option<LogTime>,
    },
    /// The backup does not contain a log that its database needs to be consistent.
    #[error(
        "{}: {file} needs log generation {generation:X} (hexadecimal), which is not in the backup",
        .directory.display()
    )]
    NeededLogMissing {
        /// Directory of the backup.
        directory: PathBuf,
        /// Name of the database.
        file: FileName,
        /// Generation of the log.
        generation: u32,
    },
    /// The log directly after the full backup is missing.
    #[error(
        "{}: log generation {generation:X} (hexadecimal) is not in any of the backups", .directory.display()
    )]
    StartTooHigh {
        /// Directory of the backup that needs the log.
        directory: PathBuf,
        /// Generation of the log.
        generation: u32,
    },
    /// A log between two backups is missing.
    #[error(
        "{}: log generation {generation:X} (hexadecimal) is not in any of the backups", .directory.display()
    )]
    Gap {
        /// Directory of the backup that needs the log.
        directory: PathBuf,
        /// Generation of the log.
        generation: u32,
    },
    /// The logs after the previous backup were removed.
    #[error(
        "the previous backup ends with log generation {last:X}, but the oldest remaining log generation is \
         {oldest:X} (hexadecimal)"
    )]
    LogsRemoved {
        /// Last generation in the previous backup.
        last: u32,
        /// Oldest generation that still exists.
        oldest: u32,
    },
    /// The backup in this directory and the full backup have different log streams.
    #[error("{}: the backup and the full backup belong to different log streams", .0.display())]
    OtherStream(PathBuf),
    /// The logs of the backup in this directory belong to a different log stream than its manifest says.
    #[error("{}: the logs of the backup do not belong to the log stream in its manifest", .0.display())]
    OtherStreamInBackup(PathBuf),
    /// The surviving logs in this directory belong to a different log stream than the backup.
    #[error("{}: the surviving logs and the backup belong to different log streams", .0.display())]
    OtherSurvivingLogs(PathBuf),
    /// The earlier backup belongs to a different log stream than the instance.
    #[error("the earlier backup belongs to a different log stream")]
    OtherEarlierBackup,
    /// This directory does not contain surviving logs.
    #[error("{}: the directory does not contain logs", .0.display())]
    NoSurvivingLogs(PathBuf),
    /// The log of this generation is neither in the backups nor among the surviving logs.
    #[error("log generation {0:X} (hexadecimal) is neither in the backups nor among the surviving logs")]
    LogMissing(u32),
    /// The header of a surviving log is damaged, and logs follow it.
    #[error("{}: {error}", .path.display())]
    LogDamaged {
        /// Path of the log.
        path: PathBuf,
        /// The damage.
        error: LogHeaderError,
    },
    /// The first log for the new backup is missing.
    #[error("log generation {0:X} (hexadecimal), which this backup must start with, is missing")]
    FirstLogMissing(u32),
    /// Two backups belong to different histories.
    #[error(
        "{}: its log generation {generation:X} (hexadecimal) does not continue the logs of the other \
         backups: the histories diverged after a restore", .directory.display()
    )]
    OtherHistory {
        /// Directory of one of the backups.
        directory: PathBuf,
        /// Generation of the log that does not continue the others.
        generation: u32,
    },
}

/// Content of a directory that should be empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryContent {
    /// Files in the target directory of a backup.
    #[error("the directory is not empty")]
    Files,
    /// Files in the target directory of a snapshot.
    #[error("the directory is not empty")]
    SnapshotFiles,
    /// Files in the target directory of a restore.
    #[error("the directory is not empty")]
    InstanceFiles,
    /// The directory exists, but the snapshot method creates it.
    #[error("the path already exists, but a subvolume snapshot requires a new path")]
    ExistingDirectory,
    /// A complete backup of a different kind, source or state.
    #[error("the directory already contains a complete backup ({}, made at {made})", .kind.to_engine_kind())]
    Backup {
        /// Kind of the backup.
        kind: BackupType,
        /// Time at which the backup ended.
        made: LogTime,
    },
    /// The result of a different restore, or a changed result of the same restore.
    #[error("{difference} (restored at {restored})")]
    Restore {
        /// Time of the restore.
        restored: LogTime,
        /// How the result differs from that of the requested restore.
        difference: RestoreDifference,
    },
}

/// How the result of an earlier restore differs from that of the requested restore.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreDifference {
    /// Other backups were restored, or they were replayed to another position.
    #[error("the directory contains the result of another restore")]
    OtherRestore,
    /// This database has changed.
    #[error("{0} was used or removed after the directory was restored from these backups")]
    DatabaseUsed(FileName),
    /// The record of the restore names unknown databases.
    #[error("{RESTORED_FILE} names databases that are not in the backup")]
    UnknownDatabases,
    /// The record of the restore does not name all databases.
    #[error("{RESTORED_FILE} does not list all databases in the backup")]
    MissingDatabases,
}

/// A database with bad pages, which cannot be backed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDatabase {
    /// Path of the database.
    pub source: PathBuf,
    /// Number of bad pages.
    pub count: u64,
    /// The first bad pages.
    pub pages: Vec<StoredBadPage>,
}

impl fmt::Display for BadDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> =
            self.pages.iter().take(5).map(|bad| format!("{} ({})", bad.page, bad.flaw)).collect();
        let more = if self.count > named.len() as u64 { ", ..." } else { "" };
        write!(f, "{}: bad pages: {}{more}", self.source.display(), named.join(", "))
    }
}

/// Formats the time of a log segment.
fn begun(time: Option<LogTime>) -> String {
    time.map(|time| format!(" ({time})")).unwrap_or_default()
}

impl BackupSetError {
    /// Returns the number and the name of the corresponding ESE error.
    pub fn jet_error(&self) -> (i32, &'static str) {
        match self {
            BackupSetError::NotEmpty { .. } => (-504, "JET_errBackupDirectoryNotEmpty"),
            BackupSetError::NotABackup(_) | BackupSetError::Incomplete(_) => {
                (-615, "JET_errRestoreOfNonBackupDatabase")
            }
            BackupSetError::BadPages(_) => (-1018, "JET_errReadVerifyFailure"),
            BackupSetError::NoFullBackup
            | BackupSetError::NoEarlierBackup
            | BackupSetError::NewDatabase(_)
            | BackupSetError::BulkLoaded(_)
            | BackupSetError::RestoredSince(_) => (-560, "JET_errMissingFullBackup"),
            BackupSetError::OtherDatabase(_) | BackupSetError::NotClean(_) => {
                (-552, "JET_errDatabasePatchFileMismatch")
            }
            BackupSetError::EndsBeforeFullBackup(_) | BackupSetError::EndTooLow { .. } => {
                (-553, "JET_errEndingRestoreLogTooLow")
            }
            BackupSetError::StartTooHigh { .. } => (-554, "JET_errStartingRestoreLogTooHigh"),
            BackupSetError::OtherStream(_)
            | BackupSetError::OtherStreamInBackup(_)
            | BackupSetError::OtherSurvivingLogs(_)
            | BackupSetError::OtherEarlierBackup => (-555, "JET_errGivenLogFileHasBadSignature"),
            BackupSetError::Gap { .. } | BackupSetError::LogsRemoved { .. } => {
                (-556, "JET_errGivenLogFileIsNotContiguous")
            }
            BackupSetError::NoSurvivingLogs(_)
            | BackupSetError::NeededLogMissing { .. }
            | BackupSetError::LogMissing(_)
            | BackupSetError::FirstLogMissing(_) => (-557, "JET_errMissingRestoreLogFiles"),
            BackupSetError::LogDamaged { .. } => (-501, "JET_errLogFileCorrupt"),
            BackupSetError::OtherHistory { .. } => (-515, "JET_errInvalidLogSequence"),
        }
    }

    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self {
            BackupSetError::NotEmpty { content, .. } => match content {
                DirectoryContent::Files => "specify an empty or new directory",
                DirectoryContent::SnapshotFiles => {
                    "specify an empty or new directory (an interrupted snapshot cannot be continued)"
                }
                DirectoryContent::ExistingDirectory | DirectoryContent::Backup { .. } => {
                    "specify a different directory"
                }
                DirectoryContent::InstanceFiles | DirectoryContent::Restore { .. } => {
                    "specify a different directory, or use --force to overwrite the files in it"
                }
            },
            BackupSetError::NotABackup(_) => "specify the directory of a backup",
            BackupSetError::Incomplete(_) => "to continue it, repeat it into the same directory",
            BackupSetError::NoFullBackup => "also specify the full backup that they continue",
            BackupSetError::NoEarlierBackup | BackupSetError::NewDatabase(_) => "make a full backup first",
            BackupSetError::BulkLoaded(_)
            | BackupSetError::RestoredSince(_)
            | BackupSetError::LogsRemoved { .. }
            | BackupSetError::FirstLogMissing(_) => "make a full backup",
            BackupSetError::EndTooLow { .. } => "choose a later end, or an older full backup",
            BackupSetError::StartTooHigh { .. } | BackupSetError::Gap { .. } => {
                "also specify the backup that contains it"
            }
            BackupSetError::OtherEarlierBackup => "specify the correct backup, or make a full backup",
            BackupSetError::LogMissing(_) | BackupSetError::LogDamaged { .. } => {
                "restore the log, or use --until to stop before it"
            }
            BackupSetError::OtherHistory { .. } => "omit the backups of one of the histories",
            BackupSetError::NeededLogMissing { .. } => "use another backup",
            BackupSetError::BadPages(_)
            | BackupSetError::OtherDatabase(_)
            | BackupSetError::NotClean(_)
            | BackupSetError::EndsBeforeFullBackup(_)
            | BackupSetError::OtherStream(_)
            | BackupSetError::OtherStreamInBackup(_)
            | BackupSetError::OtherSurvivingLogs(_)
            | BackupSetError::NoSurvivingLogs(_) => return None,
        })
    }
}
