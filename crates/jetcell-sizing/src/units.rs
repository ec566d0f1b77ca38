//! Quantities with a unit in text form: sizes, rates, times and shares.
//!
//! A number without a unit is an error, because 300 GB and 300 GiB differ by 7 %, which would change the number of
//! disks. All quantities are finite and not negative. Inside the crate, quantities are `f64`, and the suffix of a
//! variable name is the unit.

use std::fmt;
use std::str::FromStr;

use jetcell_input::number::MIB;
use jetcell_input::quantity::{QuantityError, QuantityKind, units};

const GIB: f64 = 1024.0 * MIB;

/// Maximum value of any quantity: an exabyte, or 30 billion years. Larger values are input errors.
const MAX_QUANTITY: f64 = 1e18;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $kind:expr, $units:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
        pub struct $name(pub f64);

        impl $name {
            const KIND: QuantityKind = $kind.with_max(MAX_QUANTITY);
            /// Units of the text form, in order of precedence.
            const UNITS: &[&str] = &$units;
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                Self::KIND.parse(text).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&Self::KIND.text(self.0, Self::UNITS))
            }
        }

        jetcell_input::text_in_serde!($name);
    };
}

quantity!(
    /// A number of bytes: `75KiB`, `2GiB`, `300GB`.
    DataSize,
    QuantityKind::new(units::exact_bytes, "2GiB or 300GB"),
    ["TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB", "B"]
);

quantity!(
    /// A number of bytes per second: `200MB/s`, `1Gbit/s`.
    DataRate,
    QuantityKind::new(units::exact_bytes_per_second, "200MB/s or 1Gbit/s"),
    ["GB/s", "MiB/s", "Gbit/s", "MB/s", "Mbit/s", "KiB/s", "KB/s", "B/s"]
);

quantity!(
    /// A time in seconds: `14d`, `8h`, `20ms`.
    DurationQuantity,
    QuantityKind::new(units::seconds, "14d, 8h or 2.9s").with_sums(),
    ["y", "d", "h", "min", "s", "ms"]
);

quantity!(
    /// A fraction: `20%`.
    Share,
    QuantityKind::new(units::fraction, "20%"),
    ["%"]
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
            "300".parse::<DataSize>().unwrap_err().advice().unwrap(),
            "try a value such as 2GiB or 300GB"
        );
        for text in ["", "GiB", "-5GiB", "1.2.3GiB", "5 parsecs", "nanGiB"] {
            assert!(text.parse::<DataSize>().unwrap_err().advice().unwrap().contains("2GiB"), "{text}");
        }
        assert!("99999999999TiB".parse::<DataSize>().unwrap_err().to_string().contains("too large"));
        assert!("20".parse::<Share>().unwrap_err().to_string().contains("no unit"));
    }

    proptest! {
        #[test]
        fn units_round_trip(number in 0u32..900_000, unit in 0..DataSize::UNITS.len()) {
            let one: DataSize = format!("1{}", DataSize::UNITS[unit]).parse().unwrap();
            let size = DataSize(f64::from(number) * one.0);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
            prop_assert!((DataSize::from_gib(size.gib()).0 - size.0).abs() <= size.0 * 1e-15);
            let span = DurationQuantity(f64::from(number));
            prop_assert_eq!(span.to_string().parse(), Ok(span));
            let share: Share = format!("{number}%").parse().unwrap();
            prop_assert!((share.to_string().parse::<Share>().unwrap().0 - share.0).abs() < share.0 * 1e-15 + 1e-300);
        }
    }
}
