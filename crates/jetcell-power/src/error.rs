//! Errors of meters and logs.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no figure.
#[derive(Debug, Error)]
pub enum PowerError {
    /// A file could not be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A log that is none, or that lacks what is asked for.
    #[error("{}: {what}", .path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A meter that gives no figure.
    #[error("meter {meter}: {what}")]
    Meter {
        /// Its name.
        meter: String,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl PowerError {
    pub(crate) fn meter(meter: impl Into<String>, what: impl Into<String>) -> PowerError {
        PowerError::Meter { meter: meter.into(), what: what.into() }
    }
}
