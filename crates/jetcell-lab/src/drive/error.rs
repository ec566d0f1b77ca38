//! Errors returned by drive tests.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

/// Reason why a drive test produced no result.
#[derive(Debug, thiserror::Error)]
pub enum DriveTestError {
    /// A transfer failed.
    #[error("{target}: {step}: {error}")]
    Transfer {
        /// Name of the target on which it failed.
        target: String,
        /// Step in which it failed.
        step: String,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
    /// A target could not be prepared within the time limit for the whole test.
    #[error("{target}: {step} did not finish within {longest:?}, the limit for the whole test")]
    TooLong {
        /// Name of the target.
        target: String,
        /// Preparation step that did not finish.
        step: String,
        /// Time limit for the whole test.
        longest: Duration,
    },
    /// No transfer has completed for a long time. Closing the target files waits for the transfers that are still in
    /// flight.
    #[error(
        "{stage}: the drive has not completed a transfer for {seconds} s, and transfers are still in \
         flight"
    )]
    Stalled {
        /// Stage that stalled.
        stage: String,
        /// Time since the last completed transfer, in seconds.
        seconds: u64,
    },
    /// The test was cancelled.
    #[error("stopped")]
    Cancelled,
    /// The measuring thread could not be started.
    #[error("failed to start the test thread: {0}")]
    Thread(#[source] io::Error),
}

impl DriveTestError {
    /// Returns what the user can do about the error, for example `check the kernel log`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            DriveTestError::TooLong { .. } => {
                "allow more time, choose a smaller size, or omit preconditioning"
            }
            DriveTestError::Stalled { .. } => "check the kernel log",
            DriveTestError::Cancelled => "an incomplete test does not have a result",
            DriveTestError::Transfer { .. } | DriveTestError::Thread(_) => return None,
        }))
    }
}
