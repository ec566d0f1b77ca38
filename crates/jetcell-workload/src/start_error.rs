//! Refusal to start a run, before anything on disk has changed.

use thiserror::Error;

/// Error returned if a run cannot start: one line that states the reason and what to do. Nothing on disk has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(what: impl Into<String>) -> StartError {
        StartError(what.into())
    }
}

/// Returns `Err(StartError::new(what))`.
pub(crate) fn fail_start<T>(what: impl Into<String>) -> Result<T, StartError> {
    Err(StartError::new(what))
}
