//! Errors of meters and power logs.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Reason why a power or energy figure is unavailable.
#[derive(Debug, Error)]
pub enum PowerError {
    /// A file could not be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        error: io::Error,
    },
    /// A power log is invalid or does not cover the requested time window.
    #[error("{}: {what}", .path.display())]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// Description of the error.
        what: String,
    },
    /// A meter does not provide a reading.
    #[error("meter {meter}: {what}")]
    Meter {
        /// Name of the meter.
        meter: String,
        /// Description of the error, and what to do.
        what: String,
    },
}

impl PowerError {
    pub(crate) fn meter(meter: impl Into<String>, what: impl Into<String>) -> PowerError {
        PowerError::Meter { meter: meter.into(), what: what.into() }
    }
}
