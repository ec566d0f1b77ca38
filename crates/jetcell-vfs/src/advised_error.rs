//! I/O errors that carry advice to the user, for callers that know only file operations.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;

/// An error and its advice, which an [`io::Error`] wraps.
#[derive(Debug)]
struct AdvisedError {
    error: Box<dyn Error + Send + Sync>,
    advice: Cow<'static, str>,
}

impl fmt::Display for AdvisedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.error, self.advice)
    }
}

impl Error for AdvisedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.error)
    }
}

/// Converts an error to an [`io::Error`] whose text includes the advice.
pub fn io_error_with_advice<E>(kind: io::ErrorKind, error: E, advice: Option<Cow<'static, str>>) -> io::Error
where
    E: Error + Send + Sync + 'static,
{
    match advice {
        Some(advice) => io::Error::new(kind, AdvisedError { error: Box::new(error), advice }),
        None => io::Error::new(kind, error),
    }
}

/// Returns the advice that [`io_error_with_advice`] added to an error.
pub fn io_error_advice(error: &io::Error) -> Option<Cow<'static, str>> {
    error.get_ref()?.downcast_ref::<AdvisedError>().map(|advised| advised.advice.clone())
}
