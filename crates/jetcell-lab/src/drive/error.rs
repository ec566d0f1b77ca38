//! Errors of tests.

use std::io;
use std::time::Duration;

/// Why a test has no result.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// A transfer failed.
    #[error("{target}: {step}: {error}")]
    Transfer {
        /// Name of the target.
        target: String,
        /// What was done.
        step: String,
        /// What the system said.
        error: io::Error,
    },
    /// A preparation needs more time than the whole test may take.
    #[error(
        "{target}: {step} is not done after the {longest:?} of the whole test; give more time, a smaller size, or no preconditioning"
    )]
    TooLong {
        /// Name of the target.
        target: String,
        /// The preparation.
        step: String,
        /// Longest time of the test.
        longest: Duration,
    },
    /// No transfer ended for a long time. Some are still under way; closing the files of the targets waits for them.
    #[error(
        "{stage}: the drive has completed nothing for {seconds} s; its transfers are left under way, see the kernel's log"
    )]
    Stalled {
        /// What was done.
        stage: String,
        /// For how long.
        seconds: u64,
    },
    /// It was asked to end.
    #[error("stopped; there is no result of a part of a test")]
    Cancelled,
    /// There is no thread for it.
    #[error("the thread of the test cannot start: {0}")]
    Thread(io::Error),
}
