//! An error in the options of a run.

use jetcell_input::toml::TomlError;
use jetcell_input::{printable, with_advice};
use thiserror::Error;

/// Maximum length of a message in characters. Longer messages are truncated, because a configuration file may contain
/// arbitrary text.
const MAX_MESSAGE_CHARACTERS: usize = 400;

/// An error in a test's options. The message is a single line that describes the error and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigurationError(String);

impl ConfigurationError {
    /// Creates an error. Line breaks are replaced by spaces, and other control characters, which may come from a
    /// file, are escaped.
    pub fn new(what: impl AsRef<str>) -> ConfigurationError {
        // The conversion never shortens text, so the rest of a long text is not needed.
        let start: String = what.as_ref().chars().take(MAX_MESSAGE_CHARACTERS + 1).collect();
        let start = printable(&start.replace(['\n', '\r', '\t'], " ")).into_owned();
        let mut line: String = start.chars().take(MAX_MESSAGE_CHARACTERS).collect();
        if start.chars().nth(MAX_MESSAGE_CHARACTERS).is_some() {
            line.push('…');
        }
        ConfigurationError(line)
    }
}

impl From<TomlError> for ConfigurationError {
    fn from(error: TomlError) -> ConfigurationError {
        ConfigurationError::new(with_advice(&error, error.advice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_error_is_one_bounded_line() {
        let hostile = ConfigurationError::new(format!("a\nb\u{1b}[31m{}", "x".repeat(10_000)));
        assert!(hostile.to_string().starts_with("a b\\u{1b}[31mxxx"));
        assert_eq!(hostile.to_string().chars().count(), MAX_MESSAGE_CHARACTERS + 1);
    }
}
