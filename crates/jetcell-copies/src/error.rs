//! Errors returned when seeding, following, comparing and activating copies.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use ese_engine::Error;
use ese_format::header::DatabaseState;
use ese_format::{Generation, PageNumber};
use jetcell_backup::BackupError;
use jetcell_input::{error_line, with_advice};
use jetcell_sync::Arc;
use jetcell_vfs::FileStem;

use crate::file_names::RESEED_FILE;
use crate::unfit_reason::UnfitReason;

/// Result type used by this crate's functions.
pub type Result<T> = std::result::Result<T, CopyError>;

/// Reason why a copy cannot be made, followed, compared or activated. Unless the function documents otherwise,
/// neither the active instance nor any database has been changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A storage engine error.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A backup or restore error.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The active side does not respond. Retrying the call later may succeed.
    #[error("{active} is unreachable: {error}")]
    Unreachable {
        /// Address of the active side.
        active: String,
        /// Reason for the failure.
        #[source]
        error: ContactError,
    },
    /// The active side responds but cannot store the copy's registration. Retrying the call later may succeed.
    #[error("{active} does not store the registration of this copy: {error}")]
    NotRegistered {
        /// Address of the active side.
        active: String,
        /// Reason for the failure.
        #[source]
        error: Error,
    },
    /// The copy is being backed up, so its replay is paused. Retrying the call later may succeed.
    #[error("{}: replay is paused while the copy is backed up", .0.display())]
    Paused(PathBuf),
    /// An incremental reseed cannot repair the side, but a full reseed can.
    #[error("an incremental reseed is not possible: {0}")]
    OnlyFullReseed(#[from] FullReseedReason),
    /// An activation without loss needs the active side, which is unreachable.
    #[error("{0}; commits that did not reach the copy would be lost")]
    LossPossible(#[source] Box<CopyError>),
    /// A set of files contains no logs.
    #[error("no logs were found")]
    NoLogs,
    /// None of the directories of an active side contains its logs, which have this base name.
    #[error("no directory in --from contains the logs of the instance, named {0}")]
    NoLogDirectory(FileStem),
    /// No copy was specified.
    #[error("there is no copy to activate")]
    NoCopies,
    /// The logs of a stream are in several directories, for example in these two.
    #[error("{} and {}: the logs are in several directories", .0.display(), .1.display())]
    SeveralLogDirectories(PathBuf, PathBuf),
    /// The request was refused.
    #[error("{}: {reason}", .path.display())]
    Refused {
        /// Directory of the copy, or the file or directory that the reason is about.
        path: PathBuf,
        /// Reason for the refusal.
        #[source]
        reason: Refusal,
    },
}

/// Reason why an active side does not respond.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ContactError {
    /// The directory or the host of the active side cannot be read.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
    /// A file of the active side cannot be read or written.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The directory does not contain any logs.
    #[error("the directory does not contain logs")]
    NoLogs,
}

