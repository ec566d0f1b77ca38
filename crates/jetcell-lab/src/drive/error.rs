//! Errors returned by drive tests.

use std::io;
use std::time::Duration;

/// Reason why a test produced no result.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// A transfer failed.
    #[error("{target}: {step}: {error}")]
    Transfer {
        /// Name of the target on which it failed.
        target: String,
        /// Step in which it failed.
        step: String,
        /// Error that the system returned.
        error: io::Error,
    },
    /// A target could not be prepared within the time limit for the whole test.
    #[error(
        "{target}: {step} is not done after the {longest:?} of the whole test; give more time, a smaller size, or no preconditioning"
    )]
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
        "{stage}: the drive has completed nothing for {seconds} s; its transfers are left under way, see the kernel's log"
    )]
    Stalled {
        /// Stage that stalled.
        stage: String,
        /// Time since the last completed transfer, in seconds.
        seconds: u64,
    },
    /// The test was cancelled.
    #[error("stopped; there is no result of a part of a test")]
    Cancelled,
    /// The measuring thread could not be started.
    #[error("the thread of the test cannot start: {0}")]
    Thread(io::Error),
}
