//! How far the load fell behind its target rate.

use serde::{Deserialize, Serialize};

use crate::verdict::Rule;

/// How far the load had fallen behind its target rate at the end of the measured interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Target rate in operations per second.
    pub target_rate: f64,
    /// Number of operations that were due.
    pub due: u64,
    /// Number of due operations that had not started. They are not included in any latency, so if this number is not
    /// zero, the reported latencies are too low.
    pub waiting: u64,
    /// Seconds since the oldest waiting operation became due.
    pub behind_seconds: f64,
    /// Number of due operations that had not completed: they were waiting or in progress, had a conflict with another
    /// thread, or found no record.
    #[serde(default)]
    pub not_completed: u64,
}

impl OpenLoop {
    /// Maximum delay of an operation, in seconds, with which the load still counts as keeping to its rate.
    pub const TOLERATED_SECONDS: f64 = 0.1;

    /// Tolerated fraction of due operations that have not completed, in addition to those that became due in the last
    /// tenth of a second.
    const TOLERATED_SHARE: f64 = 0.01;

    /// Returns how many due operations may be incomplete.
    pub fn tolerated(&self) -> f64 {
        self.due as f64 * OpenLoop::TOLERATED_SHARE + self.target_rate * OpenLoop::TOLERATED_SECONDS
    }

    /// Returns true if the load kept to its rate: few operations are waiting, and few have not completed.
    pub fn kept_up(&self) -> bool {
        self.behind_seconds <= OpenLoop::TOLERATED_SECONDS && self.not_completed as f64 <= self.tolerated()
    }

    /// Returns the rules for the target rate: operations start on time and complete.
    pub(crate) fn rules(&self) -> [Rule; 2] {
        let OpenLoop { target_rate, due, waiting, .. } = self;
        let note =
            format!("{waiting} of {due} operations at {target_rate} per second had not started when the \
             measurement ended");
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