/// Reason why a request about a copy was refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The directory is not a copy.
    #[error("the directory is not a copy")]
    NotACopy,
    /// The directory is neither a copy nor the log directory of an instance.
    #[error("the directory is neither a copy nor the log directory of an instance")]
    NeitherCopyNorInstance,
    /// The state file of the copy is damaged.
    #[error("the file is not a valid description of a copy ({})", error_line(.0))]
    DamagedState(#[source] Arc<serde_json::Error>),
    /// The state file of the copy has this version, which this program does not support.
    #[error("file version {0} is newer than this program supports")]
    NewerState(u32),
    /// This field of the state file has an impossible value.
    #[error("the {0} is not valid for a copy")]
    InvalidField(&'static str),
    /// The seeding of the copy was interrupted.
    #[error("the seeding of the copy is incomplete")]
    SeedingIncomplete,
    /// The activation of the copy was interrupted.
    #[error("the activation of the copy is incomplete")]
    ActivationIncomplete,
    /// The copy cannot follow its active side.
    #[error("{what}")]
    Unfit {
        /// Reason why the copy cannot follow.
        reason: UnfitReason,
        /// Description and advice in the state file of the copy.
        what: String,
    },
    /// The copy is not following its active side, so it cannot be backed up.
    #[error("the copy is not following its active side, so its databases may be incomplete")]
    NotFollowing,
    /// The copy has no databases.
    #[error("the copy does not have databases")]
    NoDatabases,
    /// The copy has no log.
    #[error("the copy does not have a log yet")]
    NoLog,
    /// A backup of the copy is running.
    #[error("a backup of the copy is running")]
    BackupRunning,
    /// Another process is scanning the copy.
    #[error("another process is already scanning the copy")]
    ScanRunning,
    /// The process that uses the copy did not release this file within the time limit.
    #[error("the process that uses the copy did not pause")]
    DidNotPause,
    /// The active instance is running.
    #[error("the active instance is running")]
    ActiveRunning,
    /// The histories of the copy and of the side at this address could not be compared.
    #[error(
        "the history of the copy could not be compared with the history of {0}: they do not have a common \
         log, or the active side did not respond"
    )]
    NotConfirmed(String),
    /// The copy has never compared its history with the side at this address.
    #[error("the copy has not yet compared its history with {0}, so the amount of lost data is unknown")]
    LossUnknown(String),
    /// More logs would be lost than the caller allows.
    #[error("log generations {first:X} to {last:X} (hexadecimal) did not reach the copy")]
    LossTooLarge {
        /// First lost generation.
        first: u32,
        /// Last lost generation, which was being written.
        last: u32,
    },
    /// A log of the active side is missing or damaged.
    #[error(
        "log generation {:X} (hexadecimal) of the active side is missing or damaged, so the copy cannot be \
         activated without loss", .0.0
    )]
    ActiveLogMissing(Generation),
    /// A database needs logs that did not reach the copy.
    #[error(
        "recovery needs log generations {:X} to {:X} (hexadecimal), but some of them are missing from the log \
         directory", first.0, last.0
    )]
    NeedsLogs {
        /// First missing generation.
        first: Generation,
        /// Last generation that the database needs.
        last: Generation,
    },
    /// A database of the copy is in this state, for example in the middle of a restore.
    #[error("the database is in state {0:?}")]
    DatabaseState(DatabaseState),
    /// A database is not clean after the last step of the activation.
    #[error("the logs do not refer to the database, so recovery could not make it clean")]
    StillDirty,
    /// The active side and the copy have different histories.
    #[error(
        "the current log of the active side does not continue the logs of the copy, because their histories \
         have diverged"
    )]
    Diverged,
    /// The former active side now follows the side at this address.
    #[error("this side is now a copy of {0}, so it cannot hand over the active role")]
    NowCopyOf(String),
    /// A log of the active side is a link.
    #[error("the log is a link, and a handover does not write through links")]
    LogIsALink,
    /// The source and the target of a reseed are the same directory.
    #[error("a side cannot be reseeded from itself")]
    ReseedFromItself,
    /// The source and the target of a seed are the same directory.
    #[error("a copy cannot be seeded into the directory of its own source")]
    SeedIntoSource,
    /// The directory contains a copy or an instance of a different log stream.
    #[error("the directory contains a different log stream")]
    OtherStream,
    /// The directory is already a copy.
    #[error("the directory already contains a copy")]
    AlreadyACopy,
    /// The directory contains files that do not belong to a copy, for example this one.
    #[error("the directory contains other files, such as {}", .0.display())]
    OtherFiles(PathBuf),
    /// A database of the source contains bad pages.
    #[error("the database contains bad pages, so it was not copied")]
    BadPages,
    /// This page of a database is damaged.
    #[error("page {0} cannot be used for the reseed")]
    BadPage(PageNumber),
    /// The source of a reseed changed its state.
    #[error("the other side was started or stopped while its pages were read")]
    SourceChanged,
    /// A log that a reseed needs does not exist at the moment.
    #[error("log generation {:X} (hexadecimal) is currently missing", .0.0)]
    LogMissing(Generation),
    /// A log that a reseed needs cannot be used at the moment.
    #[error("log generation {:X} (hexadecimal) is currently unusable", .0.0)]
    LogUnusable(Generation),
}

/// Reason why an incremental reseed is not possible.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FullReseedReason {
    /// The seeding of the copy was interrupted.
    #[error("the seeding of the copy is incomplete")]
    SeedingIncomplete,
    /// A database in the copy is damaged. The text in the state file of the copy describes the damage.
    #[error("a database in the copy is damaged ({0})")]
    BadDatabase(String),
    /// The list of the pages that an interrupted reseed must still patch is damaged.
    #[error("{RESEED_FILE} of an interrupted reseed is damaged")]
    DamagedRecord,
    /// The two sides have different log streams.
    #[error("the logs belong to a different log stream")]
    OtherStream,
    /// The two sides do not have any log in common.
    #[error("the two sides do not have a common log")]
    NoCommonLog,
    /// A log cannot be read, or is damaged.
    #[error(transparent)]
    Log(Box<Error>),
    /// The diverged logs contain changes of a database that they do not attach.
    #[error("the diverged logs change a database that they do not refer to by name")]
    UnnamedDatabase,
    /// The logs of the other side contain changes of a database that they do not attach.
    #[error("the logs on the other side change a database that they do not refer to by name")]
    UnnamedSourceDatabase,
    /// This side has no database.
    #[error("no database matching these logs was found")]
    NoDatabase,
    /// The other side lacks a database of this side.
    #[error("the other side does not have the same databases")]
    OtherDatabases,
    /// A database of the other side is in the middle of a restore or a reseed.
    #[error("a database on the other side is neither clean nor dirty")]
    SourceState,
    /// The other side has removed this log.
    #[error("log generation {:X} (hexadecimal) no longer exists on the other side", .0.0)]
    LogRemoved(Generation),
}

