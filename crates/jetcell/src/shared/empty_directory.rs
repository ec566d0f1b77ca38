//! Checks of output directories, which must be new or empty.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Fails if a directory is specified and not empty. `what` names the content that the command will write to it.
pub fn require_empty<'p>(directory: impl Into<Option<&'p Path>>, what: &str) -> CommandResult<()> {
    let Some(directory) = directory.into() else { return Ok(()) };
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(CommandError::new(format_args!("{} is not empty", directory.display()))
                .advise(format!("use a different directory for the {what}"))),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => {
            Err(error).context(format_args!("{} cannot be used for the {what}", directory.display()))
        }
    }
}
