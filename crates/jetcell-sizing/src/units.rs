//! Quantities with a unit in text form: sizes, rates, times and shares.
//!
//! A number without a unit is an error, because 300 GB and 300 GiB differ by 7 %, which would change the number of
//! disks. All quantities are finite and not negative. Inside the crate, quantities are `f64`, and the suffix of a
//! variable name is the unit.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A quantity in a file, which must be text. A bare number is accepted only so that the missing unit can be reported.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawQuantity {
    Whole(i64),
    Number(f64),
    Text(String),
}

/// Reason why a string is not a valid quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError {
    text: String,
    what: QuantityFault,
}

/// Errors in the text of a quantity. The fields contain examples of the correct form.
#[derive(Clone, Debug, PartialEq, Eq)]
enum QuantityFault {
    NotUnderstood(String),
    NoUnit(String),
    TooLarge,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match &self.what {
            QuantityFault::NotUnderstood(example) => {
                write!(f, "could not parse '{text}'; try a value such as {example}")
            }
            QuantityFault::NoUnit(example) => {
                write!(f, "'{text}' has no unit; try a value such as {example}")
            }
            QuantityFault::TooLarge => write!(f, "'{text}' is too large"),
        }
    }
}

impl std::error::Error for QuantityError {}

const GIB: f64 = (1u64 << 30) as f64;
const MIB: f64 = (1u64 << 20) as f64;

/// Splits text such as `12.5GiB` into 12.5 and the factor of its unit, and returns the product.
fn scale(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, QuantityError> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let error = |what| QuantityError { text: text.to_owned(), what };
    let wrong = || error(QuantityFault::NotUnderstood(example.to_owned()));
    let unit = unit.trim();
    if unit.is_empty() && !number.is_empty() {
        return Err(error(QuantityFault::NoUnit(example.to_owned())));
    }
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor;
    if value <= MAX_QUANTITY { Ok(value) } else { Err(error(QuantityFault::TooLarge)) }
}

/// Maximum value of any quantity: an exabyte, or 30 billion years. Larger values are input errors.
const MAX_QUANTITY: f64 = 1e18;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $example:literal, [$(($unit:literal, $factor:expr)),+ $(,)?]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
        #[serde(try_from = "RawQuantity", into = "String")]
        pub struct $name(pub f64);

        impl $name {
            const UNITS: &[(&str, f64)] = &[$(($unit, $factor)),+];
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                scale(text, Self::UNITS, $example).map($name)
            }
        }

        impl TryFrom<RawQuantity> for $name {
            type Error = QuantityError;
            fn try_from(written: RawQuantity) -> Result<Self, QuantityError> {
                match written {
                    RawQuantity::Text(text) => text.parse(),
                    RawQuantity::Whole(number) => number.to_string().parse(),
                    RawQuantity::Number(number) => number.to_string().parse(),
                }
            }
        }

        /// Formats the value with the largest unit that divides it evenly, or else with the smallest unit. Parsing
        /// the text therefore returns the same value.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let whole = Self::UNITS.iter().find(|(_, factor)| self.0 != 0.0 && self.0 % factor == 0.0);
                let (unit, factor) = whole.or(Self::UNITS.last()).copied().unwrap_or(("", 1.0));
                write!(f, "{}{unit}", self.0 / factor)
            }
        }

        impl From<$name> for String {
            fn from(quantity: $name) -> String {
                quantity.to_string()
            }
        }
    };
}

quantity!(
    /// A number of bytes: `75KiB`, `2GiB`, `300GB`.
    DataSize,
    "2GiB or 300GB",
    [
        ("TiB", GIB * 1024.0),
        ("TB", 1e12),
        ("GiB", GIB),
        ("GB", 1e9),
        ("MiB", MIB),
        ("MB", 1e6),
        ("KiB", 1024.0),
        ("KB", 1e3),
        ("B", 1.0),
    ]
);

quantity!(
    /// A number of bytes per second: `200MB/s`, `1Gbit/s`.
    DataRate,
    "200MB/s or 1Gbit/s",
    [
        ("GB/s", 1e9),
        ("MiB/s", MIB),
        ("Gbit/s", 1.25e8),
        ("MB/s", 1e6),
        ("Mbit/s", 1.25e5),
        ("KiB/s", 1024.0),
        ("KB/s", 1e3),
        ("B/s", 1.0),
    ]
);

quantity!(
    /// A time in seconds: `14d`, `8h`, `20ms`.
    DurationQuantity,
    "14d, 8h or 2.9s",
    [("y", 365.0 * 86400.0), ("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)]
);

quantity!(
    /// A fraction: `20%`.
    Share,
    "20%",
    [("%", 1e-2)]
);

impl DataSize {
    /// Returns the size in kibibytes.
    pub fn kib(self) -> f64 {
        self.0 / 1024.0
    }
    /// Returns the size in mebibytes.
    pub fn mib(self) -> f64 {
        self.0 / MIB
    }
    /// Returns the size in gibibytes.
    pub fn gib(self) -> f64 {
        self.0 / GIB
    }
    /// Creates a size from a number of gibibytes.
    pub fn from_gib(gib: f64) -> DataSize {
        DataSize(gib * GIB)
    }
}

impl DataRate {
    /// Returns the rate in megabytes per second (powers of ten).
    pub fn mb_s(self) -> f64 {
        self.0 / 1e6
    }
}

impl DurationQuantity {
    /// Returns the time in days of 24 hours.
    pub fn days(self) -> f64 {
        self.0 / 86400.0
    }
    /// Returns the time in hours.
    pub fn hours(self) -> f64 {
        self.0 / 3600.0
    }
    /// Returns the time in milliseconds.
    pub fn ms(self) -> f64 {
        self.0 * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_with_units_are_read() {
        assert_eq!("2GiB".parse(), Ok(DataSize(2147483648.0)));
        assert_eq!("300 GB".parse::<DataSize>().map(|size| (size.gib() * 10.0).round()), Ok(2794.0));
        assert_eq!("1Gbit/s".parse::<DataRate>().map(DataRate::mb_s), Ok(125.0));
        assert_eq!("14d".parse::<DurationQuantity>().map(DurationQuantity::hours), Ok(336.0));
        assert_eq!("20%".parse(), Ok(Share(0.2)));
    }

    #[test]
    fn the_error_of_an_invalid_quantity_has_an_example() {
        assert_eq!(
            "300".parse::<DataSize>().unwrap_err().to_string(),
            "'300' has no unit; try a value such as 2GiB or 300GB"
        );
        for text in ["", "GiB", "-5GiB", "1.2.3GiB", "1e3GiB", "5gb", "5 parsecs", "nanGiB"] {
            assert!(text.parse::<DataSize>().unwrap_err().to_string().contains("2GiB"), "{text}");
        }
        assert!("99999999999TiB".parse::<DataSize>().unwrap_err().to_string().contains("too large"));
        assert!("20".parse::<Share>().unwrap_err().to_string().contains("no unit"));
    }

    proptest! {
        #[test]
        fn units_round_trip(number in 0u32..900_000, unit in 0..DataSize::UNITS.len()) {
            let size = DataSize(f64::from(number) * DataSize::UNITS[unit].1);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
            prop_assert!((DataSize::from_gib(size.gib()).0 - size.0).abs() <= size.0 * 1e-15);
            let span = DurationQuantity(f64::from(number));
            prop_assert_eq!(span.to_string().parse(), Ok(span));
            let share: Share = format!("{number}%").parse().unwrap();
            prop_assert!((share.to_string().parse::<Share>().unwrap().0 - share.0).abs() < share.0 * 1e-15 + 1e-300);
        }
    }
}
