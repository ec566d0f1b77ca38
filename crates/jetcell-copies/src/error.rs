//! Errors returned when seeding, following, comparing and activating copies.

/// Result type used by this crate's functions.
pub type Result<T> = std::result::Result<T, CopyError>;

/// Reason why a copy cannot be made, followed, compared or activated. Unless the function documents otherwise,
/// neither the active instance nor any database has been changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A storage engine error.
    #[error(transparent)]
    Engine(#[from] ese_engine::Error),
    /// A backup or restore error.
    #[error(transparent)]
    Backup(#[from] jetcell_backup::BackupError),
    /// The active side does not respond. Retrying the call later may succeed.
    #[error("{active} is unreachable: {what}")]
    Unreachable {
        /// Address of the active side.
        active: String,
        /// Reason for the failure.
        what: String,
    },
    /// The active side responds but cannot store the copy's registration. Retrying the call later may succeed.
    #[error("{active} does not store the registration of this copy: {what}")]
    NotRegistered {
        /// Address of the active side.
        active: String,
        /// Reason for the failure.
        what: String,
    },
    /// The copy is being backed up, so its replay is paused. Retrying the call later may succeed.
    #[error("{}: replay is paused while the copy is backed up", .0.display())]
    Paused(std::path::PathBuf),
    /// An incremental reseed cannot repair the side, but a full reseed can.
    #[error("an incremental reseed is not possible: {0}; omit --incremental to reseed the complete copy")]
    OnlyFullReseed(String),
    /// The request was refused. The text contains the reason and a remedy.
    #[error("{0}")]
    Refused(String),
}

impl CopyError {
    pub(crate) fn io(path: impl Into<std::path::PathBuf>, error: &std::io::Error) -> CopyError {
        CopyError::Engine(ese_engine::Error::io(path, error))
    }

    /// Returns true if an incremental reseed failed because the logs that it needs are missing or damaged. A full
    /// reseed does not need these logs.
    pub fn needs_full_reseed(&self) -> bool {
        matches!(
            self,
            CopyError::OnlyFullReseed(_)
                | CopyError::Engine(
                    ese_engine::Error::Log { .. }
                        | ese_engine::Error::LogMissing { .. }
                        | ese_engine::Error::LogsMissing { .. }
                        | ese_engine::Error::Corrupt { page: None, .. }
                )
        )
    }

    /// Returns true if the active side is currently unreachable. The bytes copied so far are kept, and retrying the
    /// call later continues from there.
    pub fn is_disconnected(&self) -> bool {
        let error = match self {
            CopyError::Engine(error) | CopyError::Backup(jetcell_backup::BackupError::Engine(error)) => error,
            _ => return matches!(self, CopyError::Unreachable { .. }),
        };
        matches!(error, ese_engine::Error::Io { kind, .. } if jetcell_vfs::is_disconnected(*kind))
    }

    /// Returns true if the error is temporary: its cause is the active side or a full disk, and the copy is
    /// unchanged.
    pub fn is_temporary(&self) -> bool {
        match self {
            CopyError::Unreachable { .. } | CopyError::NotRegistered { .. } | CopyError::Paused(_) => true,
            CopyError::Engine(error) | CopyError::Backup(jetcell_backup::BackupError::Engine(error)) => {
                matches!(
                    error,
                    ese_engine::Error::DiskFull { .. }
                        | ese_engine::Error::Io { .. }
                        | ese_engine::Error::ReadOnly(_)
                        | ese_engine::Error::OutOfMemory { .. }
                )
            }
            _ => false,
        }
    }
}

/// Returns the error of an incremental reseed that is not possible.
pub(crate) fn full_reseed_required(why: &str) -> CopyError {
    CopyError::OnlyFullReseed(why.to_string())
}
