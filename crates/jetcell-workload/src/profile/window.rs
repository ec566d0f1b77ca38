//! When maintenance beside the load may run.

use std::fmt;
use std::str::FromStr;

use ese_engine::{Error, MaintenanceWindow};
use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// A maintenance window as options and results have it: `mon-fri 01:00 4h`, in UTC, or with an offset: `daily 02:00 3h +01:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window(pub MaintenanceWindow);

impl FromStr for Window {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Window, ParseError> {
        text.parse().map(Window).map_err(|error: Error| ParseError::new(error.to_string()))
    }
}

impl TryFrom<String> for Window {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Window, ParseError> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> String {
        window.to_string()
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
