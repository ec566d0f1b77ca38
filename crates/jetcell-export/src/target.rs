//! Output paths: checks before files are replaced.

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
