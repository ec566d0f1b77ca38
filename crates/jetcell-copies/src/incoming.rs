//! The subdirectory of a copy for files that have not been inspected yet, and the partial log that came with a seed.

use std::io;
use std::path::{Path, PathBuf};

use ese_engine::{Error, VerifiedLog};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoReason, OpenMode, Vfs, parent_directory, remove_if_exists};

use crate::error::{CopyError, Result};

/// Name of the subdirectory for logs and seeds that have not been inspected yet.
pub(crate) const INCOMING: &str = "incoming";
/// Name of the file in [`INCOMING`] with the part of the log that was being written during the seed. The databases
/// contain changes from this part, so the complete log must start with it.
const PARTIAL_LOG_FILE: &str = "part.log";

/// Reads the partial log whose changes are in the databases, unless the copy has the complete log.
pub(crate) fn read_partial_log(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Option<VerifiedLog>> {
    let path = part_path(directory);
    match VerifiedLog::read(vfs, &path, false) {
        Err(error) if is_not_found(&error) => Ok(None),
        read => Ok(Some(read?)),
    }
}

/// Returns the path of the file that [`read_partial_log`] reads.
pub(crate) fn part_path(directory: &Path) -> PathBuf {
    directory.join(INCOMING).join(PARTIAL_LOG_FILE)
}

/// Returns true if the error means that a file does not exist or no longer exists.
pub(crate) fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Io { kind: io::ErrorKind::NotFound, .. })
}

/// Creates a file, replacing any existing one. An existing link is removed, not followed.
pub(crate) fn create_or_replace(vfs: &dyn Vfs, path: &Path) -> io::Result<Arc<dyn File>> {
    remove_if_exists(vfs, path)?;
    vfs.open(path, OpenMode::CreateNew)
}

/// Writes a log to `path` and makes it durable. Until the function returns, the file may be incomplete.
pub(crate) fn store_log(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = parent_directory(path);
    let write_file = || {
        vfs.create_directory(directory)?;
        let file = create_or_replace(vfs, path)?;
        file.write_at(0, bytes, IoReason::LogWrite)?;
        file.sync(IoReason::LogWrite)?;
        vfs.sync_directory(directory)
    };
    write_file().map_err(|error| CopyError::io(path, &error))
}