impl FullReseedReason {
    /// Returns the step by which the user can make an incremental reseed possible, if there is one.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            FullReseedReason::OtherDatabases => Some("also specify their directory with --from"),
            _ => None,
        }
    }
}

impl Refusal {
    pub(crate) fn at(self, path: &Path) -> CopyError {
        CopyError::Refused { path: path.to_path_buf(), reason: self }
    }

    /// Returns what the user can do about the error, for example `use --lossy any`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Refusal::DamagedState(_)
            | Refusal::InvalidField(_)
            | Refusal::DatabaseState(_)
            | Refusal::StillDirty => "reseed the copy with jetcell reseed",
            Refusal::NewerState(_) => "use the program version that made the copy",
            Refusal::SeedingIncomplete => "repeat the command that started it",
            Refusal::ActivationIncomplete => "repeat jetcell activate to complete it",
            Refusal::NotFollowing => "to see its state, use jetcell copies",
            Refusal::NoDatabases => "reseed it",
            Refusal::NoLog => "follow the instance with jetcell replicate until it closes a log",
            Refusal::BackupRunning => "wait for the backup, or stop it",
            Refusal::ScanRunning => "to see its progress, use jetcell copies",
            Refusal::DidNotPause => "stop that process, then retry",
            Refusal::ActiveRunning => "stop it, then activate the copy",
            Refusal::NotConfirmed(_) => {
                "if the active side is reachable, reseed the copy; otherwise retry, or use --lossy"
            }
            Refusal::LossUnknown(_) => "to accept any loss, use --lossy any",
            Refusal::LossTooLarge { first, last } => {
                let closed = last.saturating_sub(*first);
                return Some(Cow::Owned(format!(
                    "repair the active side, or use --lossy {closed} to accept the loss of {closed} closed \
                     generations and of the current generation"
                )));
            }
            Refusal::ActiveLogMissing(_) => {
                "restore the log on the active side, or use --lossy to activate the copy"
            }
            Refusal::NeedsLogs { .. } => {
                "restore these logs in the directory of the copy, or activate another copy"
            }
            Refusal::Diverged => "compare them with jetcell copies --with",
            Refusal::NowCopyOf(_) => "follow that side with jetcell replicate",
            Refusal::LogIsALink => "replace the link with the log",
            Refusal::ReseedFromItself | Refusal::SeedIntoSource | Refusal::OtherStream => {
                "specify a different directory"
            }
            Refusal::AlreadyACopy => "use jetcell reseed to replace it",
            Refusal::OtherFiles(_) => "specify an empty or new directory",
            Refusal::BadPage(_) => "check the database, or reseed from a different side",
            Refusal::SourceChanged | Refusal::LogMissing(_) | Refusal::LogUnusable(_) => "repeat the reseed",
            Refusal::NotACopy => "specify the directory of a copy",
            Refusal::NeitherCopyNorInstance => "specify one of these",
            Refusal::Unfit { .. } | Refusal::BadPages => return None,
        }))
    }
}

impl CopyError {
    pub(crate) fn io(path: impl Into<PathBuf>, error: &io::Error) -> CopyError {
        CopyError::Engine(Error::io(path, error))
    }

