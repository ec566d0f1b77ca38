//! Quantities as text with units: `12h`, `1.9%`, `1.08e-4/h`, `1e-14/bit`, `144GB`, `27MB/s`.
//!
//! A number without a unit is an error if the quantity has more than one common unit, because a wrong guess would go
//! unnoticed: `1e-14` per bit and per byte differ by a factor of 8. Every value is finite and non-negative. Decimal
//! prefixes are powers of 1000, binary prefixes (`GiB`) powers of 1024. A year has 8760 hours.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Number of hours in a year, for all annual rates.
pub const HOURS_PER_YEAR: f64 = 8760.0;

/// Time span in hours.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Hours(f64);

/// Number of events per hour.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PerHour(f64);

/// Operational failures per drive per year of operation, as a fraction: `1.9%` is 0.019.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct AnnualFailure(f64);

/// Rate of unreadable sectors per byte read.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ErrorsPerByte(f64);

/// Amount of data in bytes.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bytes(f64);

/// Transfer rate in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BytesPerSecond(f64);

/// Fraction between 0 and 1: `30%` or `0.3`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Fraction(f64);

/// Splits `text` into the number at its start and the unit that follows.
fn split(text: &str) -> Result<(f64, &str), Error> {
    let text = text.trim();
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || b"+-.eE".contains(b)).count();
    // The "e" in "2e" could belong to the unit or to an exponent, so the longest prefix that is a number is taken.
    let number = (1..=digits).rev().find_map(|end| {
        let number = text.get(..end)?.parse::<f64>().ok()?;
        Some((number, text.get(end..)?.trim()))
    });
    match number {
        Some((number, _)) if !number.is_finite() => Err(Error::NotFinite(text.to_string())),
        Some((number, _)) if number < 0.0 => Err(Error::Negative(text.to_string())),
        Some(split) => Ok(split),
        None => Err(Error::NoNumber(text.to_string())),
    }
}

fn unit(text: &str, expected: &'static str) -> Error {
    Error::Unit { text: text.trim().to_string(), expected }
}

fn hours_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" | "second" | "seconds" => 1.0 / 3600.0,
        "min" | "minute" | "minutes" => 1.0 / 60.0,
        "h" | "hour" | "hours" => 1.0,
        "d" | "day" | "days" => 24.0,
        "w" | "week" | "weeks" => 168.0,
        "y" | "year" | "years" => HOURS_PER_YEAR,
        _ => return None,
    })
}

fn bytes_per(unit: &str) -> Option<f64> {
    let (letter, rest) = unit.split_at_checked(1)?;
    if unit == "B" {
        return Some(1.0);
    }
    let power =
        1 + ["k", "M", "G", "T", "P"].iter().position(|&prefix| prefix.eq_ignore_ascii_case(letter))?;
    match rest {
        "B" => Some(1000f64.powi(power as i32)),
        "iB" => Some(1024f64.powi(power as i32)),
        _ => None,
    }
}

/// Returns the text after the slash: `h` for `1/h`, or `hour` for `1 per hour`.
fn per(unit: &str) -> Option<&str> {
    unit.strip_prefix('/').or_else(|| unit.strip_prefix("per ")).map(str::trim)
}

impl Hours {
    /// Creates a time span from hours. Returns an error if the value is negative, infinite, or not a number.
    pub fn new(hours: f64) -> Result<Hours, Error> {
        checked(hours).map(Hours)
    }

    /// Returns the time span in hours.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PerHour {
    /// Creates a rate from events per hour.
    pub fn new(rate: f64) -> Result<PerHour, Error> {
        checked(rate).map(PerHour)
    }

    /// Creates the rate of an event that occurs once per `mean`, which must not be zero.
    pub fn once_per(mean: Hours) -> Result<PerHour, Error> {
        if mean.0 == 0.0 { Err(Error::Zero("a mean time")) } else { checked(1.0 / mean.0).map(PerHour) }
    }

    /// Returns the mean time between events, or `None` if the event never happens.
    pub fn mean(self) -> Option<Hours> {
        (self.0 > 0.0).then(|| Hours(1.0 / self.0))
    }

    /// Rate of an event that never happens.
    pub const NEVER: PerHour = PerHour(0.0);

    /// Returns the number of events per hour.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl AnnualFailure {
    /// Creates an annual failure rate from a fraction per year.
    pub fn new(fraction: f64) -> Result<AnnualFailure, Error> {
        if fraction > 1.0 {
            Err(Error::AnnualFailureAboveOne(fraction))
        } else {
            checked(fraction).map(AnnualFailure)
        }
    }

    /// Returns the number of failures per year.
    pub fn get(self) -> f64 {
        self.0
    }

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
    /// Creates an error rate from errors per byte read.
    pub fn new(errors: f64) -> Result<ErrorsPerByte, Error> {
        checked(errors).map(ErrorsPerByte)
    }

    /// Returns the number of errors per byte read.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Returns the number of errors per bit read.
    pub fn per_bit(self) -> f64 {
        self.0 / 8.0
    }

