//! Directories that a command fills: new ones, or empty ones.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::outcome::Failure;

/// Refuses a directory that has something in it. `what` is what comes into it.
pub fn require_empty(directory: &Path, what: &str) -> Result<(), Failure> {
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                Err(format!("{} is not empty; give another directory for the {what}", directory.display())
                    .into())
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{} cannot be used for the {what}: {error}", directory.display()).into()),
    }
}
