//! Runs side by side: figures, how far each is from a base, and whether chance alone could explain it.
//!
//! One sign convention: a positive difference is better than the base, so the sign is turned where less is better.
//! Figures of which neither direction is better keep the sign of the change. A base of zero has no percentages.

mod metrics;
mod render;
mod settings;

use jetcell_workload::Verdict;
use jetcell_workload::measurement::Interval;
use jetcell_workload::result::RunResult;

use crate::Stored;
use crate::chart::Chart;

pub use render::{csv, html, json, markdown, text};

/// What the sign of a difference means, in a sentence.
pub const SIGNS: &str = "Differences are in percent of the base; positive is better: where less is better (↓) the sign is \
     turned; where neither is better (·) it is that of the change.";

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It depends.
    #[serde(alias = "neutral")]
    Neither,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The figure over the whole measured time.
    pub figure: f64,
    /// Where the mean of the repetitions lies with 95 % confidence, if there were any.
    pub interval: Option<Interval>,
}

/// What two intervals say about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// They do not overlap.
    Different,
    /// They overlap: no difference is shown, which does not show that there is none.
    NotShown,
}

/// One figure in all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// One for each run; `None` if the run has no such figure.
    pub values: Vec<Option<Value>>,
}

impl Metric {
    /// The figure of a run.
    pub fn value(&self, run: usize) -> Option<Value> {
        self.values.get(run).copied().flatten()
    }

    /// Percent by which `run` is better than `base`.
    pub fn delta(&self, base: usize, run: usize) -> Option<f64> {
        let (base, value) = (self.value(base)?.figure, self.value(run)?.figure);
        let change = (value / base - 1.0) * 100.0;
        let turned = if self.better == Better::Lower { -change } else { change };
        // No sign for zero.
        (base != 0.0 && base.is_finite() && turned.is_finite()).then_some(turned + 0.0)
    }

    /// What the intervals say; `None` unless both runs have one.
    pub fn finding(&self, base: usize, run: usize) -> Option<Finding> {
        let (base, run) = (self.value(base)?.interval?, self.value(run)?.interval?);
        let overlap = (base.mean - run.mean).abs() <= base.half_width + run.half_width;
        Some(if overlap { Finding::NotShown } else { Finding::Different })
    }
}

/// A run in a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What the user called it.
    pub name: String,
    /// Its outcome.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// Length of the measured window.
    pub measured_seconds: f64,
    /// Repetitions; 1 if the measured time was run once.
    pub repetitions: usize,
}

/// Something that is not the same in all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As in a configuration file, or of the machine.
    pub name: String,
    /// One for each run; empty if it is not set there.
    pub values: Vec<String>,
}

/// Runs side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The runs.
    pub columns: Vec<Column>,
    /// The run that the others are compared with.
    pub base: usize,
    /// The figures.
    pub metrics: Vec<Metric>,
    /// How the runs were configured differently.
    pub load: Vec<Setting>,
    /// How programs, machines and storage differ, which is mostly what a comparison is about.
    pub environment: Vec<Setting>,
    /// What limits the comparison, one line each.
    pub warnings: Vec<String>,
    /// Samples of all runs over each other.
    pub charts: Vec<Chart>,
}

impl Comparison {
    /// Compares runs, each with its name, with the run of index `base`.
    pub fn of(runs: &[(String, Stored)], base: usize) -> Comparison {
        let results: Vec<&RunResult> = runs.iter().map(|(_, run)| &run.result).collect();
        let column = |(name, run): &(String, Stored)| Column {
            name: name.clone(),
            verdict: run.result.verdict,
            reason: run.result.reason.clone(),
            measured_seconds: run.result.measured_seconds,
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

/// What a run is called in tables: counted from 1, as `--base` does.
pub(crate) fn label(run: usize) -> String {
    format!("run {}", run + 1)
}

#[cfg(test)]
mod tests;
