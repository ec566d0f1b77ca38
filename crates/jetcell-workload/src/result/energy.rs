//! The energy of a run.

use jetcell_power::{Energy, Tariff};
use serde::{Deserialize, Serialize};

/// The energy of the measured time of a run. It is that of its scope, and not that of anything inside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnergy {
    /// The meter, or the log of one.
    pub meter: String,
    /// Mean power, its scope, and what it comes to in a year.
    #[serde(flatten)]
    pub energy: Energy,
    /// Measured time in seconds.
    pub seconds: f64,
    /// Energy of the measured time.
    pub joules: f64,
    /// Joules for each transactional I/O; `None` without I/O.
    pub joules_per_transactional_io: Option<f64>,
    /// What a kilowatt-hour costs, as given.
    pub tariff: Tariff,
    /// Name of the money.
    pub currency: Option<String>,
}
