//! Time until a scrub finds and repairs a defect.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::units::{Hours, PerHour};

/// How drives are scrubbed, which determines how long latent defects persist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScrubPolicy {
    /// The drives are not scrubbed.
    Never,
    /// Scrubs take this mean time to find and repair a defect.
    Mean(Hours),
}

impl ScrubPolicy {
    /// Returns the scrub rate used by the models.
    pub fn rate(self) -> Result<PerHour, Error> {
        match self {
            ScrubPolicy::Never => Ok(PerHour::NEVER),
            ScrubPolicy::Mean(time) => PerHour::once_per(time),
        }
    }
}

impl FromStr for ScrubPolicy {
    type Err = Error;
    fn from_str(text: &str) -> Result<ScrubPolicy, Error> {
        if text.trim() == "never" { Ok(ScrubPolicy::Never) } else { text.parse().map(ScrubPolicy::Mean) }
    }
}

impl fmt::Display for ScrubPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScrubPolicy::Never => f.write_str("never"),
            ScrubPolicy::Mean(time) => time.fmt(f),
        }
    }
}

jetcell_input::text_in_serde!(ScrubPolicy);
