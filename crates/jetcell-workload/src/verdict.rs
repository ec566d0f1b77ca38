//! The verdict of a run and the rules behind it.

use serde::{Deserialize, Serialize};

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All rules hold.
    Pass,
    /// A rule is broken.
    Fail,
    /// The run ended before it could be judged.
    Incomplete,
}

/// Whether a rule holds, as far as it can be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// The rule holds.
    #[default]
    Held,
    /// The rule is broken.
    Broken,
    /// There is no evidence for or against it.
    NotJudged,
}

/// One rule of the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// What the rule is about, with its unit.
    pub name: String,
    /// Whether the measured value must be at most or at least the limit.
    pub bound: Bound,
    /// The limit.
    pub limit: f64,
    /// The measured value, of the worst instance.
    pub measured: f64,
    /// Whether the rule is not broken.
    pub passed: bool,
    /// Whether there was evidence to judge it.
    #[serde(default = "judged", skip_serializing_if = "Clone::clone")]
    pub judged: bool,
    /// Origin of the measured value, and what to examine if the rule is broken.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Direction of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Measurement ≤ limit.
    AtMost,
    /// Measurement ≥ limit.
    AtLeast,
}

/// Rules of results without this field were judged.
fn judged() -> bool {
    true
}

// Names of the rules that a run and the steps of a search share.
pub(crate) const AVERAGE_DATABASE_READ: &str = "Average database read latency (msec)";
pub(crate) const MAXIMUM_DATABASE_READ: &str = "Maximum database read latency of a sample (msec)";
pub(crate) const AVERAGE_LOG_WRITE: &str = "Average log write latency (msec)";
pub(crate) const MAXIMUM_LOG_WRITE: &str = "Maximum log write latency of a sample (msec)";
pub(crate) const STALLS: &str = "Database page fault stalls";
pub(crate) const BAD_IN_BACKUP: &str = "Bad pages read by the backup";
pub(crate) const LOGS_REPLAYED: &str = "Logs replayed of each database";
pub(crate) const COPIES_FAILED: &str = "Copies that could not follow";
pub(crate) const PASSIVE_IO: &str = "Database I/O of a copy over that of its active side";
/// The rule about the measurement itself.
pub(crate) const MEASURED_ENOUGH: &str = "Measured enough (doubts)";

impl Rule {
    /// A rule that holds if `measured` is at most `limit`.
    pub fn at_most(name: &str, limit: f64, measured: f64, note: String) -> Rule {
        let passed = measured <= limit;
        Rule { name: name.into(), bound: Bound::AtMost, limit, measured, passed, judged: true, note }
    }

    /// A rule that holds if `measured` is at least `limit`.
    pub fn at_least(name: &str, limit: f64, measured: f64, note: String) -> Rule {
        let passed = measured >= limit;
        Rule { name: name.into(), bound: Bound::AtLeast, limit, measured, passed, judged: true, note }
    }

    /// Held, broken or not judged.
    pub fn state(&self) -> RuleState {
        match (self.judged, self.passed) {
            (false, _) => RuleState::NotJudged,
            (true, true) => RuleState::Held,
            (true, false) => RuleState::Broken,
        }
    }
}
