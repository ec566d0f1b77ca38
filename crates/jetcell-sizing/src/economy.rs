//! Prices, power and energy of disks, and a comparison of two drives.
//!
//! Every percentage has a stated base. A premium or gain of B over A is `B/A - 1`. A discount or deficit of A
//! relative to B is `1 - A/B`. The two values differ: +36 % corresponds to -27 %.

use serde::Serialize;

use crate::catalogue::CatalogueDisk;
use crate::config::CostConfig;
use crate::sheet::CalculationSheet;

/// Number of hours in a year of 365 days.
pub const HOURS_PER_YEAR: f64 = 8760.0;

/// Costs for a given number of disks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DiskCosts {
    /// Price of the disks.
    pub price: f64,
    /// Power of the disks alone, W.
    pub watts: f64,
    /// Energy used by the disks and the building, kWh per year.
    pub kwh_per_year: f64,
    /// Energy cost per year.
    pub energy_cost_per_year: f64,
    /// Expected number of drive failures per year.
    pub failures_per_year: f64,
    /// Total cost of purchase, energy and replacements over the service life.
    pub total_cost: f64,
}

impl DiskCosts {
    /// Calculates the costs of `disks` disks of this kind.
    pub fn new(
        disks: f64,
        disk: &CatalogueDisk,
        cost: &CostConfig,
        sheet: &mut CalculationSheet,
    ) -> DiskCosts {
        sheet.heading(format!("Cost of {disks} x {}", disk.name));
        input!(sheet, disks = disks, "spares included");
        input!(sheet, disk_price = disk.price, "");
        input!(sheet, disk_watts = disk.watts, "W");
        input!(sheet, failure_rate = disk.failure_rate.0, "per disk and year");
        input!(sheet, tariff = cost.tariff, "per kWh");
        input!(sheet, pue = cost.pue, "power of the building relative to that of the disks");
        input!(sheet, years = cost.years, "years");
        input!(sheet, replacement_work = cost.replacement_work, "per drive");
        formula!(sheet, price = disks * disk_price, "");
        formula!(sheet, watts = disks * disk_watts, "W");
        formula!(sheet, kwh_per_year = watts * pue * 8760.0 / 1000.0, "kWh per year");
        formula!(sheet, energy_cost_per_year = kwh_per_year * tariff, "per year");
        formula!(sheet, failures_per_year = disks * failure_rate, "drives per year");
        formula!(
            sheet,
            total_cost = price
                + years * energy_cost_per_year
                + years * failures_per_year * (disk_price + replacement_work),
            ""
        );
        DiskCosts { price, watts, kwh_per_year, energy_cost_per_year, failures_per_year, total_cost }
    }
}

/// Returns the gain of `b` over `a`, as a fraction of `a`.
pub fn gain(b: f64, a: f64) -> f64 {
    b / a - 1.0
}

/// Returns the deficit of `a` relative to `b`, as a fraction of `b`.
pub fn deficit(a: f64, b: f64) -> f64 {
    1.0 - a / b
}

/// Returns the gain that corresponds to a deficit.
pub fn gain_from_deficit(deficit: f64) -> f64 {
    deficit / (1.0 - deficit)
}

/// Returns the average power over the measured time, W.
pub fn average_watts(kwh: f64, hours: f64) -> f64 {
    kwh * 1000.0 / hours
}

/// Returns the energy per year at this power, kWh.
pub fn kwh_per_year(watts: f64) -> f64 {
    watts * HOURS_PER_YEAR / 1000.0
}

/// Returns the mean number of operations in flight (Little's law).
pub fn outstanding(iops: f64, latency_ms: f64) -> f64 {
    iops * latency_ms / 1000.0
}

/// Returns the energy per operation, J.
pub fn joules_per_operation(watts: f64, iops: f64) -> f64 {
    watts / iops
}

/// Comparison of a disk with a base disk. Gains are fractions of the base disk's values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskComparison {
    /// Name of the drive.
    pub disk: String,
    /// Name of the base drive.
    pub base: String,
    /// Price divided by the price of the base drive, minus 1.
    pub price_gain: f64,
    /// Random operations per second divided by those of the base drive, minus 1.
    pub iops_gain: f64,
    /// Price per random operation per second.
    pub price_per_iops: f64,
    /// Price per random operation per second for the base drive.
    pub base_price_per_iops: f64,
    /// Random operations per second per watt, counting only the drive's own power.
    pub iops_per_watt: f64,
    /// Random operations per second per watt for the base drive.
    pub base_iops_per_watt: f64,
    /// Price per GiB.
    pub price_per_gib: f64,
    /// Price per GiB for the base drive.
    pub base_price_per_gib: f64,
}

impl DiskComparison {
    /// Compares two drives. Returns `None` if the base drive's price or power is zero, because the percentages are
    /// then undefined.
    pub fn new(disk: &CatalogueDisk, base: &CatalogueDisk) -> Option<DiskComparison> {
        let comparison = DiskComparison {
            disk: disk.name.clone(),
            base: base.name.clone(),
            price_gain: gain(disk.price, base.price),
            iops_gain: gain(disk.random_iops, base.random_iops),
            price_per_iops: disk.price / disk.random_iops,
            base_price_per_iops: base.price / base.random_iops,
            iops_per_watt: disk.random_iops / disk.watts,
            base_iops_per_watt: base.random_iops / base.watts,
            price_per_gib: disk.price / disk.capacity.gib(),
            base_price_per_gib: base.price / base.capacity.gib(),
        };
        let finite = [comparison.price_gain, comparison.iops_per_watt, comparison.base_iops_per_watt];
        finite.iter().all(|value| value.is_finite()).then_some(comparison)
    }
}
