//! The maintenance that runs beside the load.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// The tasks of the maintenance scan, which one pass does together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Maintenance {
    /// Pages are verified.
    pub scan: bool,
    /// What deleted data leave behind is overwritten.
    pub zero: bool,
}

impl TryFrom<String> for Maintenance {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Maintenance, ParseError> {
        text.parse()
    }
}

impl From<Maintenance> for String {
    fn from(tasks: Maintenance) -> String {
        tasks.to_string()
    }
}

impl FromStr for Maintenance {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Maintenance, ParseError> {
        let mut tasks: Vec<&str> = text.split(',').map(str::trim).collect();
        tasks.sort_unstable();
        match tasks[..] {
            ["none"] => Ok(Maintenance { scan: false, zero: false }),
            ["scan"] => Ok(Maintenance { scan: true, zero: false }),
            ["scan", "zero"] => Ok(Maintenance { scan: true, zero: true }),
            ["zero"] => Err(ParseError::new("zero needs scan, because one pass does both: write scan,zero")),
            _ => Err(ParseError::new("it is none of: none; scan; scan,zero")),
        }
    }
}

impl fmt::Display for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.scan, self.zero) {
            (false, _) => "none",
            (true, false) => "scan",
            (true, true) => "scan,zero",
        })
    }
}
