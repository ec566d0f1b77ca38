//! The result of a test, as it is stored.

use std::path::PathBuf;
use std::time::Duration;

use jetcell_power::{Energy, Scope, Tariff};
use jetcell_workload::machine::Machine;
use jetcell_workload::measurement::Interval;
use serde::{Deserialize, Serialize};

use super::measurement::Measurement;
use super::preconditioning::Preconditioning;
use super::step::Step;
use super::target::{Target, TargetKind};
use crate::difference::{Difference, winner};

/// Version of the stored form; raised when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 1;

/// How a test is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Longest time of a step in seconds.
    pub seconds: f64,
    /// How often each step is done on each target.
    pub repetitions: usize,
    /// Parts of the transfer curve.
    pub zones: u64,
    /// Whether own files are written until their rate is steady.
    pub precondition: bool,
    /// Whether steps that write end with a sync, which is a part of their time.
    #[serde(default)]
    pub end_sync: bool,
    /// Decides about the random places.
    pub seed: u64,
    /// Names of the steps that are done; empty for all.
    #[serde(default)]
    pub only: Vec<String>,
    /// Longest time of the whole test in seconds; `None` if it may take as long as it takes.
    #[serde(default)]
    pub longest_seconds: Option<f64>,
    /// What the targets cost, and what they draw.
    #[serde(default)]
    pub costs: Costs,
}

impl Options {
    /// Longest time of the whole test.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.longest_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

/// What a buyer of the targets pays, as far as it was given. Nothing of it is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Price of each target; empty if unknown.
    pub prices: Vec<f64>,
    /// Mean power of each target in watts; empty if unknown.
    pub watts: Vec<f64>,
    /// What that power is the power of. Results of earlier versions do not say it.
    #[serde(default)]
    pub power_scope: Option<Scope>,
    /// Money for a kilowatt-hour.
    pub price_per_kwh: Option<f64>,
    /// Name of the money.
    pub currency: Option<String>,
}

impl Costs {
    /// Energy of a year of 365 days for the target with this number, if its power and what draws it were given.
    pub fn energy(&self, target: usize) -> Option<Energy> {
        let tariff = Tariff { price_per_kwh: self.price_per_kwh, co2_kg_per_kwh: None };
        Some(Energy::of(*self.watts.get(target)?, self.power_scope?, &tariff))
    }
}

/// A test of one target or of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveTest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of this program.
    pub program: String,
    /// Begin, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Length of the test in seconds.
    pub seconds: f64,
    /// The machine, and the storage of each target.
    pub machine: Machine,
    /// What runs the transfers: `io_uring` or `threads`.
    pub backend: String,
    /// Bytes of the smallest transfer.
    pub smallest_transfer: u64,
    /// How it was done.
    pub options: Options,
    /// The targets. The first is the one that others are compared with.
    pub targets: Vec<TestedTarget>,
    /// The steps in their order.
    pub steps: Vec<StepResult>,
    /// Titles of steps that were not begun, because the longest time of the whole test was over.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// A target of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestedTarget {
    /// Name, unique in the test.
    pub name: String,
    /// As it was given.
    pub path: PathBuf,
    /// What it is.
    pub kind: TargetKind,
    /// Tested bytes.
    pub bytes: u64,
    /// Bytes of the smallest transfer that it can do past the kernel's cache, or 512 if it can do less.
    pub smallest_transfer: u64,
    /// Whether it was also written.
    pub written: bool,
    /// What a reader of the results should know.
    pub notes: Vec<String>,
    /// How it was preconditioned, if it was.
    pub preconditioning: Option<Preconditioning>,
}

impl TestedTarget {
    pub(super) fn of(target: &Target) -> TestedTarget {
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

/// A step on all targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// For each target; `None` if the step is not for it.
    pub figures: Vec<Option<Figure>>,
    /// Index of the target that is significantly better than every other one.
    pub winner: Option<usize>,
}

/// A step on a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Mean of the repetitions, in the unit of the step.
    pub mean: f64,
    /// 95 % confidence interval of the mean, if there are several repetitions.
    pub interval: Option<Interval>,
    /// Difference to the first target.
    pub difference: Option<Difference>,
    /// The repetitions in their order.
    pub repetitions: Vec<Measurement>,
}

impl StepResult {
    /// The result of a step from the repetitions of each target.
    pub(super) fn of(step: Step, measured: Vec<Vec<Measurement>>) -> StepResult {
        let figures: Vec<Vec<f64>> = measured
            .iter()
            .map(|target| target.iter().filter_map(|one| one.figure(&step)).collect())
            .collect();
        let base = figures.first().cloned().unwrap_or_default();
        let winner = winner(step.unit.lower_is_better(), &figures);
        let of = |(at, (repetitions, values)): (usize, (Vec<Measurement>, &Vec<f64>))| {
            (!values.is_empty()).then(|| Figure {
                mean: values.iter().sum::<f64>() / values.len() as f64,
                interval: Interval::of(values),
                difference: if at == 0 { None } else { Difference::of(&base, values) },
                repetitions,
            })
        };
        let figures = measured.into_iter().zip(&figures).enumerate().map(of).collect();
        StepResult { step, figures, winner }
    }
}
