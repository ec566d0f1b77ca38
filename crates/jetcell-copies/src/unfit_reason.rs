//! Reasons why a copy cannot follow its active side.

use serde::{Deserialize, Serialize};

/// Reason why a copy cannot follow the active side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnfitReason {
    /// A log was still damaged after three attempts to fetch it.
    BadLog,
    /// The active side has removed logs that the copy does not have.
    LogsGone,
    /// The two sides have different histories.
    Diverged,
    /// A database in the copy is damaged, or its state does not match the position at which the logs continue.
    BadDatabase,
    /// The active side has a database that the copy does not have.
    DatabaseMissing,
    /// An incremental reseed was started but has not completed.
    Reseeding,
}
