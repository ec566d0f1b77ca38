//! Text that is not a value of the type that is read from it.

use thiserror::Error;

/// One line that says what is wrong with a text, and shows a correct example where one helps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(crate) fn new(what: impl Into<String>) -> ParseError {
        ParseError(what.into())
    }
}
