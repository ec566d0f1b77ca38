//! A drive in the comparison, and its differences from the first drive.

use jetcell_power::EnergyEstimate;
use serde::Serialize;

/// Difference between a drive's figure and the first drive's figure, as a percentage of one and of the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DifferenceFromFirst {
    /// Excess over the first drive, in percent of the first drive.
    pub more_percent: f64,
    /// Shortfall of the first drive, in percent of this drive.
    pub first_is_less_percent: f64,
}

impl DifferenceFromFirst {
    pub(super) fn new(first: f64, this: f64) -> DifferenceFromFirst {
        DifferenceFromFirst {
            more_percent: (this - first) / first * 100.0,
            first_is_less_percent: (this - first) / this * 100.0,
        }
    }
}

/// A drive in the summary of a drive comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedDrive {
    /// Name of the drive.
    pub name: String,
    /// Mean advantage over the first drive in percent, over the rows included in the mean. `None` for the first
    /// drive.
    pub mean_advantage: Option<f64>,
    /// Number of rows included in the mean.
    pub rows_in_mean: usize,
    /// Price of the drive.
    pub price: Option<f64>,
    /// Price compared with that of the first drive.
    pub premium: Option<DifferenceFromFirst>,
    /// Energy that the drive uses.
    pub energy: Option<EnergyEstimate>,
    /// Power compared with that of the first drive, if both have the same scope.
    pub power: Option<DifferenceFromFirst>,
    /// Joules per transactional I/O in its run.
    pub joules_per_io: Option<f64>,
}
