//! Energy used by a run.

use jetcell_power::{EnergyEstimate, EnergyTariff};
use serde::{Deserialize, Serialize};

/// Energy used during the measured interval of a run. It covers the whole scope and cannot be attributed to a part of
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnergy {
    /// Name of the meter or power log.
    pub meter: String,
    /// Mean power, its scope, and the energy extrapolated to a year.
    #[serde(flatten)]
    pub energy: EnergyEstimate,
    /// Length of the measured interval in seconds.
    pub seconds: f64,
    /// Energy used during the measured interval, in joules.
    pub joules: f64,
    /// Joules per transactional I/O, or `None` without I/O.
    pub joules_per_transactional_io: Option<f64>,
    /// Price and carbon dioxide per kilowatt-hour, as given by the user.
    pub tariff: EnergyTariff,
    /// Name of the currency.
    pub currency: Option<String>,
}
