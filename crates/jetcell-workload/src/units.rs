//! Sizes and times with units, such as `256MiB`, `1GiB`, `60s`, `2h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// A number of bytes, written as `4096`, `32KiB`, `256MiB`, `1GiB`, `2TiB` (or `MB`, `GB` for powers of ten).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub struct ByteSize(pub u64);

/// A length of time, written as `500ms`, `60s`, `5m`, `2h`, `1d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub struct TimeSpan(pub Duration);

const SIZE_UNITS: [(&str, u64); 14] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("", 1),
];

const TIME_UNITS: [(&str, u64); 6] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1), ("", 1_000)];

/// Size of the databases: either an absolute size for each, or a share of a volume, such as `80%`, for all databases
/// on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub enum DatabaseSize {
    /// Size of each database.
    Absolute(ByteSize),
    /// Share of the volume for all databases on it, including their space for growth. Jetstress:
    /// `CapacityPercentage`.
    VolumePercent(u8),
}

/// A value in a file: a bare number (bytes, or seconds) or text with a unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a size such as 256MiB, or a time such as 60s")]
enum NumberOrText {
    Number(u64),
    Text(String),
}

impl ByteSize {
    /// Returns a size of `count` mebibytes.
    pub const fn mib(count: u64) -> ByteSize {
        ByteSize(count << 20)
    }
}

/// Splits text such as `12.5GiB` into 12.5 and the factor of its unit, and returns the product.
fn scale(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, ParseError> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(ParseError::new(format!("'{text}' is negative; try a value such as {example}")));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || ParseError::new(format!("could not parse '{text}'; try a value such as {example}"));
    let large = || ParseError::new(format!("'{text}' is too large; try a value such as {example}"));
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim())).ok_or_else(wrong)?.1;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(large);
    }
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    if value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(large()) }
}

/// Formats the value with the largest unit that divides it evenly, so that parsing the text returns the same value.
fn exact_text(value: u64, units: &[(&str, u64)]) -> String {
    let fits =
        |&&(name, factor): &&(&str, u64)| !name.is_empty() && value != 0 && value.is_multiple_of(factor);
    match units.iter().find(fits) {
        Some((name, factor)) => format!("{}{name}", value / factor),
        None => value.to_string(),
    }
}

impl FromStr for ByteSize {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        scale(text, &SIZE_UNITS, "256MiB").map(ByteSize)
    }
}

impl FromStr for TimeSpan {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        scale(text, &TIME_UNITS, "60s or 2h").map(|ms| TimeSpan(Duration::from_millis(ms)))
    }
}

impl FromStr for DatabaseSize {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            let absolute = scale(text, &SIZE_UNITS, "256MiB or 80%")?;
            return Ok(DatabaseSize::Absolute(ByteSize(absolute)));
        };
        match percent.trim_end().parse() {
            Ok(percent @ 1..=100) => Ok(DatabaseSize::VolumePercent(percent)),
            _ => Err(ParseError::new(format!(
                "'{text}' is not a percentage of a volume; use a value from 1% to 100%"
            ))),
        }
    }
}

impl From<ByteSize> for DatabaseSize {
    fn from(size: ByteSize) -> DatabaseSize {
        DatabaseSize::Absolute(size)
    }
}

impl fmt::Display for DatabaseSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseSize::Absolute(size) => size.fmt(f),
            DatabaseSize::VolumePercent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&exact_text(self.0, &SIZE_UNITS[..5]))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() as u64 {
            0 => f.write_str("0s"),
            ms => f.write_str(&exact_text(ms, &TIME_UNITS[..5])),
        }
    }
}

impl TryFrom<NumberOrText> for ByteSize {
    type Error = ParseError;
    fn try_from(written: NumberOrText) -> Result<Self, ParseError> {
        match written {
            NumberOrText::Number(bytes) => Ok(ByteSize(bytes)),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

impl TryFrom<NumberOrText> for DatabaseSize {
    type Error = ParseError;
    fn try_from(written: NumberOrText) -> Result<Self, ParseError> {
        match written {
            NumberOrText::Number(bytes) => Ok(ByteSize(bytes).into()),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

impl TryFrom<NumberOrText> for TimeSpan {
    type Error = ParseError;
    fn try_from(written: NumberOrText) -> Result<Self, ParseError> {
        match written {
            NumberOrText::Number(seconds) => Ok(TimeSpan(Duration::from_secs(seconds))),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> String {
        size.to_string()
    }
}

impl From<DatabaseSize> for String {
    fn from(size: DatabaseSize) -> String {
        size.to_string()
    }
}

impl From<TimeSpan> for String {
    fn from(span: TimeSpan) -> String {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        let sizes = [
            ("256MiB", 256 << 20),
            ("1GiB", 1 << 30),
            ("1.5 GiB", 3 << 29),
            ("32k", 32768),
            ("10GB", 10_000_000_000),
        ];
        for (text, bytes) in sizes {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for (text, ms) in [("60s", 60_000), ("2h", 7_200_000), ("5m", 300_000), ("250ms", 250), ("7", 7_000)]
        {
            assert_eq!(text.parse(), Ok(TimeSpan(Duration::from_millis(ms))), "{text}");
        }
    }

    #[test]
    fn a_database_size_may_be_a_share_of_the_volume() {
        assert_eq!("80%".parse(), Ok(DatabaseSize::VolumePercent(80)));
        assert_eq!("64MiB".parse(), Ok(DatabaseSize::Absolute(ByteSize::mib(64))));
        for text in ["0%", "101%", "%", "-5%", "8.5%", "80%%"] {
            assert!(
                text.parse::<DatabaseSize>().unwrap_err().to_string().contains("use a value from 1% to 100%"),
                "{text}"
            );
        }
        assert_eq!(DatabaseSize::VolumePercent(80).to_string(), "80%");
    }

    #[test]
    fn invalid_text_is_refused_with_an_example() {
        for text in ["", "GiB", "1XB", "-5MiB", "1.2.3GiB", "1e3", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(
            "soon".parse::<TimeSpan>(),
            Err(ParseError::new("could not parse 'soon'; try a value such as 60s or 2h"))
        );
    }

    #[test]
    fn a_written_value_reads_back_exactly() {
        for bytes in [0, 1, 4096, 1000, 1 << 30, (1 << 30) + 1, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        for ms in [0, 1, 999, 60_000, 7_200_000, 86_400_000, 90_001] {
            let span = TimeSpan(Duration::from_millis(ms));
            assert_eq!(span.to_string().parse(), Ok(span), "{span}");
        }
    }
}
