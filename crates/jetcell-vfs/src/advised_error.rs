//! Errors with advice, for callers that use only file operations.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;

/// An error together with the advice, as the content of an [`io::Error`]. [`io_error_with_advice`] creates it.
#[derive(Debug)]
pub struct AdvisedError<E> {
    error: E,
    advice: Cow<'static, str>,
}

impl<E: fmt::Display> fmt::Display for AdvisedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.error, self.advice)
    }
}

impl<E: Error + 'static> Error for AdvisedError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// Converts an error to one of a file operation. The text includes the advice.
pub fn io_error_with_advice<E>(kind: io::ErrorKind, error: E, advice: Option<Cow<'static, str>>) -> io::Error
where
    E: Error + Send + Sync + 'static,
{
    match advice {
        Some(advice) => io::Error::new(kind, AdvisedError { error, advice }),
        None => io::Error::new(kind, error),
    }
}
