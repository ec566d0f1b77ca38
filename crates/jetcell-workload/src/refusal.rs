//! Refusal to start a run, before anything on disk has changed.

use thiserror::Error;

/// Error returned if a run cannot start: one line that states the reason and what to do. Nothing on disk has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    pub(crate) fn new(what: impl Into<String>) -> Refusal {
        Refusal(what.into())
    }
}

/// Returns `Err(Refusal::new(what))`.
pub(crate) fn refuse<T>(what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(what))
}
