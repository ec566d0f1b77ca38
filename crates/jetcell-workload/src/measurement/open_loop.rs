//! How well the load kept its target rate.

use serde::{Deserialize, Serialize};

use crate::verdict::Rule;

/// How well the load kept its target rate, at the end of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Target rate in operations per second.
    pub target_rate: f64,
    /// Operations that were due.
    pub due: u64,
    /// Due operations that had not started. No latency includes them, so latencies are too low if there are any.
    pub waiting: u64,
    /// Time since the oldest of them was due, in seconds.
    pub behind_seconds: f64,
    /// Due operations that were not completed: they wait, are in progress, conflicted with another thread, or found no
    /// record.
    #[serde(default)]
    pub not_completed: u64,
}

impl OpenLoop {
    /// The rate is kept if no operation waits longer than this.
    pub const TOLERATED_SECONDS: f64 = 0.1;

    /// Share of the due operations that need not be completed, besides the last tenth of a second.
    const TOLERATED_SHARE: f64 = 0.01;

    /// Tolerated number of due operations that are not completed.
    pub fn tolerated(&self) -> f64 {
        self.due as f64 * OpenLoop::TOLERATED_SHARE + self.target_rate * OpenLoop::TOLERATED_SECONDS
    }

    /// Whether the load kept the rate: few operations wait, and few are not completed.
    pub fn kept_up(&self) -> bool {
        self.behind_seconds <= OpenLoop::TOLERATED_SECONDS && self.not_completed as f64 <= self.tolerated()
    }

    /// The rules about the target rate: operations start in time, and they are completed.
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
