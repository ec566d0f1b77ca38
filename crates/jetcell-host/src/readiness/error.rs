//! Reasons why a directory cannot be examined.

use std::io;
use std::path::PathBuf;

/// Reason why a directory cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum ReadinessError {
    /// The directory does not exist, or cannot be accessed.
    #[error("{} cannot be examined: {}", .0.display(), .1)]
    Missing(PathBuf, #[source] io::Error),
    /// The path is not a directory.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// No file can be created in the directory.
    #[error("{} is not writable ({})", .0.display(), .1)]
    NotWritable(PathBuf, #[source] io::Error),
    /// A file in the directory cannot be written.
    #[error("{}: could not write a file: {}", .0.display(), .1)]
    Write(PathBuf, #[source] io::Error),
    /// The free space is unknown.
    #[error("{}: could not determine the free space: {}", .0.display(), .1)]
    Space(PathBuf, #[source] io::Error),
}

impl ReadinessError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            ReadinessError::Missing(..) => "specify an existing directory",
            ReadinessError::NotADirectory(_) => "specify the directory of the test",
            ReadinessError::NotWritable(..) => "change its permissions, or use a different directory",
            ReadinessError::Write(..) => "free some space, or check the kernel log",
            ReadinessError::Space(..) => return None,
        })
    }
}
