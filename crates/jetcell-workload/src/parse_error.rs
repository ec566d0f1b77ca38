//! Errors for text that cannot be parsed.

use hdrhistogram::RecordError;
use jetcell_input::quantity::QuantityError;
use thiserror::Error;

/// Error returned when a string cannot be parsed. The one-line message includes a correct example where helpful.
#[derive(Clone, Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum ParseError {
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error(transparent)]
    Setting(#[from] ese_engine::Error),
    #[error("not valid UTF-8 text")]
    NotUtf8,
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("could not parse '{text}'; use {examples}")]
    NotUnderstood { text: String, examples: &'static str },
    #[error("the {name} is out of range; use a value {limits}")]
    OutOfRange { name: &'static str, limits: &'static str },
    #[error("unknown maintenance task; use none, or a list of scan,zero,defrag,layout")]
    UnknownTask,
    #[error("zero requires scan, because one pass does both; use scan,zero")]
    ZeroWithoutScan,
    #[error("{0:?} is not a latency histogram bucket")]
    Bucket(String),
    #[error(transparent)]
    Latency(#[from] RecordError),
}
