//! Sizes, rates and times as whole numbers, for options and files.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::units::{self, UnitFactor};
use super::{QuantityError, QuantityKind};

/// A number of bytes, written as `4096`, `32KiB`, `256MiB`, `1GiB`, `2TiB` (or `MB`, `GB` for powers of ten).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

/// A positive number of bytes per second, written as `50MB/s` or `4096`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteRate(pub u64);

/// A length of time in microseconds, written as `500ms`, `60s`, `5m`, `1h30m`, `1d`. A number without a unit is in
/// seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimeSpan(pub Duration);

/// A quantity type that can be used in options.
pub trait Quantity: PartialOrd + fmt::Display + FromStr<Err = QuantityError> {
    /// Units of the quantity.
    const KIND: QuantityKind;
}

macro_rules! quantity {
    ($name:ident, $kind:expr, $from:expr, $number:expr, $zero:literal, $units:expr) => {
        impl Quantity for $name {
            const KIND: QuantityKind = $kind;
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<$name, QuantityError> {
                Self::KIND.parse_whole(text).map($from)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match $number(self) {
                    0 => f.write_str($zero),
                    number => f.write_str(&Self::KIND.whole_text(number, &$units)),
                }
            }
        }

        crate::text_in_serde!($name);
    };
}

quantity!(
    ByteSize,
    QuantityKind::new(units::bytes, "256MiB").with_bare(UnitFactor::ONE),
    ByteSize,
    |size: &ByteSize| size.0,
    "0",
    ["TiB", "GiB", "MiB", "KiB", "B"]
);
quantity!(
    ByteRate,
    QuantityKind::new(units::bytes_per_second, "50MB/s").with_bare(UnitFactor::ONE).above_zero(),
    ByteRate,
    |rate: &ByteRate| rate.0,
    "0B/s",
    ["GB/s", "MB/s", "kB/s", "B/s"]
);
quantity!(
    TimeSpan,
    QuantityKind::new(units::microseconds, "60s or 2h").with_bare(UnitFactor(1e6, 1.0)).with_sums(),
    |microseconds| TimeSpan(Duration::from_micros(microseconds)),
    |span: &TimeSpan| span.0.as_micros() as u64,
    "0s",
    ["d", "h", "m", "s", "ms", "us"]
);

impl ByteSize {
    /// Returns a size of `count` mebibytes.
    pub const fn mib(count: u64) -> ByteSize {
        ByteSize(count << 20)
    }
}

/// Parses an option's value, which must not be zero.
pub fn positive<Q: Quantity>(text: &str) -> Result<Q, QuantityError> {
    Q::KIND.above_zero().parse_whole(text)?;
    text.parse()
}

/// Returns a parser for an option's value, which must be within these limits.
pub fn within<Q: Quantity + Clone>(
    range: RangeInclusive<Q>,
) -> impl Fn(&str) -> Result<Q, QuantityError> + Clone {
    move |text| {
        let value: Q = text.parse()?;
        if range.contains(&value) {
            return Ok(value);
        }
        let (min, max) = (range.start().to_string(), range.end().to_string());
        Err(QuantityError::OutOfRange { text: crate::shortened_name(text).into_owned(), min, max })
    }
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
