//! Errors for text that cannot be parsed.

use std::borrow::Cow;

use hdrhistogram::RecordError;
use jetcell_input::OptionValueError;
use jetcell_input::quantity::QuantityError;
use thiserror::Error;

/// Error returned when a string cannot be parsed.
#[derive(Clone, Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum ParseError {
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error(transparent)]
    Setting(#[from] ese_engine::Error),
    #[error(transparent)]
    Value(#[from] OptionValueError),
    #[error("not valid UTF-8 text")]
    NotUtf8,
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("{0:?} is not a latency histogram bucket")]
    Bucket(String),
    #[error(transparent)]
    Latency(#[from] RecordError),
}

impl ParseError {
    /// Returns what the user can do about the error, for example `use uniform, zipf:0.9 or 80/20`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            ParseError::Quantity(error) => error.advice(),
            ParseError::Setting(error) => error.advice(),
            ParseError::Value(error) => error.advice(),
            _ => None,
        }
    }
}
