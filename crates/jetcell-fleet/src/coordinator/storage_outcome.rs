//! Whether the coordinator has stored the result of a host.

use std::io;
use std::path::PathBuf;

use jetcell_input::error_line;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Whether a host's result was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageOutcome {
    /// The result was stored.
    #[serde(rename = "Ok")]
    Stored(()),
    /// The result was not stored, for this reason.
    #[serde(rename = "Err")]
    Failed(String),
}

/// Reason why a host's result was not stored.
#[derive(Debug, Error)]
pub enum StoreResultError {
    /// The host sent text that cannot be parsed as a result.
    #[error("its result cannot be read: {}", error_line(.0))]
    Invalid(#[source] serde_json::Error),
    /// The result exceeds the maximum size of a result.
    #[error("the result is {bytes} bytes long, which exceeds the maximum")]
    TooLarge {
        /// Size of the result.
        bytes: u64,
    },
    /// The files of the result cannot be written.
    #[error("{}: cannot be written: {error}", .directory.display())]
    Io {
        /// Directory of the result.
        directory: PathBuf,
        /// Error from the operating system.
        #[source]
        error: io::Error,
    },
}
