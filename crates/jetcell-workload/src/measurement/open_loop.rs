//! Deviation of the load from its target rate.

use serde::{Deserialize, Serialize};

use crate::verdict::Rule;

/// Deviation of the load from its target rate, at the end of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Target rate in operations per second.
    pub target_rate: f64,
    /// Number of operations that were due.
    pub due: u64,
    /// Number of due operations that had not started. No latency includes these operations, so latencies are too low
    /// if the number is not zero.
    pub waiting: u64,
    /// Time since the oldest waiting operation was due, in seconds.
    pub behind_seconds: f64,
    /// Number of due operations that had not completed: they were waiting or in progress, conflicted with another
    /// thread, or found no record.
    #[serde(default)]
    pub not_completed: u64,
}

impl OpenLoop {
    /// Maximum time in seconds that an operation may be late. Up to this delay, the load counts as keeping its rate.
    pub const TOLERATED_SECONDS: f64 = 0.1;

    /// Share of the due operations that may be incomplete, in addition to the operations of the last tenth of a
    /// second.
    const TOLERATED_SHARE: f64 = 0.01;

    /// Returns the tolerated number of due operations that have not completed.
    pub fn tolerated(&self) -> f64 {
        self.due as f64 * OpenLoop::TOLERATED_SHARE + self.target_rate * OpenLoop::TOLERATED_SECONDS
    }

    /// Returns true if the load kept the rate: few operations wait, and few have not completed.
    pub fn kept_up(&self) -> bool {
        self.behind_seconds <= OpenLoop::TOLERATED_SECONDS && self.not_completed as f64 <= self.tolerated()
    }

    /// Returns the rules about the target rate: operations start in time and complete.
    pub(crate) fn rules(&self) -> [Rule; 2] {
        let OpenLoop { target_rate, due, waiting, .. } = self;
        let note =
            format!("{waiting} of {due} operations at {target_rate} per second had not started at the end");
        [
            Rule::at_most(
                "Operations behind the rate (seconds)",
                OpenLoop::TOLERATED_SECONDS,
                self.behind_seconds,
                note.clone(),
            ),
            Rule::at_most(
                "Operations not completed in time",
                self.tolerated(),
                self.not_completed as f64,
                note,
            ),
        ]
    }
}
