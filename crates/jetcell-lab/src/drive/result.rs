//! Stored result of a drive test.

use std::path::PathBuf;
use std::time::Duration;

use jetcell_host::Evidence;
use jetcell_power::{EnergyEstimate, EnergyTariff, MeterScope};
use jetcell_workload::measurement::{Change, ConfidenceInterval, RepeatedFigure, winner};
use serde::{Deserialize, Serialize};

use super::measurement::StepMeasurement;
use super::preconditioning::Preconditioning;
use super::step::TestStep;
use super::target::{TargetKind, TestTarget};

/// Version of the stored format, incremented whenever a field is removed without an alias for readers or changes its
/// meaning.
pub const SCHEMA: u32 = 1;

/// Options for a drive test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveTestOptions {
    /// Maximum duration of a step in seconds.
    pub seconds: f64,
    /// Number of times each step runs on each target.
    pub repetitions: usize,
    /// Number of zones in the transfer curve.
    pub zones: u64,
    /// If true, targets that the test may write to are preconditioned until their write rate is steady.
    pub precondition: bool,
    /// If true, steps that write end with a sync, whose duration counts as part of the step.
    #[serde(default)]
    pub end_sync: bool,
    /// Seed for the random offsets.
    pub seed: u64,
    /// Names of the steps to run, or empty to run all steps.
    #[serde(default)]
    pub only: Vec<String>,
    /// Maximum duration of the whole test in seconds. `None` if there is no limit.
    #[serde(default)]
    pub longest_seconds: Option<f64>,
    /// Prices and power of the targets.
    #[serde(default)]
    pub costs: TargetCosts,
}

impl DriveTestOptions {
    /// Returns the default number of repetitions for a number of targets. With a single repetition, a difference
    /// between targets cannot be distinguished from noise.
    pub const fn default_repetitions(targets: usize) -> usize {
        if targets > 1 { 4 } else { 1 }
    }

    /// Returns the maximum duration of the whole test.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.longest_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

/// Prices and power of the targets, as specified by the user. None of these values is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetCosts {
    /// Price of each target. Empty if the prices are unknown.
    pub prices: Vec<f64>,
    /// Mean power of each target in watts. Empty if the power is unknown.
    pub watts: Vec<f64>,
    /// Part of the system to which the given power refers. Results from earlier versions lack this field.
    #[serde(default)]
    pub power_scope: Option<MeterScope>,
    /// Price of a kilowatt-hour.
    pub price_per_kwh: Option<f64>,
    /// Currency of all prices.
    pub currency: Option<String>,
}

impl TargetCosts {
    /// Returns the energy that target number `target` uses in a year of 365 days, if its power and the power scope
    /// are known.
    pub fn energy(&self, target: usize) -> Option<EnergyEstimate> {
        let tariff = EnergyTariff { price_per_kwh: self.price_per_kwh, co2_kg_per_kwh: None };
        Some(EnergyEstimate::from_watts(*self.watts.get(target)?, self.power_scope?, &tariff))
    }
}

/// Result of a drive test on one or more targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveTest {
    /// Version of the format, [`SCHEMA`].
    pub schema: u32,
    /// The program, its command line, the machine, and the storage of each target.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Start time, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Duration of the test in seconds.
    pub seconds: f64,
    /// I/O backend that performed the transfers: `io_uring` or `threads`.
    pub backend: String,
    /// Smallest transfer size used on any target, in bytes.
    pub smallest_transfer: u64,
    /// Options with which the test ran.
    pub options: DriveTestOptions,
    /// The tested targets. Each further target is compared with the first.
    pub targets: Vec<TestedTarget>,
    /// Results of the steps, in the order in which they ran.
    pub steps: Vec<StepResult>,
    /// Titles of steps that did not run because the time limit for the whole test was reached.
    #[serde(default)]
    pub left_out: Vec<String>,
}

impl DriveTest {
    /// Returns true if a read did not return the data just written.
    pub fn has_mismatches(&self) -> bool {
        let figures = self.steps.iter().flat_map(|step| step.figures.iter().flatten());
        figures.flat_map(|figure| &figure.repetitions).any(|one| one.mismatches > 0)
    }
}

