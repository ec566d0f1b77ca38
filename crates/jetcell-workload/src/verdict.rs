//! The verdict of a run and the rules that determine it.

use jetcell_input::Unit;
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
    #[serde(default)]
    kind: RuleKind,
    /// Title of the rule, including the unit of its value.
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

impl RuleBound {
    /// Returns the sign that precedes the limit: `≤` or `≥`.
    pub fn sign(self) -> char {
        match self {
            RuleBound::AtMost => '≤',
            RuleBound::AtLeast => '≥',
        }
    }
}

/// Returns the default for older results without this field, in which all rules were judged.
fn judged() -> bool {
    true
}

/// Defines the kinds of rules with the titles of the rules and the units of their values.
macro_rules! rule_kinds {
    ($($kind:ident: $title:literal, $unit:ident;)*) => {
        /// Kind of a verdict rule: the quantity that the rule limits. Programs identify a rule by its kind, and people
        /// identify it by its title.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum RuleKind {
            $(#[doc = $title] $kind,)*
            /// The kind is not known to this version, or the result was written before kinds were stored.
            #[default]
            #[serde(other)]
            Other,
        }

        impl RuleKind {
            /// All known kinds.
            const ALL: &'static [RuleKind] = &[$(RuleKind::$kind),*];

            /// Returns the title of rules of this kind.
            pub fn title(self) -> &'static str {
                match self {
                    $(RuleKind::$kind => $title,)*
                    RuleKind::Other => "",
                }
            }

            /// Returns the unit of the limit and of the measured value.
            pub fn unit(self) -> Unit {
                match self {
                    $(RuleKind::$kind => Unit::$unit,)*
                    RuleKind::Other => Unit::None,
                }
            }
        }
    };
}

rule_kinds! {
    AverageDatabaseRead: "Average database read latency (msec)", Milliseconds;
    MaximumDatabaseRead: "Maximum database read latency of a sample (msec)", Milliseconds;
    AverageLogWrite: "Average log write latency (msec)", Milliseconds;
    MaximumLogWrite: "Maximum log write latency of a sample (msec)", Milliseconds;
    PageFaultStalls: "Database page fault stalls", None;
    DatabaseReadP95: "95th percentile of database reads (msec)", Milliseconds;
    DatabaseReadP99: "99th percentile of database reads (msec)", Milliseconds;
    LogWriteP95: "95th percentile of log writes (msec)", Milliseconds;
    LogWriteP99: "99th percentile of log writes (msec)", Milliseconds;
    OperationP95: "95th percentile of operations (msec)", Milliseconds;
    OperationP99: "99th percentile of operations (msec)", Milliseconds;
    OperationsBehind: "Operations behind the rate (seconds)", Seconds;
    OperationsNotCompleted: "Operations not completed in time", None;
    OperationsPerSecond: "Achieved operations per second", PerSecond;
    TransactionalIo: "Achieved transactional I/O per second", PerSecond;
    SustainedRate: "Highest sustained rate (operations/sec)", PerSecond;
    PassiveIo: "Database I/O of a copy over that of its active side", Ratio;
    IoErrors: "I/O errors", None;
    WrongRecords: "Records with wrong content", None;
    BadPagesInBackup: "Bad pages read by the backup", None;
    LogsReplayed: "Logs replayed of each database", None;
    CopiesFailed: "Copies that could not follow", None;
    BadPagesInScan: "Bad pages seen by the checksum scan", None;
    BadPagesAfterTest: "Bad pages and log segments", None;
    CorrectedBits: "Pages with corrected bits", None;
    WrongChecksums: "Pages and logs with a wrong checksum", None;
    LostWrites: "Lost writes", None;
    MeasuredEnough: "Measured enough (doubts)", None;
    HostsLost: "Hosts that were lost", None;
    HostsWithoutResult: "Hosts without a result", None;
    StartSkew: "Start skew (% of the measured time)", Percent;
    ClockMovement: "Movement of a wall clock (% of the measured time)", Percent;
    CommonTime: "Common time of all hosts (% of the shortest measured time)", Percent;
    HostVerdicts: "Hosts whose own verdict is not a pass", None;
}

impl RuleKind {
    /// Returns the kind of a rule in a result that was written before kinds were stored.
    fn from_title(title: &str) -> RuleKind {
        RuleKind::ALL.iter().copied().find(|kind| kind.title() == title).unwrap_or_default()
    }
}

impl VerdictRule {
    /// Creates a rule that is met if `measured` is at most `limit`.
    pub fn at_most(kind: RuleKind, limit: f64, measured: f64, note: String) -> VerdictRule {
        VerdictRule::new(kind, RuleBound::AtMost, limit, measured, note)
    }

    /// Creates a rule that is met if `measured` is at least `limit`.
    pub fn at_least(kind: RuleKind, limit: f64, measured: f64, note: String) -> VerdictRule {
        VerdictRule::new(kind, RuleBound::AtLeast, limit, measured, note)
    }

    fn new(kind: RuleKind, bound: RuleBound, limit: f64, measured: f64, note: String) -> VerdictRule {
        let passed = match bound {
            RuleBound::AtMost => measured <= limit,
            RuleBound::AtLeast => measured >= limit,
        };
        let name = kind.title().to_string();
        VerdictRule { kind, name, bound, limit, measured, passed, judged: true, note }
    }

    /// Returns the kind of the rule.
    pub fn kind(&self) -> RuleKind {
        if self.kind == RuleKind::Other { RuleKind::from_title(&self.name) } else { self.kind }
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

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
