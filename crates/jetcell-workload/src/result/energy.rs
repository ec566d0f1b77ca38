//! Energy used by a run.

use jetcell_power::{Energy, Tariff};
use serde::{Deserialize, Serialize};

/// Energy used during the measured time of a run. It covers the whole scope and cannot be attributed to a part of the
/// scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnergy {
    /// Name of the meter, or of the power log.
    pub meter: String,
    /// Mean power, its scope, and the extrapolation to a year.
    #[serde(flatten)]
    pub energy: Energy,
    /// Measured time in seconds.
    pub seconds: f64,
    /// Energy used during the measured time, in joules.
    pub joules: f64,
    /// Joules per transactional I/O, or `None` without I/O.
    pub joules_per_transactional_io: Option<f64>,
    /// Price and carbon dioxide per kilowatt-hour, as given by the user.
    pub tariff: Tariff,
    /// Name of the currency.
    pub currency: Option<String>,
}
