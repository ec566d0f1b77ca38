//! Checks of output directories, which must be new or empty.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::outcome::CommandError;

/// Fails if a directory is not empty. `what` names the content that the command will write to it.
pub fn require_empty(directory: &Path, what: &str) -> Result<(), CommandError> {
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                Err(format!("{} is not empty; use a different directory for the {what}", directory.display())
                    .into())
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{} cannot be used for the {what}: {error}", directory.display()).into()),
    }
}
