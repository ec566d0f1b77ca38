//! A drive of the comparison, and its relation to the first drive.

use jetcell_power::Energy;
use serde::Serialize;

/// Relation of a quantity to that of the first drive. Both percentages describe the same two quantities, with
/// different bases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Relation {
    /// Increase over the first drive, in percent of the first drive.
    pub more_percent: f64,
    /// Decrease from this drive to the first drive, in percent of this drive.
    pub first_is_less_percent: f64,
}

impl Relation {
    pub(super) fn of(first: f64, this: f64) -> Relation {
        Relation {
            more_percent: (this - first) / first * 100.0,
            first_is_less_percent: (this - first) / this * 100.0,
        }
    }
}

/// A drive in the summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drive {
    /// Name of the drive.
    pub name: String,
    /// Mean advantage over the first drive in percent, over the rows that are included in the mean; `None` for the
    /// first drive.
    pub mean_advantage: Option<f64>,
    /// Number of rows in the mean.
    pub rows_in_mean: usize,
    /// Price of the drive.
    pub price: Option<f64>,
    /// Relation of its price to that of the first drive.
    pub premium: Option<Relation>,
    /// Energy that the drive uses.
    pub energy: Option<Energy>,
    /// Relation of its power to that of the first drive, if both have the same scope.
    pub power: Option<Relation>,
    /// Joules per transactional I/O of its run.
    pub joules_per_io: Option<f64>,
}
