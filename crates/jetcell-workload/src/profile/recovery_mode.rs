//! State of the databases before the replay of the recovery test.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// Recovery test mode, which determines the state of the databases before the replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryMode {
    /// The databases already contain all changes in the logs, as in Jetstress. Redo reads pages but changes almost
    /// none of them.
    Compatible,
    /// The databases are in their state before the load. Redo applies all changes again.
    #[default]
    True,
}

impl FromStr for RecoveryMode {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<RecoveryMode, ParseError> {
        match text {
            "compatible" => Ok(RecoveryMode::Compatible),
            "true" => Ok(RecoveryMode::True),
            _ => Err(ParseError::Expected("compatible or true")),
        }
    }
}

impl fmt::Display for RecoveryMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecoveryMode::Compatible => "compatible",
            RecoveryMode::True => "true",
        })
    }
}
