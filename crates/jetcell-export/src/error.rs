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
    #[error("table {name} does not exist; to list the tables, use jetcell dump schema")]
    NoTable {
        /// The requested name.
        name: String,
    },
    /// No table contains the column.
    #[error("none of the exported tables has a column {name}; to list the columns, use jetcell dump schema")]
    NoColumn {
        /// The requested name.
        name: String,
    },
    /// No table contains a time column with this name.
    #[error(
        "none of the exported tables has a time column {name}; to list the columns, use jetcell dump \
     schema"
    )]
    NoTimes {
        /// The requested name.
        name: String,
    },
    /// The selected profile does not match the database.
    #[error("the database does not have the tables of {0}; use a different --profile")]
    OtherProfile(&'static str),
    /// Several tables were selected, but the destination accepts only one.
    #[error(
        "{format} of {tables} tables requires a directory as --output; specify a directory, or choose one \
         table with --table"
    )]
    OneTable {
        /// Output format.
        format: ExportFormat,
        /// Number of selected tables.
        tables: usize,
    },
    /// SQLite cannot be written to standard output.
    #[error("an SQLite database cannot be written to standard output; specify a file name with --output")]
    SqliteToStdout,
    /// This build does not support the format.
    #[error("this build does not support {0}; build it with `--features {0}` or `--features full`")]
    NotBuilt(ExportFormat),
    /// The output cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}
