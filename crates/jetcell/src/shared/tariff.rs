//! Price and carbon dioxide emissions of a kilowatt-hour.

use clap::Args;
use jetcell_input::OptionValueError;
use jetcell_power::EnergyTariff;

/// Options for energy prices. They have no defaults because prices differ by place and year.
#[derive(Args, Clone, Debug, Default)]
pub struct TariffOptions {
    /// Price of a kilowatt-hour
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    price_per_kwh: Option<f64>,
    /// Name of the currency
    #[arg(long, value_name = "NAME", requires = "price_per_kwh")]
    pub currency: Option<String>,
    /// Carbon dioxide emissions in kilograms per kilowatt-hour
    #[arg(long, value_name = "KG", value_parser = above_zero)]
    co2_kg_per_kwh: Option<f64>,
}

impl TariffOptions {
    /// Returns the tariff.
    pub fn tariff(&self) -> EnergyTariff {
        EnergyTariff { price_per_kwh: self.price_per_kwh, co2_kg_per_kwh: self.co2_kg_per_kwh }
    }
}

/// Parses a price or a power, which must be greater than zero.
pub fn above_zero(text: &str) -> Result<f64, OptionValueError> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| OptionValueError::unparsable(text, "a positive number", "use a number greater than 0"))
}