/// A drive test target, as described in the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestedTarget {
    /// Name, unique within the test.
    pub name: String,
    /// Path as the user gave it.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Kind of the target.
    pub kind: TargetKind,
    /// Number of bytes tested.
    pub bytes: u64,
    /// Smallest direct transfer that the target supports, in bytes. At least 512.
    pub smallest_transfer: u64,
    /// True if the test also wrote to the target.
    pub written: bool,
    /// Remarks for readers of the results.
    pub notes: Vec<String>,
    /// Result of preconditioning, if the target was preconditioned.
    pub preconditioning: Option<Preconditioning>,
}

impl TestedTarget {
    pub(super) fn from_target(target: &TestTarget) -> TestedTarget {
        TestedTarget {
            name: target.name.clone(),
            path: target.path.clone(),
            kind: target.kind,
            bytes: target.bytes,
            smallest_transfer: 0,
            written: target.is_written(),
            notes: target.notes.clone(),
            preconditioning: None,
        }
    }
}

/// Result of a test step on all targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The step.
    #[serde(flatten)]
    pub step: TestStep,
    /// One figure per target. `None` for a target to which the step does not apply.
    pub figures: Vec<Option<TargetStepResult>>,
    /// Index of the target that is significantly better than every other target.
    pub winner: Option<usize>,
}

/// Result of a test step on one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetStepResult {
    /// Mean over the repetitions, in the step's unit.
    pub mean: f64,
    /// 95 % confidence interval of the mean, if there are at least two repetitions.
    pub interval: Option<ConfidenceInterval>,
    /// Difference from the first target.
    pub difference: Option<Change>,
    /// Results of the repetitions, in order.
    pub repetitions: Vec<StepMeasurement>,
}

impl StepResult {
    /// Computes the result of a step from the repetitions on each target.
    pub(crate) fn from_repetitions(step: TestStep, measured: Vec<Vec<StepMeasurement>>) -> StepResult {
        let figures: Vec<Vec<Option<f64>>> =
            measured.iter().map(|target| repeated_figures(target, &step)).collect();
        let base = figures.first().cloned().unwrap_or_default();
        let winner = winner(step.unit.better(), &figures);
        let step_figure =
            |(at, (repetitions, figures)): (usize, (Vec<StepMeasurement>, &Vec<Option<f64>>))| {
                let values: Vec<f64> = figures.iter().copied().flatten().collect();
                (!values.is_empty()).then(|| TargetStepResult {
                    mean: values.iter().sum::<f64>() / values.len() as f64,
                    interval: ConfidenceInterval::from_values(&values),
                    difference: if at == 0 { None } else { Change::paired(&base, figures) },
                    repetitions,
                })
            };
        let figures = measured.into_iter().zip(&figures).enumerate().map(step_figure).collect();
        StepResult { step, figures, winner }
    }

    /// Returns the change from target `base` to target `other`, whose repetitions alternated.
    pub fn change(&self, base: usize, other: usize) -> Option<Change> {
        let figures = |target: usize| {
            Some(repeated_figures(&self.figures.get(target)?.as_ref()?.repetitions, &self.step))
        };
        Change::paired(&figures(base)?, &figures(other)?)
    }

    /// Returns the mean for a target, and its interval if there are at least two repetitions.
    pub fn figure(&self, target: usize) -> Option<(f64, Option<RepeatedFigure>)> {
        let result = self.figures.get(target)?.as_ref()?;
        let repetitions = repeated_figures(&result.repetitions, &self.step).iter().flatten().count();
        Some((result.mean, result.interval.map(|interval| RepeatedFigure { interval, repetitions })))
    }
}

/// Returns the figure of each repetition, or `None` for a repetition in which nothing was transferred.
fn repeated_figures(repetitions: &[StepMeasurement], step: &TestStep) -> Vec<Option<f64>> {
    repetitions.iter().map(|one| one.figure(step)).collect()
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
