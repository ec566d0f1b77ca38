//! The calculation sheet. It lists every input and formula of a calculation, in order and with numbers, which allows a
//! person to check the calculation.
//!
//! A formula is written only once: `formula!` both evaluates it and records its source text, so the printed formula
//! is always the one that was evaluated. The names in a formula refer to earlier lines. A formula uses only `+ - * /`
//! and the functions of this module. A result that is not finite makes the sheet invalid, so overflows are always
//! detected.

use std::collections::HashMap;
use std::fmt;

use jetcell_input::number::without_zeros;

/// A calculation sheet: the lines that show how a sizing was calculated.
#[derive(Clone, Debug, Default)]
pub struct CalculationSheet {
    lines: Vec<SheetLine>,
    latest: HashMap<String, f64>,
    first_invalid: Option<String>,
}

/// A line of a calculation sheet.
#[derive(Clone, PartialEq, Debug)]
pub enum SheetLine {
    /// Heading of the following lines.
    Heading(String),
    /// An input number.
    Input {
        /// Name used in formulas.
        name: String,
        /// Value of the number.
        value: f64,
        /// Unit of the number.
        unit: String,
    },
    /// A calculated number.
    Formula {
        /// Name used in later formulas.
        name: String,
        /// Formula with its names.
        formula: String,
        /// Formula with its names replaced by numbers.
        numbers: String,
        /// Result of the formula.
        value: f64,
        /// Unit of the result.
        unit: String,
    },
}

/// Records an input number and binds its name.
macro_rules! input {
    ($sheet:expr, $name:ident = $value:expr, $unit:literal) => {
        let $name: f64 = $sheet.input(stringify!($name), $value, $unit);
    };
}

/// Evaluates and records a formula, and binds the name of its result.
macro_rules! formula {
    ($sheet:expr, $name:ident = $value:expr, $unit:literal) => {
        let $name: f64 = $sheet.calculated(stringify!($name), stringify!($value), $value, $unit);
    };
}

/// Returns the smallest integer that is not less than `x`. Tolerates rounding errors in the last digits.
pub fn ceil(x: f64) -> f64 {
    (x - x.abs() * 1e-12).ceil()
}

/// Returns the largest integer that is not greater than `x`. Tolerates rounding errors in the last digits.
pub fn floor(x: f64) -> f64 {
    (x + x.abs() * 1e-12).floor()
}

/// Returns the larger number.
pub fn max(a: f64, b: f64) -> f64 {
    a.max(b)
}

/// Returns the smaller number.
pub fn min(a: f64, b: f64) -> f64 {
    a.min(b)
}

/// Returns `base` to the power of `exponent`.
pub fn power(base: f64, exponent: f64) -> f64 {
    base.powf(exponent)
}

impl CalculationSheet {
    /// Starts a section of the sheet.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.lines.push(SheetLine::Heading(text.into()));
    }

    /// Records an input number. See `input!`.
    pub fn input(&mut self, name: &str, value: f64, unit: &str) -> f64 {
        self.remember(name, value);
        self.lines.push(SheetLine::Input { name: name.into(), value, unit: unit.into() });
        value
    }

    /// Records a calculated number. See `formula!`.
    pub fn calculated(&mut self, name: &str, formula: &str, value: f64, unit: &str) -> f64 {
        let formula = normalize_source(formula);
        let numbers = self.with_numbers(&formula);
        self.remember(name, value);
        self.lines.push(SheetLine::Formula { name: name.into(), formula, numbers, value, unit: unit.into() });
        value
    }

    fn remember(&mut self, name: &str, value: f64) {
        if !(value.is_finite() && value.abs() < 1e18) {
            self.first_invalid.get_or_insert_with(|| name.to_string());
        }
        self.latest.insert(name.to_string(), value);
    }

    /// Returns the name of the first result that is not finite, which is the cause of all later ones.
    pub fn first_invalid(&self) -> Option<&str> {
        self.first_invalid.as_deref()
    }

    /// Returns all lines recorded so far.
    pub fn lines(&self) -> &[SheetLine] {
        &self.lines
    }

    fn with_numbers(&self, formula: &str) -> String {
        let mut out = String::new();
        let mut rest = formula;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic()) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(from.len());
            let (name, after) = from.split_at(end);
            out.push_str(before);
            match self.latest.get(name) {
                Some(value) => out.push_str(&format_short(*value)),
                None => out.push_str(name),
            }
            rest = after;
        }
        out + rest
    }
}

/// Removes line breaks from source text, and replaces `1024.0` with `1024`.
fn normalize_source(source: &str) -> String {
    let mut out =
        source.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(",)", ")");
    let mut from = 0;
    while let Some(at) = out[from..].find(".0").map(|at| at + from) {
        if out[at + 2..].starts_with(|c: char| c.is_ascii_digit()) {
            from = at + 2;
        } else {
            out.replace_range(at..at + 2, "");
            from = at;
        }
    }
    out
}

/// Formats a number with at most eight significant digits. Values that occur in practice are printed without an
/// exponent.
pub fn format_short(value: f64) -> String {
    let magnitude = value.abs().max(1e-12).log10().floor() as i32;
    let decimals = (7 - magnitude).clamp(0, 12) as usize;
    without_zeros(&format!("{value:.decimals$}"))
}

impl fmt::Display for CalculationSheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            match line {
                SheetLine::Heading(text) => writeln!(f, "\n{text}")?,
                SheetLine::Input { name, value, unit } => {
                    writeln!(f, "  {name} = {} {unit}", format_short(*value))?;
                }
                SheetLine::Formula { name, formula, numbers, value, unit } => {
                    writeln!(f, "  {name} = {formula}")?;
                    writeln!(f, "      = {numbers} = {} {unit}", format_short(*value))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_formula_with_names_and_with_numbers() {
        let mut sheet = CalculationSheet::default();
        input!(sheet, width = 2.5, "m");
        input!(sheet, height = 4.0, "m");
        formula!(sheet, area = ceil(width * height * 1.05), "m2");
        assert_eq!(area, 11.0);
        let text = sheet.to_string();
        assert!(text.contains("area = ceil(width * height * 1.05)"), "{text}");
        assert!(text.contains("= ceil(2.5 * 4 * 1.05) = 11 m2"), "{text}");
    }

    #[test]
    fn the_error_names_the_first_result_that_is_not_finite() {
        let mut sheet = CalculationSheet::default();
        input!(sheet, disks = 0.0, "");
        formula!(sheet, each = 1.0 / disks, "");
        formula!(sheet, _after = each - each, "");
        assert_eq!(sheet.first_invalid(), Some("each"));
    }

    #[test]
    fn numbers_are_short_and_exact_to_eight_digits() {
        for (value, text) in [(0.0, "0"), (0.2, "0.2"), (1e15, "1000000000000000"), (0.00067, "0.00067")] {
            assert_eq!(format_short(value), text);
        }
    }

    #[test]
    fn rounding_up_tolerates_an_error_in_the_last_digit() {
        assert_eq!((ceil(0.1 * 3.0 * 10.0), floor(0.7 * 10.0)), (3.0, 7.0));
        assert_eq!((ceil(3.0001), floor(2.9999)), (4.0, 2.0));
    }
}
