//! Reasons why maintenance is not possible.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ese_engine::Error;
use jetcell_backup::RecoveryError;
use jetcell_copies::CopyError;

/// Reason why the maintenance of a stopped instance or a copy failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaintenanceError {
    /// A storage engine error.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The copy cannot be scanned.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The instance is in use, or its logs are not in one directory.
    #[error(transparent)]
    Instance(#[from] RecoveryError),
    /// A file cannot be read, or the event file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The files contain no database of the log stream.
    #[error("found no database matching these logs")]
    NoDatabase,
    /// The directory of a copy was specified together with other paths.
    #[error("{} is a copy", .0.display())]
    OnlyOneCopy(PathBuf),
    /// A copy can only be scanned.
    #[error("{}: a copy only replays the changes of its active side", .0.display())]
    OnlyScan(PathBuf),
    /// A maintenance window was specified for a copy.
    #[error("{}: a copy is scanned immediately", .0.display())]
    CopyWindow(PathBuf),
    /// A maintenance window was specified, but none of the requested tasks uses one.
    #[error("--maintenance-window applies only to scan, zero, defrag and layout")]
    UnusedWindow,
}

/// Reason why some tasks were not run on a database.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DatabaseFailure {
    /// The database cannot be attached, so no task was run.
    #[error(transparent)]
    Unattached(Error),
    /// A task failed or could not be started. Repeating the request resumes the work.
    #[error(transparent)]
    Task(#[from] Error),
    /// A background task failed with this message. Repeating the request resumes the work.
    #[error("{0}")]
    Background(String),
    /// The database's instance could not be opened or shut down.
    #[error(transparent)]
    Instance(Arc<MaintenanceError>),
}

impl MaintenanceError {
    /// Returns the number and the name of the corresponding ESE error, if ESE has one.
    pub fn jet_error(&self) -> Option<(i32, &'static str)> {
        match self {
            MaintenanceError::Engine(error) => error.jet_error(),
            MaintenanceError::Copy(error) => error.jet_error(),
            MaintenanceError::Instance(error) => error.jet_error(),
            _ => None,
        }
    }

    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            MaintenanceError::Engine(error) => return error.advice(),
            MaintenanceError::Copy(error) => return error.advice(),
            MaintenanceError::Instance(error) => return error.advice(),
            MaintenanceError::NoDatabase => "also specify the database file",
            MaintenanceError::OnlyOneCopy(_) => "specify only its directory",
            MaintenanceError::OnlyScan(_) => "use only --tasks scan",
            MaintenanceError::CopyWindow(_) => "omit --maintenance-window",
            MaintenanceError::UnusedWindow => "for example, use --tasks scan",
            MaintenanceError::Io(_) => return None,
        }))
    }
}

impl DatabaseFailure {
    /// Returns the number and the name of the corresponding ESE error, if ESE has one.
    pub fn jet_error(&self) -> Option<(i32, &'static str)> {
        match self {
            DatabaseFailure::Unattached(error) | DatabaseFailure::Task(error) => error.jet_error(),
            DatabaseFailure::Background(_) => None,
            DatabaseFailure::Instance(error) => error.jet_error(),
        }
    }

    /// Returns what the user can do about the failure.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            DatabaseFailure::Unattached(error) | DatabaseFailure::Task(error) => error.advice(),
            DatabaseFailure::Background(_) => None,
            DatabaseFailure::Instance(error) => error.advice(),
        }
    }
}
