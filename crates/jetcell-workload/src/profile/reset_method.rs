//! How databases are put back to the state in which they were prepared.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// How a state of databases is kept and put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetMethod {
    /// Files share their blocks: takes moments, and the first write of each block is slower. Needs a file system that can.
    Snapshot,
    /// Files are copied, byte by byte: the state on the device is equal, too.
    Copy,
}

impl FromStr for ResetMethod {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<ResetMethod, ParseError> {
        match text {
            "snapshot" => Ok(ResetMethod::Snapshot),
            "copy" => Ok(ResetMethod::Copy),
            _ => Err(ParseError::new("it is neither snapshot nor copy")),
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
