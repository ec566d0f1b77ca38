//! Time until a scrub finds and repairs a defect.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::units::{Hours, PerHour};

/// How drives are scrubbed, which determines how long a latent defect exists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scrub {
    /// The drives are not scrubbed.
    Never,
    /// Scrubs take this mean time to find and repair a defect.
    Mean(Hours),
}

impl Scrub {
    /// Returns the scrub rate used by the models.
    pub fn rate(self) -> Result<PerHour, Error> {
        match self {
            Scrub::Never => Ok(PerHour::NEVER),
            Scrub::Mean(time) => PerHour::once_per(time),
        }
    }
}

impl FromStr for Scrub {
    type Err = Error;
    fn from_str(text: &str) -> Result<Scrub, Error> {
        if text.trim() == "never" { Ok(Scrub::Never) } else { text.parse().map(Scrub::Mean) }
    }
}

impl fmt::Display for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scrub::Never => f.write_str("never"),
            Scrub::Mean(time) => time.fmt(f),
        }
    }
}

crate::text::in_serde!(Scrub);
