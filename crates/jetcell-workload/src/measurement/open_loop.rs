//! How far the load fell behind its target rate.

use serde::{Deserialize, Serialize};

use crate::verdict::{RuleKind, VerdictRule};

/// Operations that were due at the target rate but had not started or completed at the end of the measured interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoopBacklog {
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

impl OpenLoopBacklog {
    /// Maximum delay of an operation, in seconds, with which the load still counts as keeping to its rate.
    pub const MAX_DELAY_SECONDS: f64 = 0.1;

    /// Tolerated fraction of due operations that have not completed, in addition to those that became due in the last
    /// tenth of a second.
    const MAX_INCOMPLETE_FRACTION: f64 = 0.01;

    /// Returns how many due operations may be incomplete.
    pub fn max_incomplete(&self) -> f64 {
        self.due as f64 * OpenLoopBacklog::MAX_INCOMPLETE_FRACTION
            + self.target_rate * OpenLoopBacklog::MAX_DELAY_SECONDS
    }

    /// Returns true if the load kept to its rate: few operations are waiting, and few have not completed.
    pub fn kept_rate(&self) -> bool {
        self.behind_seconds <= OpenLoopBacklog::MAX_DELAY_SECONDS
            && self.not_completed as f64 <= self.max_incomplete()
    }

    /// Returns the rules for the target rate: operations start on time and complete.
    pub(crate) fn rules(&self) -> [VerdictRule; 2] {
        let OpenLoopBacklog { target_rate, due, waiting, .. } = self;
        let note = format!(
            "{waiting} of {due} operations at {target_rate} per second had not started when the \
             measurement ended"
        );
        [
            VerdictRule::at_most(
                RuleKind::OperationsBehind,
                OpenLoopBacklog::MAX_DELAY_SECONDS,
                self.behind_seconds,
                note.clone(),
            ),
            VerdictRule::at_most(
                RuleKind::OperationsNotCompleted,
                self.max_incomplete(),
                self.not_completed as f64,
                note,
            ),
        ]
    }
}
