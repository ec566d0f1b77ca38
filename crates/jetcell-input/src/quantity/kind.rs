//! Parser of quantities.

use super::QuantityError;
use super::units::UnitFactor;
use crate::shortened_name;

/// A kind of quantity: its units, its limits, and how to treat numbers without a unit.
#[derive(Clone, Copy, Debug)]
pub struct QuantityKind {
    unit: fn(&str) -> Option<UnitFactor>,
    bare: Option<UnitFactor>,
    is_sum: bool,
    is_positive: bool,
    max: f64,
    example: &'static str,
}

impl QuantityKind {
    /// Creates a kind with the function that returns the factor of a unit, and an example for error messages. A
    /// number without a unit is an error.
    pub const fn new(unit: fn(&str) -> Option<UnitFactor>, example: &'static str) -> QuantityKind {
        QuantityKind { unit, bare: None, is_sum: false, is_positive: false, max: f64::MAX, example }
    }

    /// Accepts a number without a unit, with this factor.
    #[must_use]
    pub const fn with_bare(self, factor: UnitFactor) -> QuantityKind {
        QuantityKind { bare: Some(factor), ..self }
    }

    /// Accepts sums such as `1h30m`.
    #[must_use]
    pub const fn with_sums(self) -> QuantityKind {
        QuantityKind { is_sum: true, ..self }
    }

    /// Refuses zero.
    #[must_use]
    pub const fn above_zero(self) -> QuantityKind {
        QuantityKind { is_positive: true, ..self }
    }

    /// Refuses values above `max`.
    #[must_use]
    pub const fn with_max(self, max: f64) -> QuantityKind {
        QuantityKind { max, ..self }
    }

    /// Replaces the example in error messages.
    #[must_use]
    pub const fn with_example(self, example: &'static str) -> QuantityKind {
        QuantityKind { example, ..self }
    }

    /// Parses a quantity, which is finite and not negative.
    pub fn parse(&self, text: &str) -> Result<f64, QuantityError> {
        let sum: f64 = self.parts(text)?.iter().map(|(number, factor)| factor.apply(value(number))).sum();
        self.checked(text, Some(sum).filter(|sum| *sum <= self.max), sum == 0.0)
    }

    /// Parses a quantity as a whole number of base units, without loss for whole numbers.
    pub fn parse_whole(&self, text: &str) -> Result<u64, QuantityError> {
        let whole = |(number, factor): (&str, UnitFactor)| match number.parse::<u64>() {
            Ok(number) if factor.1 == 1.0 => number.checked_mul(factor.0 as u64),
            _ => Some(factor.apply(value(number)).round())
                .filter(|value| *value < u64::MAX as f64)
                .map(|value| value as u64),
        };
        let mut parts = self.parts(text)?.into_iter().map(whole);
        let sum = parts.try_fold(0_u64, |sum, part| sum.checked_add(part?));
        self.checked(text, sum, sum == Some(0))
    }

    fn checked<T>(&self, text: &str, value: Option<T>, is_zero: bool) -> Result<T, QuantityError> {
        let (text, example) = (|| shortened_name(text).into_owned(), self.example);
        match value {
            Some(_) if is_zero && self.is_positive => Err(QuantityError::Zero { text: text(), example }),
            Some(value) => Ok(value),
            None => Err(QuantityError::TooLarge { text: text(), example }),
        }
    }

    /// Formats a value with the first of these units that divides it evenly, or else with the last. Parsing the text
    /// returns the same value.
    pub fn text(&self, value: f64, units: &[&str]) -> String {
        let units = || units.iter().filter_map(|name| Some((*name, (self.unit)(name)?.apply(1.0))));
        let whole = units().find(|(_, factor)| value != 0.0 && value % factor == 0.0);
        let (name, factor) = whole.or_else(|| units().next_back()).unwrap_or(("", 1.0));
        format!("{}{name}", value / factor)
    }

    /// Formats a whole number of base units like [`text`](Self::text), without loss.
    pub fn whole_text(&self, value: u64, units: &[&str]) -> String {
        let mut units = units.iter().filter_map(|name| Some((*name, (self.unit)(name)?.apply(1.0) as u64)));
        let (name, factor) = units.find(|(_, factor)| value.is_multiple_of(*factor)).unwrap_or(("", 1));
        format!("{}{name}", value / factor.max(1))
    }

    /// Splits a text into numbers and the factors of their units.
    fn parts<'a>(&self, text: &'a str) -> Result<Vec<(&'a str, UnitFactor)>, QuantityError> {
        let mut rest = text.trim();
        let (shown, example) = (|| shortened_name(text.trim()).into_owned(), self.example);
        if rest.starts_with('-') {
            return Err(QuantityError::Negative { text: shown(), example });
        }
        let mut parts: Vec<(&str, UnitFactor)> = Vec::new();
        loop {
            let no_number = || QuantityError::NoNumber { text: shown(), example };
            let (number, after) = number_and_unit(rest).ok_or_else(no_number)?;
            let end = after.find(|c: char| self.is_sum && c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, next) = after.split_at(end);
            let factor = match (unit.trim_end(), self.bare) {
                ("", Some(factor)) if parts.is_empty() => factor,
                ("", _) => return Err(QuantityError::NoUnit { text: shown(), example }),
                (unit, _) => {
                    (self.unit)(unit).ok_or_else(|| QuantityError::UnknownUnit { text: shown(), example })?
                }
            };
            if parts.last().is_some_and(|(_, last)| last.apply(1.0) <= factor.apply(1.0)) {
                return Err(no_number());
            }
            parts.push((number, factor));
            if next.is_empty() {
                return Ok(parts);
            }
            rest = next;
        }
    }
}

/// Splits a text into the number at its start and the rest without leading space. Returns `None` if the text does not
/// start with a number.
pub fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let is_end = |c: char| !c.is_ascii_digit() && c != '.';
    let (digits, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    let exponent = rest.strip_prefix(['e', 'E']).map_or(0, |power| {
        let unsigned = power.strip_prefix(['+', '-']).unwrap_or(power);
        let count = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 { 0 } else { 1 + power.len() - unsigned.len() + count }
    });
    let (number, unit) = text.split_at_checked(digits.len() + exponent)?;
    number.parse::<f64>().ok()?;
    Some((number, unit.trim_start()))
}

/// Returns the value of a number that [`number_and_unit`] split from a text.
fn value(number: &str) -> f64 {
    number.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
