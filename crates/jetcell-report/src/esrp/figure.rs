//! Figures in a configuration, as the author wrote them. The number of decimals determines how a computed figure is
//! rounded for comparison.

use std::fmt;
use std::str::FromStr;

use jetcell_input::number::{rounded, without_zeros};
use jetcell_input::quantity::{QuantityError, number_and_unit};
use jetcell_workload::units::ByteSize;
use serde::Deserialize;

/// A non-negative number as the author wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct StatedNumber(f64);

impl StatedNumber {
    pub(crate) fn value(self) -> f64 {
        self.0
    }

    /// Returns true if the computed figure, rounded to the same number of decimals, equals this figure.
    pub(crate) fn matches_rounded(self, computed: f64) -> bool {
        let decimals = self.decimals();
        format!("{:.decimals$}", rounded(computed, decimals)) == format!("{:.decimals$}", self.0)
    }

    /// Formats the computed figure with one more decimal than this figure, which makes a difference visible.
    pub(crate) fn format_like(self, computed: f64) -> String {
        let decimals = (self.decimals() + 1).min(6);
        without_zeros(&format!("{:.decimals$}", rounded(computed, decimals)))
    }

    /// Returns the number of decimals in the number's shortest form.
    fn decimals(self) -> usize {
        self.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }
}

/// Error for a number that is negative or too large to be a figure of a storage solution.
#[derive(Debug, thiserror::Error)]
#[error("expected a number from 0 to 1e15")]
pub(crate) struct ImplausibleNumber;

impl TryFrom<f64> for StatedNumber {
    type Error = ImplausibleNumber;
    fn try_from(value: f64) -> Result<StatedNumber, ImplausibleNumber> {
        // Larger numbers are not plausible for a storage solution, and their digits would fill whole lines.
        if (0.0..=1e15).contains(&value) { Ok(StatedNumber(value)) } else { Err(ImplausibleNumber) }
    }
}

impl fmt::Display for StatedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A single number, or a range from a lowest to a highest number.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number, or a list of the minimum and the maximum such as [281, 282]"
)]
pub(crate) enum NumberRange {
    One(StatedNumber),
    Between([StatedNumber; 2]),
}

impl NumberRange {
    /// Returns the lowest and the highest number.
    pub(crate) fn bounds(self) -> (f64, f64) {
        match self {
            NumberRange::One(only) => (only.0, only.0),
            NumberRange::Between([low, high]) => (low.0, high.0),
        }
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberRange::One(only) => only.fmt(f),
            NumberRange::Between([low, high]) => write!(f, "{low} to {high}"),
        }
    }
}

/// A size with a unit, printed as the author wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatedCapacity {
    pub(crate) written: String,
    pub(crate) bytes: u64,
}

impl FromStr for StatedCapacity {
    type Err = QuantityError;
    fn from_str(written: &str) -> Result<StatedCapacity, QuantityError> {
        let ByteSize(bytes) = written.parse()?;
        Ok(StatedCapacity { written: written.into(), bytes })
    }
}

impl fmt::Display for StatedCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

jetcell_input::text_in_serde!(StatedCapacity);

impl StatedCapacity {
    /// Formats a number of bytes in the same unit as this size.
    pub(crate) fn in_same_unit(&self, bytes: f64) -> String {
        let (unit, decimals) = self.unit();
        let decimals = decimals.max(2);
        format!("{:.decimals$} {unit}", rounded(bytes / self.factor(), decimals))
    }

    /// Returns the unit and the number of decimals.
    fn unit(&self) -> (&str, usize) {
        let (number, unit) = number_and_unit(self.written.trim()).unwrap_or_default();
        (unit, number.split_once('.').map_or(0, |(_, decimals)| decimals.len()))
    }

    /// Returns the number of bytes in one unit.
    fn factor(&self) -> f64 {
        // The unit was validated when the configuration was read, so it can be parsed.
        format!("1{}", self.unit().0).parse::<ByteSize>().map_or(1.0, |one| one.0 as f64)
    }

    /// Returns true if a number of bytes, rounded to the same unit and decimals, equals this size.
    pub(crate) fn matches_rounded(&self, bytes: f64) -> bool {
        let half = 0.5 * 10_f64.powi(-(self.unit().1.min(15) as i32)) * self.factor();
        (bytes - self.bytes as f64).abs() <= half * (1.0 + 1e-9)
    }

    /// Returns true if the size matches `bytes`, to within 1 %, as written or with its decimal unit read as a binary
    /// unit.
    pub(crate) fn matches_in_other_units(&self, bytes: f64) -> bool {
        let steps = [1.0, 1.024_f64.powi(3), 1.024_f64.powi(4), 1.024];
        steps.iter().any(|step| (self.bytes as f64 * step / bytes - 1.0).abs() < 0.01)
    }
}
