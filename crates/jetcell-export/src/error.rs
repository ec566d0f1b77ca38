//! Errors returned by an export.

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
    #[error("table {name} does not exist; list the tables with jetcell dump schema")]
    NoTable {
        /// The requested name.
        name: String,
    },
    /// No table contains the column.
    #[error("no exported table has a column {name}; list the columns with jetcell dump schema")]
    NoColumn {
        /// The requested name.
        name: String,
    },
    /// No table contains a time column with this name.
    #[error("no exported table has a time column {name}; list the columns with jetcell dump schema")]
    NoTimes {
        /// The requested name.
        name: String,
    },
    /// The selected profile does not match the database.
    #[error("the database does not have the tables of {0}; use another --profile")]
    OtherProfile(&'static str),
    /// Several tables were selected, but the destination accepts only one.
    #[error(
        "{format} of {tables} tables needs a directory as --output; give a directory, or choose one \
     table with --table"
    )]
    OneTable {
        /// Output format.
        format: ExportFormat,
        /// Number of selected tables.
        tables: usize,
    },
    /// SQLite cannot be written to standard output.
    #[error("an SQLite database cannot be written to standard output; give a file name with --output")]
    SqliteToStdout,
    /// This build does not support the format.
    #[error("this build does not support {0}; build it with `--features {0}` or `--features full`")]
    NotBuilt(ExportFormat),
    /// The output cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}
