//! Errors for text that cannot be parsed.

use jetcell_input::quantity::QuantityError;
use thiserror::Error;

/// Error returned when a string cannot be parsed. The one-line message includes a correct example where helpful.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(crate) fn new(what: impl Into<String>) -> ParseError {
        ParseError(what.into())
    }
}

impl From<QuantityError> for ParseError {
    fn from(error: QuantityError) -> ParseError {
        ParseError(error.to_string())
    }
}
