//! One step in a calculation, which a reviewer can check by hand.

use jetcell_input::number::without_zeros;
use serde::Serialize;

/// One step in a calculation: symbol, formula, formula with values substituted, and result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalculationStep {
    /// Symbol for the result.
    pub symbol: String,
    /// Description of the result.
    pub what: String,
    /// Formula with symbols.
    pub formula: String,
    /// The formula with numbers in place of names.
    pub numbers: String,
    /// Value of the result.
    pub value: f64,
    /// Unit of the result.
    pub unit: &'static str,
}

impl CalculationStep {
    /// Creates a step from its parts.
    pub fn new(
        symbol: impl Into<String>,
        what: impl Into<String>,
        formula: impl Into<String>,
        numbers: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> CalculationStep {
        CalculationStep {
            symbol: symbol.into(),
            what: what.into(),
            formula: formula.into(),
            numbers: numbers.into(),
            value,
            unit,
        }
    }
}

/// Formats a value with seven digits, with a power of ten if it is very large or very small.
pub fn format_value(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    if !(1e-3..1e7).contains(&size) {
        return without_zeros(&format!("{value:.6e}"));
    }
    let decimals = (6 - size.log10().floor() as i32).clamp(0, 9) as usize;
    without_zeros(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_seven_digits() {
        for (value, text) in [
            (0.019, "0.019"),
            (1.08e-4, "1.08e-4"),
            (168.0, "168"),
            (2.168949771689498e-6, "2.16895e-6"),
            (0.08052445233594, "0.08052445"),
            (1.35e9, "1.35e9"),
            (0.0, "0"),
            (9_999_999.6, "10000000"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(format_value(value), text);
        }
    }
}
