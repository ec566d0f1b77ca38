//! Output paths: checks before files are replaced, and durability of file names.

use std::fs::File;
use std::io;
use std::path::Path;

/// Fails if the file exists and `force` is false.
pub(crate) fn check_absent(target: &Path, force: bool) -> io::Result<()> {
    if force || target.symlink_metadata().is_err() {
        return Ok(());
    }
    let what = format!("{} already exists; to replace it, use --force", target.display());
    Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    File::open(directory)?.sync_all()
}

/// Adds the path to an error message.
pub(crate) fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
