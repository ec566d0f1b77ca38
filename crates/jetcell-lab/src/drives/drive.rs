//! A drive of the comparison, and how its amounts are to those of the first.

use jetcell_power::Energy;
use serde::Serialize;

/// How an amount is to that of the first drive. Both percentages describe the same two amounts, on different bases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Relation {
    /// How much more it is, in percent of the first.
    pub more_percent: f64,
    /// How much less the first is, in percent of this one.
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
    /// Its name.
    pub name: String,
    /// Mean of its advantages in percent of the first drive, over the rows that count; `None` for the first.
    pub mean_advantage: Option<f64>,
    /// How many rows that mean has.
    pub rows_in_mean: usize,
    /// What it costs.
    pub price: Option<f64>,
    /// Its price and that of the first.
    pub premium: Option<Relation>,
    /// What it draws.
    pub energy: Option<Energy>,
    /// Its power and that of the first, if both have the same scope.
    pub power: Option<Relation>,
    /// Joules for each transactional I/O of its run.
    pub joules_per_io: Option<f64>,
}
