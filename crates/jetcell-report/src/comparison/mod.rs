//! Compares runs: their figures, how much each figure differs from that of a base run, and whether chance alone could
//! explain the difference.
//!
//! A positive difference is better than the base, so the sign is reversed for figures where less is better. If
//! neither direction is better, a positive difference means a larger figure. If the base is zero, there is no
//! percentage.

mod metrics;
mod render;
mod settings;

use jetcell_input::Unit;
use jetcell_workload::Verdict;
use jetcell_workload::measurement::{Change, RepeatedFigure};
use jetcell_workload::result::RunResult;

use crate::StoredRun;
use crate::chart::Chart;

pub use jetcell_workload::measurement::BetterDirection;
pub use render::{csv, html, json, markdown, text};

/// Explains the sign of a difference in one sentence.
pub const SIGN_EXPLANATION: &str = "Differences are in percent of the base. Positive is better: where lower is better \
 (↓), the sign is reversed. Where neither is better (·), the sign is that of the change.";

/// A run's value for a metric in a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricValue {
    /// Value over the whole measured time.
    pub figure: f64,
    /// 95 % confidence interval of the mean over the repetitions, if the run was repeated.
    pub interval: Option<RepeatedFigure>,
}

/// Whether the repetitions of two values show that the values differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceFinding {
    /// The difference is significant.
    Different,
    /// The difference is not significant. The values may still differ.
    NotShown,
}

/// A metric in a comparison, with its values for all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonMetric {
    /// Name of the figure.
    pub name: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// Whether higher or lower values are better.
    pub better: BetterDirection,
    /// Values, one per run. `None` if a run lacks the figure.
    pub values: Vec<Option<MetricValue>>,
}

impl ComparisonMetric {
    /// Returns the figure's value for a run.
    pub fn value(&self, run: usize) -> Option<MetricValue> {
        self.values.get(run).copied().flatten()
    }

    /// Returns by how many percent `run` is better than `base`.
    pub fn delta(&self, base: usize, run: usize) -> Option<f64> {
        self.better.percent(self.value(base)?.figure, self.value(run)?.figure)
    }

    /// Returns whether the repetitions show a difference between two runs. Returns `None` if a run has fewer than two
    /// repetitions, or if the mean of the base is not positive.
    pub fn finding(&self, base: usize, run: usize) -> Option<DifferenceFinding> {
        let (base, run) = (self.value(base)?.interval?, self.value(run)?.interval?);
        let significant = Change::independent(base, run)?.significant;
        Some(if significant { DifferenceFinding::Different } else { DifferenceFinding::NotShown })
    }
}

/// A run in a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRun {
    /// Name that the user gave the run.
    pub name: String,
    /// Verdict of the run.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: String,
    /// Reasons why the figures may not show what the storage is capable of.
    pub doubts: Vec<String>,
    /// Duration of the measurement, backup, or replay, in seconds.
    pub measured_seconds: f64,
    /// Number of repetitions, at least 1.
    pub repetitions: usize,
}

/// A setting whose value differs between the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingSetting {
    /// Key in the configuration file, or a property of the machine.
    pub name: String,
    /// Values, one per run. Empty for a run that does not set it.
    pub values: Vec<String>,
}

/// A comparison of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunComparison {
    /// The compared runs.
    pub columns: Vec<ComparedRun>,
    /// Index of the run with which the others are compared.
    pub base: usize,
    /// The compared figures.
    pub metrics: Vec<ComparisonMetric>,
    /// Load settings that differ.
    pub load: Vec<DifferingSetting>,
    /// Properties of the program, machine, and storage that differ. These differences are usually the reason for the
    /// comparison.
    pub environment: Vec<DifferingSetting>,
    /// Limitations of the comparison, each as one line.
    pub warnings: Vec<String>,
    /// Charts with the samples of all runs.
    pub charts: Vec<Chart>,
}

impl RunComparison {
    /// Compares named runs with the run at index `base`.
    pub fn new(runs: &[(String, StoredRun)], base: usize) -> RunComparison {
        let results: Vec<&RunResult> = runs.iter().map(|(_, run)| &run.result).collect();
        let column = |(name, run): &(String, StoredRun)| ComparedRun {
            name: name.clone(),
            verdict: run.result.verdict,
            reason: run.result.reason.clone(),
            doubts: run.result.doubts.clone(),
            measured_seconds: run.result.tested_seconds(),
            repetitions: run.result.analysis.repetitions.as_ref().map_or(1, |all| all.each.len()),
        };
        let columns: Vec<ComparedRun> = runs.iter().map(column).collect();
        let load = settings::load(&results);
        RunComparison {
            base,
            metrics: metrics::collect(&results),
            warnings: settings::warnings(&columns, &results, &load),
            load,
            environment: settings::environment(&results),
            charts: metrics::charts(runs),
            columns,
        }
    }
}

/// Returns a run's label in tables. Runs are counted from 1, as in `--base`.
pub(crate) fn label(run: usize) -> String {
    format!("run {}", run + 1)
}

#[cfg(test)]
mod tests;
