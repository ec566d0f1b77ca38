//! Compares runs: their figures, the difference of each figure to a base run, and whether chance alone could explain
//! the difference.
//!
//! A positive difference is better than the base, so the sign is reversed where less is better. If neither direction
//! is better, a positive difference means a larger figure. For a base of zero there is no percentage.

mod metrics;
mod render;
mod settings;

use jetcell_workload::Verdict;
use jetcell_workload::measurement::Interval;
use jetcell_workload::result::RunResult;

use crate::Stored;
use crate::chart::Chart;

pub use jetcell_workload::measurement::Better;
pub use render::{csv, html, json, markdown, text};

/// Sentence that explains the sign of a difference.
pub const SIGNS: &str = "Differences are in percent of the base; positive is better: where less is better (↓) the sign is \
     reversed; where neither is better (·) it is that of the change.";

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The figure over the whole measured time.
    pub figure: f64,
    /// 95 % confidence interval of the mean over the repetitions, if there are any.
    pub interval: Option<Interval>,
}

/// Conclusion that two intervals permit about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The intervals do not overlap.
    Different,
    /// The intervals overlap, so they do not show a difference. There may still be a difference.
    NotShown,
}

/// A figure with its values in all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name of the figure.
    pub name: String,
    /// Unit of the figure.
    pub unit: String,
    /// Direction in which the figure is better.
    pub better: Better,
    /// Values, one per run; `None` if a run does not have the figure.
    pub values: Vec<Option<Value>>,
}

impl Metric {
    /// Returns the figure of a run.
    pub fn value(&self, run: usize) -> Option<Value> {
        self.values.get(run).copied().flatten()
    }

    /// Returns the percentage by which `run` is better than `base`.
    pub fn delta(&self, base: usize, run: usize) -> Option<f64> {
        self.better.percent(self.value(base)?.figure, self.value(run)?.figure)
    }

    /// Returns the conclusion from the intervals; `None` unless both runs have one.
    pub fn finding(&self, base: usize, run: usize) -> Option<Finding> {
        let (base, run) = (self.value(base)?.interval?, self.value(run)?.interval?);
        let overlap = (base.mean - run.mean).abs() <= base.half_width + run.half_width;
        Some(if overlap { Finding::NotShown } else { Finding::Different })
    }
}

/// A run in a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name that the user gave to the run.
    pub name: String,
    /// Verdict of the run.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: String,
    /// Reasons why the figures may not represent the capability of the storage.
    pub doubts: Vec<String>,
    /// Duration of the measurement, the backup, or the replay in seconds.
    pub measured_seconds: f64,
    /// Number of repetitions, at least 1.
    pub repetitions: usize,
}

/// A setting whose value differs between the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Key of the configuration file, or a property of the machine.
    pub name: String,
    /// Values, one per run; empty if not set.
    pub values: Vec<String>,
}

/// A comparison of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The compared runs.
    pub columns: Vec<Column>,
    /// Index of the run that the others are compared with.
    pub base: usize,
    /// The compared figures.
    pub metrics: Vec<Metric>,
    /// Settings of the load that differ.
    pub load: Vec<Setting>,
    /// Properties of programs, machines, and storage that differ. They are usually the subject of a comparison.
    pub environment: Vec<Setting>,
    /// Limitations of the comparison, one line each.
    pub warnings: Vec<String>,
    /// Charts with the samples of all runs.
    pub charts: Vec<Chart>,
}

impl Comparison {
    /// Compares named runs with the run at index `base`.
    pub fn of(runs: &[(String, Stored)], base: usize) -> Comparison {
        let results: Vec<&RunResult> = runs.iter().map(|(_, run)| &run.result).collect();
        let column = |(name, run): &(String, Stored)| Column {
            name: name.clone(),
            verdict: run.result.verdict,
            reason: run.result.reason.clone(),
            doubts: run.result.doubts.clone(),
            measured_seconds: run.result.tested_seconds(),
            repetitions: run.result.analysis.repetitions.as_ref().map_or(1, |all| all.each.len()),
        };
        let columns: Vec<Column> = runs.iter().map(column).collect();
        let load = settings::load(&results);
        Comparison {
            base,
            metrics: metrics::of(&results),
            warnings: settings::warnings(&columns, &results, &load),
            load,
            environment: settings::environment(&results),
            charts: metrics::charts(runs),
            columns,
        }
    }
}

/// Returns the name of a run in tables, counted from 1 as in `--base`.
pub(crate) fn label(run: usize) -> String {
    format!("run {}", run + 1)
}

#[cfg(test)]
mod tests;
