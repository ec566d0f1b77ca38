//! Errors returned by an export.

use std::borrow::Cow;
use std::io;

use ese_check::CheckError;

use crate::format::ExportFormat;

/// Reason why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] CheckError),
    /// The database does not contain the table.
    #[error("table {name} does not exist")]
    NoTable {
        /// The requested name.
        name: String,
    },
    /// No table contains the column.
    #[error("none of the exported tables has a column {name}")]
    NoColumn {
        /// The requested name.
        name: String,
    },
    /// No table contains a time column with this name.
    #[error("none of the exported tables has a time column {name}")]
    NoTimes {
        /// The requested name.
        name: String,
    },
    /// The selected profile does not match the database.
    #[error("the database does not have the tables of {0}")]
    OtherProfile(&'static str),
    /// Several tables were selected, but the destination accepts only one.
    #[error("{format} of {tables} tables requires a directory as --output")]
    OneTable {
        /// Output format.
        format: ExportFormat,
        /// Number of selected tables.
        tables: usize,
    },
    /// SQLite cannot be written to standard output.
    #[error("an SQLite database cannot be written to standard output")]
    SqliteToStdout,
    /// This build does not support the format.
    #[error("this build does not support {0}")]
    NotBuilt(ExportFormat),
    /// The output cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}

impl ExportError {
    /// Returns what the user can do about the error, for example `use a different --profile`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            ExportError::Open(error) => return error.advice(),
            ExportError::NoTable { .. } => "to list the tables, use jetcell dump schema",
            ExportError::NoColumn { .. } | ExportError::NoTimes { .. } => {
                "to list the columns, use jetcell dump schema"
            }
            ExportError::OtherProfile(_) => "use a different --profile",
            ExportError::OneTable { .. } => "specify a directory, or choose one table with --table",
            ExportError::SqliteToStdout => "specify a file name with --output",
            ExportError::NotBuilt(format) => {
                return Some(Cow::Owned(format!("build it with `--features {format}` or `--features full`")));
            }
            ExportError::Write(_) => return None,
        }))
    }
}
