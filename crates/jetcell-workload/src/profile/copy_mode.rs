//! Which part of the log the passive copies receive in a replication test.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// Replication mode, which determines the part of the log that copies receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyMode {
    /// Closed logs only.
    #[default]
    File,
    /// Closed logs, and the durable part of the current log. ESE: block mode.
    Block,
}

impl FromStr for CopyMode {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<CopyMode, ParseError> {
        match text {
            "file" => Ok(CopyMode::File),
            "block" => Ok(CopyMode::Block),
            _ => Err(ParseError::Expected("file or block")),
        }
    }
}

impl fmt::Display for CopyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyMode::File => "file",
            CopyMode::Block => "block",
        })
    }
}
