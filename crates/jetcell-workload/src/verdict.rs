//! The verdict of a run and the rules that determine it.

use serde::{Deserialize, Serialize};

/// Verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All rules are met.
    Pass,
    /// A rule is broken.
    Fail,
    /// The run ended before it could be judged.
    Incomplete,
}

/// Whether a verdict rule was met, was broken, or could not be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// The rule is met.
    #[default]
    Held,
    /// The rule is broken.
    Broken,
    /// No evidence is available to judge the rule.
    NotJudged,
}

/// A rule that the verdict on a run depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictRule {
    /// Name of the rule with the unit of its value.
    pub name: String,
    /// Whether the limit is a maximum or a minimum for the measured value.
    pub bound: RuleBound,
    /// Limit of the rule.
    pub limit: f64,
    /// Measured value, from the worst instance.
    pub measured: f64,
    /// Whether the rule is met. Also true if the rule could not be judged.
    pub passed: bool,
    /// Whether there was evidence to judge the rule.
    #[serde(default = "judged", skip_serializing_if = "Clone::clone")]
    pub judged: bool,
    /// Source of the measured value, and what to examine if the rule is broken.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Whether a rule's limit is an upper or a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleBound {
    /// The measured value must be at most the limit.
    AtMost,
    /// The measured value must be at least the limit.
    AtLeast,
}

/// Returns the default for older results without this field, in which all rules were judged.
fn judged() -> bool {
    true
}

// Names of the rules that apply both to a run and to the steps of a search.
pub(crate) const AVERAGE_DATABASE_READ: &str = "Average database read latency (msec)";
pub(crate) const MAXIMUM_DATABASE_READ: &str = "Maximum database read latency of a sample (msec)";
pub(crate) const AVERAGE_LOG_WRITE: &str = "Average log write latency (msec)";
pub(crate) const MAXIMUM_LOG_WRITE: &str = "Maximum log write latency of a sample (msec)";
pub(crate) const STALLS: &str = "Database page fault stalls";
pub(crate) const BAD_IN_BACKUP: &str = "Bad pages read by the backup";
pub(crate) const LOGS_REPLAYED: &str = "Logs replayed of each database";
pub(crate) const COPIES_FAILED: &str = "Copies that could not follow";
pub(crate) const PASSIVE_IO: &str = "Database I/O of a copy over that of its active side";
/// Name of the rule for the measurement itself.
pub(crate) const MEASURED_ENOUGH: &str = "Measured enough (doubts)";

impl VerdictRule {
    /// Creates a rule that is met if `measured` is at most `limit`.
    pub fn at_most(name: &str, limit: f64, measured: f64, note: String) -> VerdictRule {
        let passed = measured <= limit;
        VerdictRule {
            name: name.into(),
            bound: RuleBound::AtMost,
            limit,
            measured,
            passed,
            judged: true,
            note,
        }
    }

    /// Creates a rule that is met if `measured` is at least `limit`.
    pub fn at_least(name: &str, limit: f64, measured: f64, note: String) -> VerdictRule {
        let passed = measured >= limit;
        VerdictRule {
            name: name.into(),
            bound: RuleBound::AtLeast,
            limit,
            measured,
            passed,
            judged: true,
            note,
        }
    }

    /// Returns the state of the rule.
    pub fn state(&self) -> RuleState {
        match (self.judged, self.passed) {
            (false, _) => RuleState::NotJudged,
            (true, true) => RuleState::Held,
            (true, false) => RuleState::Broken,
        }
    }
}
