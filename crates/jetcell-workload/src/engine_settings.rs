//! Settings of the engine that options and results have as text.

use std::fmt;
use std::str::FromStr;

use ese_engine::{Error, EventProfile, MaintenanceWindow};
use serde::{Deserialize, Serialize};

use crate::parse_error::ParseError;

/// Types around those of the engine that are read and written as the engine does it.
macro_rules! settings {
    ($($(#[$about:meta])* $name:ident($inner:ident);)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<$name, ParseError> {
                text.parse().map($name).map_err(|error: Error| ParseError::new(error.to_string()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseError;

            fn try_from(text: String) -> Result<$name, ParseError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(setting: $name) -> String {
                setting.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

settings! {
    /// When maintenance beside the load may run: `mon-fri 01:00 4h`, in UTC, or with an offset: `daily 02:00 3h +01:00`.
    Window(MaintenanceWindow);
    /// Whose numbers the events of maintenance have: `sp1`, `article` or `modern`.
    #[derive(Default)]
    EventNumbers(EventProfile);
}
