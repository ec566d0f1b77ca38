//! Errors of preserved states of databases.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Reason why databases were not preserved or restored.
#[derive(Debug, Error)]
pub enum PreservedStateError {
    /// A file or directory cannot be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        error: io::Error,
    },
    /// The database to be copied does not exist.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// The file system cannot share blocks between files.
    #[error("{}: the file system cannot share blocks ({error})", .path.display())]
    NoSharedBlocks {
        /// The file that would share blocks.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        error: io::Error,
    },
}

impl PreservedStateError {
    /// Returns what the user can do about the error.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        matches!(self, PreservedStateError::NoSharedBlocks { .. })
            .then_some("use --reset copy, or btrfs, or xfs with reflink=1")
    }
}
