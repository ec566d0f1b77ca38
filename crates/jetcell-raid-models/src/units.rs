//! Quantities as text with units: `12h`, `1.9%`, `1.08e-4/h`, `1e-14/bit`, `144GB`, `27MB/s`.
//!
//! A number without a unit is an error if the quantity has more than one common unit, because a wrong guess would go
//! unnoticed: `1e-14` per bit and per byte differ by a factor of 8. Every value is finite and non-negative. Decimal
//! prefixes are powers of 1000, binary prefixes (`GiB`) powers of 1024. A year has 8760 hours.

use std::fmt;
use std::str::FromStr;

use jetcell_input::quantity::QuantityKind;
use jetcell_input::quantity::units::{self, UnitFactor};

use crate::Error;

/// Number of hours in a year, for all annual rates.
pub const HOURS_PER_YEAR: f64 = 8760.0;

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident $kind:ident $unit:literal $above:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            /// Creates a quantity. Returns an error if the value is negative, infinite, not a number, or too large.
            pub fn new(value: f64) -> Result<$name, Error> {
                let above: Option<fn(f64) -> Error> = $above;
                match above {
                    Some(error) if value > 1.0 => Err(error(value)),
                    _ => checked(value).map($name),
                }
            }

            /// Returns the value.
            pub fn get(self) -> f64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<$name, Error> {
                $name::new($kind.parse(text)?)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}{}", self.0, $unit)
            }
        }

        jetcell_input::text_in_serde!($name);
    )*};
}

quantities! {
    /// Time span in hours.
    Hours TIME "h" None;
    /// Number of events per hour.
    PerHour EVENTS "/h" None;
    /// Operational failures per drive per year of operation, as a fraction: `1.9%` is 0.019.
    AnnualFailure FAILURES "/y" Some(Error::AnnualFailureAboveOne);
    /// Rate of unreadable sectors per byte read.
    ErrorsPerByte ERRORS "/byte" None;
    /// Amount of data in bytes.
    Bytes SIZE "B" None;
    /// Transfer rate in bytes per second.
    BytesPerSecond RATE "B/s" None;
    /// Fraction between 0 and 1: `30%` or `0.3`.
    Fraction SHARE "" Some(Error::FractionAboveOne);
}

const TIME: QuantityKind = QuantityKind::new(units::hours, "12h, 90min, 7d or 5y").with_sums();
const EVENTS: QuantityKind = QuantityKind::new(per_hour, "1.08e-4/h or 0.9/y");
const FAILURES: QuantityKind = QuantityKind::new(per_year, "1.9% or 0.019/y");
const ERRORS: QuantityKind = QuantityKind::new(per_byte, "1e-14/bit or 8e-14/byte");
const SIZE: QuantityKind = QuantityKind::new(units::exact_bytes, "144GB, 4TB or 3.6TiB");
const RATE: QuantityKind = QuantityKind::new(units::exact_bytes_per_second, "27MB/s or 1.35GB/h");
const SHARE: QuantityKind = QuantityKind::new(units::fraction, "30% or 0.3").with_bare(UnitFactor::ONE);

/// Returns the text after the slash: `h` for `1/h`, or `hour` for `1 per hour`.
fn per(unit: &str) -> Option<&str> {
    unit.strip_prefix('/').or_else(|| unit.strip_prefix("per ")).map(str::trim)
}

fn per_hour(unit: &str) -> Option<UnitFactor> {
    per(unit).and_then(units::hours).map(|UnitFactor(multiply, divide)| UnitFactor(divide, multiply))
}

fn per_year(unit: &str) -> Option<UnitFactor> {
    match unit.strip_suffix("/y").map(str::trim) {
        Some("") => Some(UnitFactor::ONE),
        percent => units::fraction(percent.unwrap_or(unit)),
    }
}

fn per_byte(unit: &str) -> Option<UnitFactor> {
    match per(unit)? {
        "bit" | "bits" => Some(UnitFactor(8.0, 1.0)),
        "byte" | "bytes" | "B" => Some(UnitFactor::ONE),
        _ => None,
    }
}

impl PerHour {
    /// Rate of an event that never happens.
    pub const NEVER: PerHour = PerHour(0.0);

    /// Creates the rate of an event that occurs once per `mean`, which must not be zero.
    pub fn once_per(mean: Hours) -> Result<PerHour, Error> {
        if mean.0 == 0.0 { Err(Error::Zero("a mean time")) } else { checked(1.0 / mean.0).map(PerHour) }
    }

    /// Returns the mean time between events, or `None` if the event never happens.
    pub fn mean(self) -> Option<Hours> {
        (self.0 > 0.0).then(|| Hours(1.0 / self.0))
    }
}

impl AnnualFailure {
    /// Interprets the percentage as failures per drive and year of operation: rate = AFR / 8760 h. The paper uses
    /// this definition.
    pub fn as_rate(self) -> PerHour {
        PerHour(self.0 / HOURS_PER_YEAR)
    }

    /// Interprets the percentage as the probability that a drive fails within a year: rate = -ln(1 - AFR) / 8760 h.
    pub fn as_probability(self) -> Result<PerHour, Error> {
        checked(-(-self.0).ln_1p() / HOURS_PER_YEAR).map(PerHour)
    }
}

