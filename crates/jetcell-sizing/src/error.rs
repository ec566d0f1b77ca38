//! Error in a configuration file: a single line that contains the location, the mistake, and what to write instead.

use std::fmt;

use jetcell_input::toml::TomlError;

/// A mistake in a sizing configuration. The message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizingError(pub String);

impl fmt::Display for SizingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SizingError {}

impl From<TomlError> for SizingError {
    fn from(mistake: TomlError) -> SizingError {
        SizingError(mistake.to_string())
    }
}
