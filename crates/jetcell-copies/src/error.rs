//! Why a copy cannot be made, followed, compared or activated.

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, CopyError>;

/// Why a copy cannot be made, followed, compared or activated. Neither the active instance nor a database is changed, unless
/// the function says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The engine's error.
    #[error(transparent)]
    Engine(#[from] ese_engine::Error),
    /// The error of a backup or a restore.
    #[error(transparent)]
    Backup(#[from] jetcell_backup::BackupError),
    /// The active side does not answer. The same call may succeed later.
    #[error("{active} cannot be reached: {what}")]
    Unreachable {
        /// The active side.
        active: String,
        /// Why.
        what: String,
    },
    /// The active side answers, and does not store the registration of the copy. The same call may succeed later.
    #[error("{active} does not store the registration of this copy: {what}")]
    NotRegistered {
        /// The active side.
        active: String,
        /// Why.
        what: String,
    },
    /// The copy is being backed up, so its replay rests. The same call may succeed later.
    #[error("{}: replay rests while the copy is backed up", .0.display())]
    Paused(std::path::PathBuf),
    /// An incremental reseed cannot bring the side back; a full one can.
    #[error("an incremental reseed is not possible: {0}; reseed the whole copy, without --incremental")]
    OnlyFullReseed(String),
    /// The request cannot be carried out; the text says why, and what to do.
    #[error("{0}")]
    Refused(String),
}

impl CopyError {
    pub(crate) fn io(path: impl Into<std::path::PathBuf>, error: &std::io::Error) -> CopyError {
        CopyError::Engine(ese_engine::Error::io(path, error))
    }

    /// Whether an incremental reseed failed for a reason that a full one does not have: what it needs of the logs is gone or
    /// damaged.
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

    /// Whether the active side cannot be reached now. What was copied is kept, so that the same call goes on where it was.
    pub fn is_out_of_reach(&self) -> bool {
        let error = match self {
            CopyError::Engine(error) | CopyError::Backup(jetcell_backup::BackupError::Engine(error)) => error,
            _ => return matches!(self, CopyError::Unreachable { .. }),
        };
        matches!(error, ese_engine::Error::Io { kind, .. } if jetcell_vfs::is_out_of_reach(*kind))
    }

    /// Whether the error concerns the active side or a full disk, so that the copy is as good as before.
    pub fn is_passing(&self) -> bool {
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
