//! Error for text that is not a valid value.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

use crate::shortened_name;

/// Error returned when text is not a valid value of an option: the problem, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct OptionValueError {
    problem: String,
    advice: Cow<'static, str>,
}

impl OptionValueError {
    /// Creates an error from the problem and an example, a rule or the known values.
    pub fn new(problem: impl fmt::Display, advice: impl Into<Cow<'static, str>>) -> OptionValueError {
        OptionValueError { problem: problem.to_string(), advice: advice.into() }
    }

    /// Creates an error for text that could not be parsed. `expected` names the kind of value, such as `a precision`.
    pub fn unparsable(text: &str, expected: &str, advice: impl Into<Cow<'static, str>>) -> OptionValueError {
        OptionValueError::new(
            format_args!("could not parse '{}' as {expected}", shortened_name(text)),
            advice,
        )
    }

    /// Creates an error for an unknown name. `expected` describes valid names, such as `a policy`.
    pub fn unknown(text: &str, expected: &str, advice: impl Into<Cow<'static, str>>) -> OptionValueError {
        OptionValueError::new(format_args!("'{}' is not {expected}", shortened_name(text)), advice)
    }

    /// Returns what the user can do about the error, for example `try a value such as 5ms`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(self.advice.clone())
    }
}
