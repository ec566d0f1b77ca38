//! Sizes and times in the options of a test.

use std::fmt;
use std::str::FromStr;

pub use jetcell_input::quantity::{ByteSize, TimeSpan};
use jetcell_input::quantity::{Quantity, QuantityError};

/// Size of the databases: either an absolute size for each, or a share of a volume, such as `80%`, for all databases
/// on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatabaseSize {
    /// Size of each database.
    Absolute(ByteSize),
    /// Share of the volume for all databases on it, including their space for growth. Jetstress:
    /// `CapacityPercentage`.
    VolumePercent(u8),
}

impl FromStr for DatabaseSize {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            let bytes = ByteSize::KIND.with_example("256MiB or 80%").parse_whole(text)?;
            return Ok(ByteSize(bytes).into());
        };
        match percent.trim_end().parse() {
            Ok(percent @ 1..=100) => Ok(DatabaseSize::VolumePercent(percent)),
            _ => Err(QuantityError::OutOfRange { text: text.into(), min: "1%".into(), max: "100%".into() }),
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

jetcell_input::text_in_serde!(DatabaseSize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_size_may_be_a_share_of_the_volume() {
        assert_eq!("80%".parse(), Ok(DatabaseSize::VolumePercent(80)));
        assert_eq!("64MiB".parse(), Ok(DatabaseSize::Absolute(ByteSize::mib(64))));
        for text in ["0%", "101%", "%", "-5%", "8.5%", "80%%"] {
            assert!(
                text.parse::<DatabaseSize>().unwrap_err().advice().unwrap() == "use a value from 1% to 100%",
                "{text}"
            );
        }
        assert_eq!(DatabaseSize::VolumePercent(80).to_string(), "80%");
    }
}
