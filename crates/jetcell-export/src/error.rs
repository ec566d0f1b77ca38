//! Errors returned by an export.

use std::io;

use ese_check::CheckError;

use crate::format::Format;

/// Reason why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] CheckError),
    /// The database does not contain the table.
    #[error("there is no table {name}; jetcell dump schema lists them")]
    NoTable {
        /// The requested name.
        name: String,
    },
    /// No table contains the column.
    #[error("no exported table has a column {name}; jetcell dump schema lists them")]
    NoColumn {
        /// The requested name.
        name: String,
    },
    /// No table contains a time column with this name.
    #[error("no exported table has a column {name} with times; jetcell dump schema lists the columns")]
    NoTimes {
        /// The requested name.
        name: String,
    },
    /// The selected profile does not match the database.
    #[error("the database has not the tables of {0}; use another --profile")]
    OtherProfile(&'static str),
    /// Several tables were selected, but the destination accepts only one.
    #[error("{format} of {tables} tables needs a directory as --output; or choose one with --table")]
    OneTable {
        /// Output format.
        format: Format,
        /// Number of selected tables.
        tables: usize,
    },
    /// SQLite cannot be written to standard output.
    #[error("an SQLite database cannot go to standard output; give --output a file name")]
    SqliteToStdout,
    /// This build does not support the format.
    #[error("this build does not write {0}; build it with `--features {0}` or `--features full`")]
    NotBuilt(Format),
    /// The output cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}