impl ErrorsPerByte {
    /// Returns the rate of latent defects for a drive that reads at `rate`.
    pub fn defect_rate_at(self, rate: BytesPerSecond) -> Result<PerHour, Error> {
        PerHour::new(self.0 * rate.0 * 3600.0)
    }
}

fn checked(value: f64) -> Result<f64, Error> {
    if !value.is_finite() {
        Err(Error::NotFinite(value.to_string()))
    } else if value < 0.0 {
        Err(Error::Negative(value.to_string()))
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!("12h".parse::<Hours>().unwrap().get(), 12.0);
        assert_eq!("7 d".parse::<Hours>().unwrap().get(), 168.0);
        assert_eq!("1.08e-4/h".parse::<PerHour>().unwrap().get(), 1.08e-4);
        assert_eq!("2.4/d".parse::<PerHour>().unwrap().get(), 2.4 / 24.0);
        assert_eq!("1.9%".parse::<AnnualFailure>().unwrap(), "0.019/y".parse().unwrap());
        assert_eq!("144GB".parse::<Bytes>().unwrap().get(), 144e9);
        assert_eq!("1TiB".parse::<Bytes>().unwrap().get(), 1024f64.powi(4));
        assert_eq!("36MB/s".parse::<BytesPerSecond>().unwrap().get(), 36e6);
        assert_eq!("30%".parse::<Fraction>().unwrap().get(), 0.3);
    }

    #[test]
    fn bit_and_byte_differ_eightfold() {
        let bit: ErrorsPerByte = "1e-14/bit".parse().unwrap();
        let byte: ErrorsPerByte = "1e-14 per byte".parse().unwrap();
        assert_eq!(bit.get() / byte.get(), 8.0);
        // The paper's product: 8e-14 errors per byte x 1.35e9 bytes per hour.
        let rate = bit.defect_rate_at("1.35GB/h".parse().unwrap()).unwrap();
        assert!((rate.get() / 1.08e-4 - 1.0).abs() < 1e-12, "{rate}");
    }

    #[test]
    fn invalid_quantities_are_refused() {
        use jetcell_input::quantity::QuantityError as E;
        assert!(matches!("12".parse::<Hours>(), Err(Error::Quantity(E::NoUnit { .. }))));
        assert!(matches!("1e-14".parse::<ErrorsPerByte>(), Err(Error::Quantity(E::NoUnit { .. }))));
        assert!(matches!("1.9".parse::<AnnualFailure>(), Err(Error::Quantity(E::NoUnit { .. }))));
        assert!(matches!("12 parsecs".parse::<Hours>(), Err(Error::Quantity(E::UnknownUnit { .. }))));
        assert!(matches!("-1h".parse::<Hours>(), Err(Error::Quantity(E::Negative { .. }))));
        assert!(matches!("1e999h".parse::<Hours>(), Err(Error::Quantity(E::TooLarge { .. }))));
        assert!(matches!("1e308y".parse::<Hours>(), Err(Error::Quantity(E::TooLarge { .. }))));
        assert!(matches!("h".parse::<Hours>(), Err(Error::Quantity(E::NoNumber { .. }))));
        assert!(matches!("".parse::<Hours>(), Err(Error::Quantity(E::NoNumber { .. }))));
        assert!(matches!("101%".parse::<AnnualFailure>(), Err(Error::AnnualFailureAboveOne(_))));
        assert!(matches!("1.5".parse::<Fraction>(), Err(Error::FractionAboveOne(_))));
        assert!("12\u{fc}h".parse::<Hours>().is_err() && "5 \u{b5}B".parse::<Bytes>().is_err());
    }

    proptest! {
        #[test]
        fn printed_quantities_parse_to_the_same_value(value in 1e-20f64..1e20, part in 0.0f64..1.0) {
            prop_assert_eq!(Hours(value).to_string().parse::<Hours>().unwrap(), Hours(value));
            prop_assert_eq!(PerHour(value).to_string().parse::<PerHour>().unwrap(), PerHour(value));
            prop_assert_eq!(ErrorsPerByte(value).to_string().parse::<ErrorsPerByte>().unwrap(), ErrorsPerByte(value));
            prop_assert_eq!(Bytes(value).to_string().parse::<Bytes>().unwrap(), Bytes(value));
            prop_assert_eq!(BytesPerSecond(value).to_string().parse::<BytesPerSecond>().unwrap().0 / value, 1.0);
            prop_assert_eq!(AnnualFailure(part).to_string().parse::<AnnualFailure>().unwrap(), AnnualFailure(part));
            prop_assert_eq!(Fraction(part).to_string().parse::<Fraction>().unwrap(), Fraction(part));
        }

        #[test]
        fn units_convert_in_both_directions(hours in 1e-6f64..1e9) {
            for (suffix, factor) in [("s", 1.0 / 3600.0), ("min", 1.0 / 60.0), ("h", 1.0), ("d", 24.0), ("w", 168.0), ("y", 8760.0)] {
                let there: Hours = format!("{}{suffix}", hours / factor).parse().unwrap();
                prop_assert!((there.get() / hours - 1.0).abs() < 1e-14);
            }
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,12}") {
            let _ = (text.parse::<Hours>(), text.parse::<PerHour>(), text.parse::<AnnualFailure>());
            let _ = (text.parse::<ErrorsPerByte>(), text.parse::<Bytes>(), text.parse::<BytesPerSecond>());
        }
    }
}
