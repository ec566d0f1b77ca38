//! Engine settings that are represented as text in options and results.

use std::fmt;
use std::str::FromStr;

use ese_engine::{EventProfile, MaintenanceWindow};

use crate::parse_error::ParseError;

/// Defines wrappers for engine types. They use the same text format as the engine types themselves.
macro_rules! settings {
    ($($(#[$about:meta])* $name:ident($inner:ident);)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<$name, ParseError> {
                Ok($name(text.parse()?))
            }
        }

        jetcell_input::text_in_serde!($name);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

settings! {
    /// Time window in which maintenance may run during the load: `mon-fri 01:00 4h` in UTC, or `daily 02:00 3h
    /// +01:00` with an offset.
    MaintenanceWindowSetting(MaintenanceWindow);
    /// Numbering scheme for maintenance events: `sp1`, `article` or `modern`.
    #[derive(Default)]
    EventNumbers(EventProfile);
}
