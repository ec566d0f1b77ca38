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

/// Time at which the files of an export become durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutputSync {
    /// Each file is durable before it gets its final name.
    EachFile,
    /// All files become durable together at the end of the export.
    AtEnd,
}
