//! An error in the options of a run.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

use jetcell_input::printable;
use jetcell_input::toml::TomlError;
use thiserror::Error;

/// Maximum length of a message in characters. Longer messages are truncated, because a configuration file may contain
/// arbitrary text.
const MAX_MESSAGE_CHARACTERS: usize = 400;

/// An error in a test's options. The message is a single line that describes the error.
#[derive(Clone, Debug, Error)]
#[error("{problem}")]
pub struct ConfigurationError {
    problem: String,
    advice: Option<Cow<'static, str>>,
    source: Option<Arc<io::Error>>,
}

impl ConfigurationError {
    /// Creates an error. Line breaks are replaced by spaces, and other control characters, which may come from a
    /// file, are escaped.
    pub fn new(problem: impl AsRef<str>) -> ConfigurationError {
        ConfigurationError { problem: bounded_line(problem.as_ref()), advice: None, source: None }
    }

    /// Creates an error for a file that cannot be read. `problem` is printed before the system's error.
    pub fn for_io(problem: impl Display, error: io::Error) -> ConfigurationError {
        let text = format!("{problem}: {error}");
        ConfigurationError { source: Some(Arc::new(error)), ..ConfigurationError::new(text) }
    }

    /// Adds what the user can do about the error.
    #[must_use]
    pub fn advise(self, advice: impl Into<Cow<'static, str>>) -> ConfigurationError {
        let advice = advice.into();
        let is_line = advice.len() <= MAX_MESSAGE_CHARACTERS && !advice.contains(char::is_control);
        let advice = if is_line { advice } else { bounded_line(&advice).into() };
        ConfigurationError { advice: Some(advice), ..self }
    }

    /// Adds the place of the error before the problem, such as `--config a.toml: `.
    #[must_use]
    pub fn at(self, place: impl Display) -> ConfigurationError {
        ConfigurationError { problem: bounded_line(&format!("{place}{}", self.problem)), ..self }
    }

    /// Returns what the user can do about the error, for example `use a value from 1 to 999`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        self.advice.clone()
    }
}

fn bounded_line(text: &str) -> String {
    // The conversion never shortens text, so the rest of a long text is not needed.
    let start: String = text.chars().take(MAX_MESSAGE_CHARACTERS + 1).collect();
    let start = printable(&start.replace(['\n', '\r', '\t'], " ")).into_owned();
    let mut line: String = start.chars().take(MAX_MESSAGE_CHARACTERS).collect();
    if start.chars().nth(MAX_MESSAGE_CHARACTERS).is_some() {
        line.push('…');
    }
    line
}

impl From<TomlError> for ConfigurationError {
    fn from(error: TomlError) -> ConfigurationError {
        let advice = error.advice();
        advice.into_iter().fold(ConfigurationError::new(error.to_string()), ConfigurationError::advise)
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
        let hostile = hostile.advise("y\n".repeat(10_000)).at("line 3: ");
        assert!(hostile.to_string().starts_with("line 3: a b"));
        assert_eq!(hostile.advice().unwrap().chars().count(), MAX_MESSAGE_CHARACTERS + 1);
    }
}