    /// Returns the rate of latent defects for a drive that reads at `rate`.
    pub fn defect_rate_at(self, rate: BytesPerSecond) -> Result<PerHour, Error> {
        PerHour::new(self.0 * rate.0 * 3600.0)
    }
}

impl Bytes {
    /// Creates an amount of data from bytes.
    pub fn new(bytes: f64) -> Result<Bytes, Error> {
        checked(bytes).map(Bytes)
    }

    /// Returns the number of bytes.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl BytesPerSecond {
    /// Creates a transfer rate from bytes per second.
    pub fn new(rate: f64) -> Result<BytesPerSecond, Error> {
        checked(rate).map(BytesPerSecond)
    }

    /// Returns the number of bytes per second.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Fraction {
    /// Creates a fraction between 0 and 1.
    pub fn new(part: f64) -> Result<Fraction, Error> {
        if part > 1.0 { Err(Error::FractionAboveOne(part)) } else { checked(part).map(Fraction) }
    }

    /// Returns the fraction.
    pub fn get(self) -> f64 {
        self.0
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

impl FromStr for Hours {
    type Err = Error;
    fn from_str(text: &str) -> Result<Hours, Error> {
        let (number, rest) = split(text)?;
        let factor = hours_per(rest).ok_or_else(|| unit(text, "a time such as 12h, 90min, 7d or 5y"))?;
        Hours::new(number * factor)
    }
}

impl FromStr for PerHour {
    type Err = Error;
    fn from_str(text: &str) -> Result<PerHour, Error> {
        let (number, rest) = split(text)?;
        let hours = per(rest).and_then(hours_per);
        let hours = hours.ok_or_else(|| unit(text, "a rate such as 1.08e-4/h or 0.9/y"))?;
        PerHour::new(number / hours)
    }
}

impl FromStr for AnnualFailure {
    type Err = Error;
    fn from_str(text: &str) -> Result<AnnualFailure, Error> {
        let (number, rest) = split(text)?;
        let rest = rest.strip_suffix("/y").unwrap_or(rest).trim();
        match rest {
            "%" => AnnualFailure::new(number / 100.0),
            "" if text.trim().ends_with("/y") => AnnualFailure::new(number),
            _ => Err(unit(text, "an annual failure rate such as 1.9% or 0.019/y")),
        }
    }
}

impl FromStr for ErrorsPerByte {
    type Err = Error;
    fn from_str(text: &str) -> Result<ErrorsPerByte, Error> {
        let (number, rest) = split(text)?;
        match per(rest) {
            Some("bit" | "bits") => ErrorsPerByte::new(number * 8.0),
            Some("byte" | "bytes" | "B") => ErrorsPerByte::new(number),
            _ => Err(unit(text, "an error rate such as 1e-14/bit or 8e-14/byte")),
        }
    }
}

impl FromStr for Bytes {
    type Err = Error;
    fn from_str(text: &str) -> Result<Bytes, Error> {
        let (number, rest) = split(text)?;
        let factor = bytes_per(rest).ok_or_else(|| unit(text, "a size such as 144GB, 4TB or 3.6TiB"))?;
        Bytes::new(number * factor)
    }
}

impl FromStr for BytesPerSecond {
    type Err = Error;
    fn from_str(text: &str) -> Result<BytesPerSecond, Error> {
        let (number, rest) = split(text)?;
        let factor = rest
            .split_once('/')
            .and_then(|(size, time)| Some(bytes_per(size.trim())? / (3600.0 * hours_per(time.trim())?)));
        let factor = factor.ok_or_else(|| unit(text, "a data rate such as 27MB/s or 1.35GB/h"))?;
        BytesPerSecond::new(number * factor)
    }
}

impl FromStr for Fraction {
    type Err = Error;
    fn from_str(text: &str) -> Result<Fraction, Error> {
        let (number, rest) = split(text)?;
        match rest {
            "%" => Fraction::new(number / 100.0),
            "" => Fraction::new(number),
            _ => Err(unit(text, "a share such as 30% or 0.3")),
        }
    }
}

macro_rules! text {
    ($($quantity:ident $unit:literal),*) => {$(
        impl fmt::Display for $quantity {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}{}", self.0, $unit)
            }
        }
        crate::text::in_serde!($quantity);
    )*};
}
text!(Hours "h", PerHour "/h", AnnualFailure "/y", ErrorsPerByte "/byte", Bytes "B", BytesPerSecond "B/s", Fraction "");

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
        assert!(matches!("12".parse::<Hours>(), Err(Error::Unit { .. })));
        assert!(matches!("1e-14".parse::<ErrorsPerByte>(), Err(Error::Unit { .. })));
        assert!(matches!("1.9".parse::<AnnualFailure>(), Err(Error::Unit { .. })));
        assert!(matches!("-1h".parse::<Hours>(), Err(Error::Negative(_))));
        assert!(matches!("1e999h".parse::<Hours>(), Err(Error::NotFinite(_))));
        assert!(matches!("1e308y".parse::<Hours>(), Err(Error::NotFinite(_))));
        assert!(matches!("h".parse::<Hours>(), Err(Error::NoNumber(_))));
        assert!(matches!("".parse::<Hours>(), Err(Error::NoNumber(_))));
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
