//! Sizes and times as people write them: `256MiB`, `1GiB`, `60s`, `2h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes, written `4096`, `32KiB`, `256MiB`, `1GiB`, `2TiB` (or `MB`, `GB` for powers of ten).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct ByteSize(pub u64);

/// A length of time, written `500ms`, `60s`, `5m`, `2h`, `1d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
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

/// In a file a value may be a bare number (bytes, or seconds) or text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

impl ByteSize {
    /// `count` mebibytes.
    pub const fn mib(count: u64) -> ByteSize {
        ByteSize(count << 20)
    }
}

/// Splits `12.5GiB` into 12.5 and the factor of its unit.
fn scale(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("'{text}' is not understood; write for example {example}");
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim())).ok_or_else(wrong)?.1;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| format!("'{text}' is too large"));
    }
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    if value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(format!("'{text}' is too large")) }
}

/// The largest unit that divides the value, so that writing and reading again gives the same value.
fn exact(value: u64, units: &[(&str, u64)]) -> String {
    let fits =
        |&&(name, factor): &&(&str, u64)| !name.is_empty() && value != 0 && value.is_multiple_of(factor);
    match units.iter().find(fits) {
        Some((name, factor)) => format!("{}{name}", value / factor),
        None => value.to_string(),
    }
}

impl FromStr for ByteSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        scale(text, &SIZE_UNITS, "256MiB").map(ByteSize)
    }
}

impl FromStr for TimeSpan {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        scale(text, &TIME_UNITS, "60s or 2h").map(|ms| TimeSpan(Duration::from_millis(ms)))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&exact(self.0, &SIZE_UNITS[..5]))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() as u64 {
            0 => f.write_str("0s"),
            ms => f.write_str(&exact(ms, &TIME_UNITS[..5])),
        }
    }
}

impl TryFrom<Written> for ByteSize {
    type Error = String;
    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(bytes) => Ok(ByteSize(bytes)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl TryFrom<Written> for TimeSpan {
    type Error = String;
    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(seconds) => Ok(TimeSpan(Duration::from_secs(seconds))),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> String {
        size.to_string()
    }
}

impl From<TimeSpan> for String {
    fn from(span: TimeSpan) -> String {
        span.to_string()
    }
}

/// A byte count for reading, not for parsing: `1.25 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    match SIZE_UNITS[..4].iter().find(|(_, factor)| bytes >= *factor) {
        Some((name, factor)) => format!("{:.2} {name}", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
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
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "GiB", "1XB", "-5MiB", "1.2.3GiB", "1e3", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(
            "soon".parse::<TimeSpan>(),
            Err("'soon' is not understood; write for example 60s or 2h".into())
        );
    }

    #[test]
    fn what_is_written_reads_back_exactly() {
        for bytes in [0, 1, 4096, 1000, 1 << 30, (1 << 30) + 1, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        for ms in [0, 1, 999, 60_000, 7_200_000, 86_400_000, 90_001] {
            let span = TimeSpan(Duration::from_millis(ms));
            assert_eq!(span.to_string().parse(), Ok(span), "{span}");
        }
    }
}
