//! Highest sustained rate of the storage, and the curve of latency against rate.

use serde::{Deserialize, Serialize};

use crate::measurement::latency::LatencySummary;
use crate::measurement::open_loop::OpenLoopBacklog;
use crate::measurement::percentiles::LatencyPercentiles;
use crate::measurement::repetition::Repetition;
use crate::profile::Thresholds;
use crate::verdict::{RuleKind, VerdictRule};

/// Number of consecutive measurements in which the confirmed rate must meet all limits.
pub(crate) const CONFIRMATIONS: u32 = 3;

/// Minimum rate in a search, in operations per second.
pub(crate) const MIN_RATE: f64 = 1.0;

/// Result of a search for the highest sustained rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SaturationSearch {
    /// Highest rate that met all limits three times in a row. `None` if there is no such rate, or if the search was
    /// stopped.
    pub sustained_rate: Option<f64>,
    /// Lowest rate that broke a rule, or `None` if no rate did.
    pub first_failed_rate: Option<f64>,
    /// Whether the search completed.
    pub ended: bool,
    /// Operations per second in the closed loop before the search.
    pub closed_loop_rate: f64,
    /// Time for which each step runs at its rate before it is measured, in seconds.
    pub settle_seconds: f64,
    /// All steps, in the order in which they were measured.
    pub steps: Vec<SaturationStep>,
}

/// Measurement at one rate in a saturation search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SaturationStep {
    /// Target rate in operations per second.
    pub rate: f64,
    /// Whether the step is a confirmation, which is measured three times in a row.
    pub confirming: bool,
    /// Achieved rate, and the other figures to which the rules apply.
    pub figures: Repetition,
    /// Latency of all operations in microseconds, measured from when they were due.
    pub operation_latency: LatencySummary,
    /// Delay at the end of the step: seconds since the oldest operation not yet started became due.
    pub behind_seconds: f64,
    /// First rule that the step broke, or `None` if it met all rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<VerdictRule>,
}

impl SaturationSearch {
    /// Returns the steps ordered by rate. If a rate was measured twice, the confirmation comes last.
    pub fn curve(&self) -> Vec<&SaturationStep> {
        let mut steps: Vec<&SaturationStep> = self.steps.iter().collect();
        steps.sort_by(|a, b| a.rate.total_cmp(&b.rate).then(a.confirming.cmp(&b.confirming)));
        steps
    }
}

/// Minimum fraction of its target rate that a step must achieve.
const MIN_ACHIEVED_FRACTION: f64 = 0.98;

/// Returns the first rule that a step breaks, if any.
pub(crate) fn first_broken_rule(
    limits: &Thresholds,
    figures: &Repetition,
    percentiles: &LatencyPercentiles,
    open_loop: &OpenLoopBacklog,
) -> Option<VerdictRule> {
    let rules = [
        (RuleKind::AverageDatabaseRead, limits.average_database_read_ms, figures.database_read_ms),
        (RuleKind::MaximumDatabaseRead, limits.maximum_database_read_ms, figures.maximum_database_read_ms),
        (RuleKind::AverageLogWrite, limits.average_log_write_ms, figures.log_write_ms),
        (RuleKind::MaximumLogWrite, limits.maximum_log_write_ms, figures.maximum_log_write_ms),
        (RuleKind::PageFaultStalls, limits.page_fault_stalls as f64, figures.page_fault_stalls as f64),
    ];
    let rules =
        rules.map(|(kind, limit, measured)| VerdictRule::at_most(kind, limit, measured, String::new()));
    let achieved = VerdictRule::at_least(
        RuleKind::OperationsPerSecond,
        open_loop.target_rate * MIN_ACHIEVED_FRACTION,
        figures.operations_per_second,
        String::new(),
    );
    let percentiles = percentiles.rules(limits);
    let rules = rules.into_iter().chain(percentiles).chain(open_loop.rules()).chain([achieved]);
    rules.into_iter().find(|rule| !rule.passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(limits: &Thresholds, figures: &Repetition, open_loop: &OpenLoopBacklog) -> Option<VerdictRule> {
        super::first_broken_rule(limits, figures, &LatencyPercentiles::default(), open_loop)
    }

    #[test]
    fn a_percentile_breaks_a_step() {
        let limits = Thresholds { p99_operation_ms: Some(1000.0), ..Thresholds::default() };
        let operations = LatencySummary { count: 9, p99: 1_000_001, ..LatencySummary::default() };
        let slow = LatencyPercentiles { operations, ..LatencyPercentiles::default() };
        let find_broken_rule = |limits| {
            super::first_broken_rule(limits, &Repetition::default(), &slow, &OpenLoopBacklog::default())
        };
        assert_eq!(find_broken_rule(&limits).unwrap().kind(), RuleKind::OperationP99);
        assert_eq!(find_broken_rule(&Thresholds::default()), None);
    }

    #[test]
    fn exceeding_any_limit_breaks_a_step_but_reaching_it_passes() {
        let limits = Thresholds::default();
        let good = Repetition {
            database_read_ms: 20.0,
            maximum_database_read_ms: 100.0,
            log_write_ms: 10.0,
            maximum_log_write_ms: 100.0,
            ..Repetition::default()
        };
        let kept = OpenLoopBacklog { behind_seconds: 0.05, ..OpenLoopBacklog::default() };
        assert_eq!(broken(&limits, &good, &kept), None);
        let kind = |figures, open| broken(&limits, &figures, open).unwrap().kind();
        assert_eq!(kind(Repetition { database_read_ms: 20.1, ..good }, &kept), RuleKind::AverageDatabaseRead);
        assert_eq!(
            kind(Repetition { maximum_database_read_ms: 101.0, ..good }, &kept),
            RuleKind::MaximumDatabaseRead
        );
        assert_eq!(kind(Repetition { log_write_ms: 10.1, ..good }, &kept), RuleKind::AverageLogWrite);
        assert_eq!(
            kind(Repetition { maximum_log_write_ms: 101.0, ..good }, &kept),
            RuleKind::MaximumLogWrite
        );
        assert_eq!(kind(Repetition { page_fault_stalls: 1, ..good }, &kept), RuleKind::PageFaultStalls);
        let late = OpenLoopBacklog { behind_seconds: 3.0, ..kept };
        assert_eq!(kind(good, &late), RuleKind::OperationsBehind);
        let due = OpenLoopBacklog { target_rate: 100.0, due: 1000, ..OpenLoopBacklog::default() };
        let good = Repetition { operations_per_second: 98.0, ..good };
        assert_eq!(broken(&limits, &good, &due), None);
        let slow = Repetition { operations_per_second: 97.9, ..good };
        assert_eq!(kind(slow, &due), RuleKind::OperationsPerSecond);
        assert_eq!(broken(&limits, &good, &OpenLoopBacklog { not_completed: 20, ..due }), None);
        let lost = OpenLoopBacklog { not_completed: 21, ..due };
        assert_eq!(kind(good, &lost), RuleKind::OperationsNotCompleted);
    }

    #[test]
    fn the_curve_is_sorted_by_rate() {
        let step = |rate, confirming| SaturationStep { rate, confirming, ..SaturationStep::default() };
        let steps = vec![step(100.0, false), step(50.0, true), step(75.0, false), step(50.0, false)];
        let saturation = SaturationSearch { steps, ..SaturationSearch::default() };
        let curve: Vec<_> = saturation.curve().iter().map(|step| (step.rate, step.confirming)).collect();
        assert_eq!(curve, [(50.0, false), (50.0, true), (75.0, false), (100.0, false)]);
    }
}
