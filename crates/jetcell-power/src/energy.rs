//! Energy, its cost, and its carbon dioxide emissions.

use serde::{Deserialize, Serialize};

use crate::scope::MeterScope;

const HOURS_PER_DAY: f64 = 24.0;
const DAYS_PER_YEAR: f64 = 365.0;

/// Price and carbon dioxide emissions per kilowatt-hour. There are no defaults, because both depend on location and
/// year.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyTariff {
    /// Price per kilowatt-hour, in the user's currency.
    pub price_per_kwh: Option<f64>,
    /// Carbon dioxide in kilograms per kilowatt-hour.
    pub co2_kg_per_kwh: Option<f64>,
}

/// An estimate of energy use: mean power, extrapolated to a day and to a year of 365 days.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyEstimate {
    /// Mean power in watts.
    pub watts: f64,
    /// Scope of the measurement.
    pub scope: MeterScope,
    /// Kilowatt-hours per day.
    pub kwh_per_day: f64,
    /// Kilowatt-hours per year.
    pub kwh_per_year: f64,
    /// Cost per day.
    pub cost_per_day: Option<f64>,
    /// Cost per year.
    pub cost_per_year: Option<f64>,
    /// Carbon dioxide in kilograms per year.
    pub co2_kg_per_year: Option<f64>,
}

impl EnergyEstimate {
    /// Computes the energy from a mean power in watts. Intermediate results are not rounded.
    pub fn from_watts(watts: f64, scope: MeterScope, tariff: &EnergyTariff) -> EnergyEstimate {
        let kwh_per_day = watts * HOURS_PER_DAY / 1000.0;
        let kwh_per_year = kwh_per_day * DAYS_PER_YEAR;
        EnergyEstimate {
            watts,
            scope,
            kwh_per_day,
            kwh_per_year,
            cost_per_day: tariff.price_per_kwh.map(|price| price * kwh_per_day),
            cost_per_year: tariff.price_per_kwh.map(|price| price * kwh_per_year),
            co2_kg_per_year: tariff.co2_kg_per_kwh.map(|kilograms| kilograms * kwh_per_year),
        }
    }

    /// Returns the joules per operation at the given number of operations per second, or `None` for a rate of zero.
    pub fn joules_per(&self, operations_per_second: f64) -> Option<f64> {
        (operations_per_second > 0.0).then(|| self.watts / operations_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a published measurement of two drives, each in the same server and measured at the outlet: 1.10 kWh in
    /// 27.5 h, and 0.72 kWh in 14.75 h.
    #[test]
    fn a_published_calculation_is_reproduced_without_rounding() {
        let tariff = EnergyTariff { price_per_kwh: Some(0.185), co2_kg_per_kwh: Some(2.0 * 0.453_592_37) };
        let green = EnergyEstimate::from_watts(1.1 / 27.5 * 1000.0, MeterScope::Server, &tariff);
        let black = EnergyEstimate::from_watts(0.72 / 14.75 * 1000.0, MeterScope::Server, &tariff);
        let close =
            |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-5, "{found} {wanted}");
        close(green.watts, 40.0);
        close(black.watts, 48.8136);
        close(green.kwh_per_day, 0.96);
        close(black.kwh_per_day, 1.171_53);
        close(green.kwh_per_year, 350.4);
        close(black.kwh_per_year, 427.607);
        close(green.cost_per_day.unwrap(), 0.1776);
        close(black.cost_per_day.unwrap(), 0.216_732);
        close(green.cost_per_year.unwrap(), 64.824);
        close(black.cost_per_year.unwrap(), 79.107_26);
        close(green.co2_kg_per_year.unwrap(), 700.8 * 0.453_592_37);
        assert_eq!((green.joules_per(47.396).unwrap() * 1000.0).round(), 844.0);
        assert_eq!((black.joules_per(64.57).unwrap() * 1000.0).round(), 756.0);
        assert_eq!(green.joules_per(0.0), None);
    }

    #[test]
    fn without_a_tariff_there_is_no_cost() {
        let energy = EnergyEstimate::from_watts(5.0, MeterScope::Drive, &EnergyTariff::default());
        assert_eq!((energy.cost_per_year, energy.co2_kg_per_year), (None, None));
    }
}
