//! Errors of file operations together with the path of the file.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Error of a file operation with the path of the file, as the content of an [`io::Error`].
#[derive(Debug)]
struct PathError {
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.source)
    }
}

impl Error for PathError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Adds the path to an error. The kind and the sources of the error remain.
pub fn with_path(path: &Path, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), PathError { path: path.to_path_buf(), source })
}

/// Returns the error number of the first operating system error in the chain of sources.
pub fn system_error_number(error: &(dyn Error + 'static)) -> Option<i32> {
    let shared = || error.downcast_ref::<Arc<io::Error>>().map(|error| &**error);
    match error.downcast_ref::<io::Error>().or_else(shared) {
        Some(error) => error.raw_os_error().or_else(|| system_error_number(error.get_ref()?)),
        None => system_error_number(error.source()?),
    }
}

/// Text of an error together with the operating system error in its chain of sources.
#[derive(Debug)]
struct ClonedError {
    text: String,
    source: io::Error,
}

impl fmt::Display for ClonedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for ClonedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Clones an error. The clone has the same kind, text and operating system error.
pub fn clone_io_error(error: &io::Error) -> io::Error {
    match system_error_number(error).map(io::Error::from_raw_os_error) {
        Some(source) if error.raw_os_error().is_some() => source,
        Some(source) => io::Error::new(error.kind(), ClonedError { text: error.to_string(), source }),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
#[path = "path_error_tests.rs"]
mod tests;
