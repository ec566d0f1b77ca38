//! Errors for text that cannot be parsed.

use thiserror::Error;

/// A one-line description of what is wrong with a text, with a correct example if it helps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(crate) fn new(what: impl Into<String>) -> ParseError {
        ParseError(what.into())
    }
}
