//! Energy used during a time window, its cost, and its carbon dioxide emissions.

use serde::{Deserialize, Serialize};

use crate::error::PowerLogError;
use crate::scope::MeterScope;

const HOURS_PER_DAY: f64 = 24.0;
const DAYS_PER_YEAR: f64 = 365.0;
/// Maximum time by which a window may extend beyond the log, in milliseconds. The times of a run are rounded to whole
/// seconds.
const TOLERANCE_MS: i64 = 1000;
/// Maximum time between two rows, as a fraction of the requested window.
const MAX_GAP: f64 = 0.1;
/// Minimum energy in a window, in counter steps. A counter is inexact by one step at each end of the window, so the
/// error is then at most 2 %.
const MIN_COUNTER_STEPS: f64 = 100.0;
/// Shortest time, in seconds, in which a processor counter can wrap. The smallest counters have a range of 65 kJ, and
/// no processor draws a kilowatt.
const MIN_WRAP: f64 = 60.0;

/// Cumulative energy at a point in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EnergyPoint {
    pub unix_ms: i64,
    pub joules: f64,
}

/// Energy used during a time window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyUse {
    /// Energy in joules.
    pub joules: f64,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Whether the energy comes from the meter's counter. Otherwise it is integrated from the power.
    pub counted: bool,
}

impl EnergyUse {
    /// Returns the mean power in watts.
    pub fn watts(&self) -> f64 {
        self.joules / self.seconds
    }
    /// Returns the energy used between two times, which are given in milliseconds since 1970 UTC. A counter is
    /// preferred to integrated power if it advanced by many steps.
    pub(crate) fn between(
        power: Option<&[EnergyPoint]>,
        counter: Option<&[EnergyPoint]>,
        scope: MeterScope,
        window: (i64, i64),
    ) -> Result<EnergyUse, PowerLogError> {
        let integrated = |power| EnergyUse::from_points(power, false, scope, window);
        let counted = |counter| EnergyUse::from_points(counter, true, scope, window);
        match (power, counter) {
            (None, None) => Err(PowerLogError::NoRows),
            (None, Some(counter)) => counted(counter),
            (Some(power), None) => integrated(power),
            (Some(power), Some(counter)) => match counted(counter) {
                Ok(used) if used.joules >= MIN_COUNTER_STEPS * smallest_step(counter) => Ok(used),
                _ => integrated(power),
            },
        }
    }

    fn from_points(
        points: &[EnergyPoint],
        counted: bool,
        scope: MeterScope,
        (from_ms, to_ms): (i64, i64),
    ) -> Result<EnergyUse, PowerLogError> {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Err(PowerLogError::NoRows);
        };
        let (first, last) = (first.unix_ms, last.unix_ms);
        let asked = to_ms.saturating_sub(from_ms);
        let seconds = asked as f64 / 1000.0;
        let outside = first.saturating_sub(from_ms).max(0).saturating_add(to_ms.saturating_sub(last).max(0));
        if from_ms < first - TOLERANCE_MS || to_ms > last + TOLERANCE_MS || outside > asked / 2 {
            return Err(PowerLogError::NotCovered { outside: outside as f64 / 1000.0, window: seconds });
        }
        let (from_ms, to_ms) = (from_ms.max(first), to_ms.min(last));
        if from_ms >= to_ms {
            return Err(PowerLogError::EmptyWindow);
        }
        let seconds = (to_ms - from_ms) as f64 / 1000.0;
        let inside = || points.windows(2).filter(|pair| pair[1].unix_ms > from_ms && pair[0].unix_ms < to_ms);
        let gap = |pair: &[EnergyPoint]| (pair[1].unix_ms - pair[0].unix_ms) as f64 / 1000.0;
        if counted
            && scope == MeterScope::Processor
            && let Some(gap) = inside().map(gap).find(|gap| *gap > MIN_WRAP)
        {
            return Err(PowerLogError::CounterGap { gap });
        }
        let is_cut = |pair: &[EnergyPoint], at: i64| pair[0].unix_ms < at && at < pair[1].unix_ms;
        let unknown = inside().filter(|pair| !counted || is_cut(pair, from_ms) || is_cut(pair, to_ms));
        let gap = unknown.map(gap).fold(0.0, f64::max);
        if gap > seconds * MAX_GAP {
            return Err(PowerLogError::Gap { gap, window: seconds });
        }
        Ok(EnergyUse { joules: joules_at(points, to_ms) - joules_at(points, from_ms), seconds, counted })
    }
}

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

/// Returns the interpolated cumulative energy in joules at a time within the range of the points.
fn joules_at(points: &[EnergyPoint], unix_ms: i64) -> f64 {
    let next = points.partition_point(|point| point.unix_ms < unix_ms).min(points.len().saturating_sub(1));
    let (Some(before), Some(after)) = (points.get(next.saturating_sub(1)), points.get(next)) else {
        return 0.0;
    };
    if after.unix_ms == before.unix_ms {
        return after.joules;
    }
    let share = (unix_ms - before.unix_ms) as f64 / (after.unix_ms - before.unix_ms) as f64;
    before.joules + (after.joules - before.joules) * share
}

/// Returns the smallest increase between two values of a counter, which is at least the counter's resolution. Returns
/// infinity if the counter did not increase.
fn smallest_step(points: &[EnergyPoint]) -> f64 {
    let rises = points.windows(2).map(|pair| pair[1].joules - pair[0].joules);
    rises.filter(|rise| *rise > 0.0).fold(f64::INFINITY, f64::min)
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
