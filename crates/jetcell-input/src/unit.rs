//! Units of figures. All figures with one unit, and their intervals, have the same number of decimals.

use serde::{Serialize, Serializer};

use crate::number::{decimal, grouped, plain, plain_grouped, signed, significant};

/// Unit of a figure, which determines its decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Number without a unit, with as many decimals as needed.
    #[default]
    None,
    /// Ratio of two figures.
    Ratio,
    /// Number of items.
    Count,
    /// Bytes.
    Bytes,
    /// Kibibytes.
    Kibibytes,
    /// Mebibytes.
    Mebibytes,
    /// Mebibytes per second.
    MebibytesPerSecond,
    /// Drive transfers per second.
    Iops,
    /// Events per second.
    PerSecond,
    /// Events per log segment.
    PerLog,
    /// Percent.
    Percent,
    /// Change in percent, with its sign.
    Change,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
    /// Kilowatt-hours.
    KilowattHours,
    /// Kilograms.
    Kilograms,
    /// Money in the user's currency.
    Money,
    /// Unit that a user specified as text. Figures have three significant digits.
    Other,
}

impl Unit {
    /// Returns the unit's name, for headings and stored results.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::None | Unit::Ratio | Unit::Money | Unit::Other => "",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Kibibytes => "KiB",
            Unit::Mebibytes => "MiB",
            Unit::MebibytesPerSecond => "MiB/s",
            Unit::Iops => "IOPS",
            Unit::PerSecond => "1/s",
            Unit::PerLog => "per log",
            Unit::Percent | Unit::Change => "%",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Joules => "J",
            Unit::Watts => "W",
            Unit::KilowattHours => "kWh",
            Unit::Kilograms => "kg",
        }
    }

    /// Formats a figure for people, without the name of the unit.
    pub fn format(self, value: f64) -> String {
        let decimals = match self {
            _ if !value.is_finite() => return plain(value),
            // The limit of a rule on a count may be a fraction.
            Unit::None if value.abs() >= 100.0 => return grouped(value),
            Unit::None => return plain_grouped(value),
            Unit::Other => return significant(value),
            Unit::Change => return format!("{} %", signed(value)),
            Unit::Count | Unit::Bytes => 0,
            Unit::Money => 2,
            Unit::Ratio | Unit::Milliseconds | Unit::Seconds | Unit::Joules => 3,
            _ => 1,
        };
        decimal(value, decimals)
    }

    /// Formats the half width of an interval, such as `± 4.5`.
    pub fn half_width(self, value: f64) -> String {
        let unit = if self == Unit::Change { Unit::Percent } else { self };
        format!("± {}", unit.format(value))
    }
}

/// Serializes a unit as its name.
impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
#[path = "unit_tests.rs"]
mod tests;
