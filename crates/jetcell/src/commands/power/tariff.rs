//! What a kilowatt-hour costs.

use clap::Args;
use jetcell_power::Tariff;

/// Options of prices. There are no defaults: they differ by place and year.
#[derive(Args, Clone, Debug, Default)]
pub struct TariffOptions {
    /// Money for a kilowatt-hour
    #[arg(long, value_name = "PRICE", value_parser = above_zero)]
    price_per_kwh: Option<f64>,
    /// Name of the money
    #[arg(long, value_name = "NAME", requires = "price_per_kwh")]
    pub currency: Option<String>,
    /// Kilograms of carbon dioxide for a kilowatt-hour
    #[arg(long, value_name = "KG", value_parser = above_zero)]
    co2_kg_per_kwh: Option<f64>,
}

impl TariffOptions {
    /// The prices.
    pub fn tariff(&self) -> Tariff {
        Tariff { price_per_kwh: self.price_per_kwh, co2_kg_per_kwh: self.co2_kg_per_kwh }
    }
}

/// Reads a price or a power.
pub fn above_zero(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| "write a number above 0".into())
}
