//! The error of a check that cannot start.

use std::io;
use std::path::PathBuf;

use ese_format::header::HeaderError;

/// Why a file could not be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The file cannot be opened, or its beginning cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        error: io::Error,
    },
    /// Neither copy of the header is usable.
    #[error(
        "{path}: it has no readable header of an ESE database ({error}); give a database, or restore this one"
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with the first copy.
        error: HeaderError,
    },
    /// The check would begin behind the last page, so that it would look at nothing.
    #[error("{path}: page {from} is behind the last page, {last}; nothing would be checked")]
    BeyondEnd {
        /// The file.
        path: PathBuf,
        /// Page at which the check was to begin.
        from: u32,
        /// Last page of the file.
        last: u32,
    },
}

impl CheckError {
    /// The error without the path, for reports that already name the path.
    pub(crate) fn reason(&self) -> String {
        match self {
            CheckError::Io { error, .. } => error.to_string(),
            CheckError::Header { error, .. } => {
                format!("neither copy of the header can be used: {error}")
            }
            CheckError::BeyondEnd { from, last, .. } => {
                format!("page {from} is behind the last page, {last}; nothing would be checked")
            }
        }
    }
}
