//! Methods for restoring databases to their preserved state.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// How database state is preserved and restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetMethod {
    /// Preserved and restored files share blocks. This is fast, but the first write to each block is slower. The file
    /// system must support shared blocks.
    Snapshot,
    /// Files are copied byte by byte, so their physical location on the device also stays the same.
    Copy,
}

impl FromStr for ResetMethod {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<ResetMethod, ParseError> {
        match text {
            "snapshot" => Ok(ResetMethod::Snapshot),
            "copy" => Ok(ResetMethod::Copy),
            _ => Err(ParseError::Expected("snapshot or copy")),
        }
    }
}

impl fmt::Display for ResetMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResetMethod::Snapshot => "snapshot",
            ResetMethod::Copy => "copy",
        })
    }
}
