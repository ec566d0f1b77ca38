//! What the replay of the recovery test has to do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// The state of the databases before the replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryMode {
    /// The databases have all changes of the logs already, as in Jetstress: redo reads pages, and changes next to none.
    Compatible,
    /// The databases are as they were before the load: redo makes all changes again.
    #[default]
    True,
}

impl FromStr for RecoveryMode {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<RecoveryMode, ParseError> {
        match text {
            "compatible" => Ok(RecoveryMode::Compatible),
            "true" => Ok(RecoveryMode::True),
            _ => Err(ParseError::new("it is neither compatible nor true")),
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
