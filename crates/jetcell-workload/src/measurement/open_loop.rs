//! How well the load kept its target rate.

use serde::{Deserialize, Serialize};

use crate::verdict::Rule;

/// How well an open loop was kept up with, at the end of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Operations per second that were asked for.
    pub target_rate: f64,
    /// Operations that were due.
    pub due: u64,
    /// Those of them that had not begun. They are in no latency, so latencies are too low when there are any.
    pub waiting: u64,
    /// How long ago the oldest of them was due.
    pub behind_seconds: f64,
    /// Those of the due ones that were not completed: that wait, are under way, lost against another thread, or found no
    /// record.
    #[serde(default)]
    pub not_completed: u64,
}

impl OpenLoop {
    /// A rate of which no more waits is kept.
    pub const TOLERATED_SECONDS: f64 = 0.1;

    /// The share of the due operations that need not be completed, besides a tenth of a second of them at the end.
    const TOLERATED_SHARE: f64 = 0.01;

    /// So many operations that are not completed are tolerated.
    pub fn tolerated(&self) -> f64 {
        self.due as f64 * OpenLoop::TOLERATED_SHARE + self.target_rate * OpenLoop::TOLERATED_SECONDS
    }

    /// Whether the rate was kept: few operations wait, and few of those that began came to nothing.
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
