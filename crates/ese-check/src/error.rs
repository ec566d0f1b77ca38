//! Errors that prevent a check from starting.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use ese_format::foreign::FileContent;
use ese_format::header::HeaderError;
use ese_format::recognise::EseFileKind;

/// Error that prevents a file from being checked at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The file cannot be opened, or its start cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        error: io::Error,
    },
    /// Neither copy of the header is usable.
    #[error("{path}: the file does not have a readable ESE database header ({error})")]
    Header {
        /// Path of the file.
        path: PathBuf,
        /// Error in the first copy.
        error: HeaderError,
    },
    /// The file is not a database, but has a different format.
    #[error("{path}: the file is not an ESE database{}", .content.correction(EseFileKind::Database))]
    OtherFormat {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        content: FileContent,
    },
    /// The check would start after the last page and would therefore check nothing.
    #[error("{path}: page {from} is past the last page, {last}, so no page would be checked")]
    BeyondEnd {
        /// Path of the file.
        path: PathBuf,
        /// Page at which the check was to start.
        from: u32,
        /// Last page of the file.
        last: u32,
    },
}

impl CheckError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            CheckError::Header { .. } => {
                Some(Cow::Borrowed("specify a different database, or restore this database"))
            }
            CheckError::OtherFormat { .. } => Some(Cow::Borrowed("specify an ESE database")),
            CheckError::Io { .. } | CheckError::BeyondEnd { .. } => None,
        }
    }

    /// Returns the error message without the path, for reports that already name the path.
    pub(crate) fn reason(&self) -> String {
        match self {
            CheckError::Io { error, .. } => error.to_string(),
            CheckError::Header { error, .. } => {
                format!("neither copy of the header can be used: {error}")
            }
            CheckError::OtherFormat { content, .. } => {
                format!("the file is not an ESE database{}", content.correction(EseFileKind::Database))
            }
            CheckError::BeyondEnd { from, last, .. } => {
                format!("page {from} is past the last page, {last}, so no page would be checked")
            }
        }
    }
}
