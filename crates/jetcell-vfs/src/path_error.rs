//! Errors of file operations together with the path of the file.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The text of an error and its source, which an [`io::Error`] wraps.
#[derive(Debug)]
struct SourcedError {
    text: String,
    source: io::Error,
}

impl fmt::Display for SourcedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for SourcedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Adds the path to an error. The kind and the sources of the error remain.
pub fn with_path(path: &Path, source: io::Error) -> io::Error {
    let text = format!("{}: {source}", path.display());
    io::Error::new(source.kind(), SourcedError { text, source })
}

/// Returns the error number of the first operating system error in the chain of sources.
pub fn system_error_number(error: &(dyn Error + 'static)) -> Option<i32> {
    let shared = || error.downcast_ref::<Arc<io::Error>>().map(|error| &**error);
    match error.downcast_ref::<io::Error>().or_else(shared) {
        Some(error) => error.raw_os_error().or_else(|| system_error_number(error.get_ref()?)),
        None => system_error_number(error.source()?),
    }
}

/// Clones an error. The clone has the same kind, text and operating system error.
pub fn clone_io_error(error: &io::Error) -> io::Error {
    match system_error_number(error).map(io::Error::from_raw_os_error) {
        Some(source) if error.raw_os_error().is_some() => source,
        Some(source) => io::Error::new(error.kind(), SourcedError { text: error.to_string(), source }),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
#[path = "path_error_tests.rs"]
mod tests;
