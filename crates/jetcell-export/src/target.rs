//! The paths to which output is written: checks before they are replaced, durability of their names.

use std::fs::File;
use std::io;
use std::path::Path;

/// Fails if a file exists, unless `force`.
pub(crate) fn check_free(target: &Path, force: bool) -> io::Result<()> {
    if force || target.symlink_metadata().is_err() {
        return Ok(());
    }
    let what = format!("{} exists; use --force to replace it", target.display());
    Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    File::open(directory)?.sync_all()
}

/// Adds the path to the message of an error.
pub(crate) fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