    /// Returns what the user can do about the error, for example `omit --incremental to reseed the complete copy`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        let advice = match self {
            CopyError::Engine(error) => return error.advice(),
            // Copies use backups only for seeding.
            CopyError::Backup(BackupError::Stopped) => {
                "the copied data is retained, and the same command continues the seeding"
            }
            CopyError::Backup(error) => return error.advice(),
            CopyError::Refused { reason, .. } => return reason.advice(),
            CopyError::NotRegistered { error, .. }
            | CopyError::Unreachable { error: ContactError::Engine(error), .. } => return error.advice(),
            CopyError::OnlyFullReseed(reason) => {
                let full = "omit --incremental to reseed the complete copy";
                return Some(
                    reason
                        .advice()
                        .map_or(Cow::Borrowed(full), |advice| format!("{advice}, or {full}").into()),
                );
            }
            CopyError::LossPossible(_) => {
                "make the active side reachable, or use --lossy to activate the copy"
            }
            CopyError::SeveralLogDirectories(..) => "move them into one directory",
            CopyError::NoLogDirectory(_) => "also specify that directory",
            _ => return None,
        };
        Some(Cow::Borrowed(advice))
    }

    /// Returns the text of the error together with the advice.
    pub fn full_text(&self) -> String {
        with_advice(self, self.advice())
    }

    /// Returns the number and the name of the corresponding ESE error, if ESE has one.
    pub fn jet_error(&self) -> Option<(i32, &'static str)> {
        match self {
            CopyError::Engine(error) => error.jet_error(),
            CopyError::Backup(error) => error.jet_error(),
            CopyError::Refused { reason: Refusal::NeedsLogs { .. }, .. } => {
                Some((-543, "JET_errRequiredLogFilesMissing"))
            }
            CopyError::Refused { reason: Refusal::DatabaseState(_) | Refusal::StillDirty, .. } => {
                Some((-1206, "JET_errDatabaseCorrupted"))
            }
            CopyError::Refused { reason: Refusal::BadPage(_), .. } => {
                Some((-1018, "JET_errReadVerifyFailure"))
            }
            CopyError::Refused { reason: Refusal::Diverged, .. } => Some((-515, "JET_errInvalidLogSequence")),
            _ => None,
        }
    }

    /// Returns true if the activation was refused because of the state of this copy or of its connection to the
    /// active side. Another copy may have the logs that this copy lacks.
    ///
    /// A copy that is being backed up can be activated later. If logs may be lost, no other copy is tried instead,
    /// because it could lack more logs.
    pub fn may_try_another_copy(&self, may_lose_logs: bool) -> bool {
        match self {
            CopyError::LossPossible(_) => true,
            CopyError::Refused { reason: Refusal::BackupRunning, .. } => !may_lose_logs,
            CopyError::Refused { reason, .. } => matches!(
                reason,
                Refusal::NotACopy
                    | Refusal::DamagedState(_)
                    | Refusal::NewerState(_)
                    | Refusal::InvalidField(_)
                    | Refusal::SeedingIncomplete
                    | Refusal::Unfit { .. }
                    | Refusal::NoDatabases
                    | Refusal::NoLog
                    | Refusal::NotConfirmed(_)
                    | Refusal::LossUnknown(_)
                    | Refusal::LossTooLarge { .. }
                    | Refusal::ActiveLogMissing(_)
                    | Refusal::NeedsLogs { .. }
                    | Refusal::Diverged
            ),
            _ => false,
        }
    }

    /// Returns true if an incremental reseed failed because the logs that it needs are missing or damaged. A full
    /// reseed does not need these logs.
    pub fn needs_full_reseed(&self) -> bool {
        matches!(
            self,
            CopyError::OnlyFullReseed(_)
                | CopyError::Engine(
                    Error::Log { .. }
                        | Error::LogMissing { .. }
                        | Error::LogsMissing { .. }
                        | Error::Corrupt { page: None, .. }
                        | Error::EarlierVersion { .. }
                )
        )
    }

    /// Returns true if the active side is currently unreachable. The bytes copied so far are kept, and retrying the
    /// call later continues from there.
    pub fn is_disconnected(&self) -> bool {
        let error = match self {
            CopyError::Engine(error) | CopyError::Backup(BackupError::Engine(error)) => error,
            _ => return matches!(self, CopyError::Unreachable { .. }),
        };
        matches!(error, Error::Io { kind, .. } if jetcell_vfs::is_disconnected(*kind))
    }

    /// Returns true if the error is temporary: its cause is the active side or a full disk, and the copy is
    /// unchanged.
    pub fn is_temporary(&self) -> bool {
        match self {
            CopyError::Unreachable { .. } | CopyError::NotRegistered { .. } | CopyError::Paused(_) => true,
            CopyError::Engine(error) | CopyError::Backup(BackupError::Engine(error)) => {
                matches!(
                    error,
                    Error::DiskFull { .. }
                        | Error::Io { .. }
                        | Error::ReadOnly(_)
                        | Error::OutOfMemory { .. }
                )
            }
            _ => false,
        }
    }
}
