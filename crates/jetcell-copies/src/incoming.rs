//! The directory of a copy with what was not inspected yet, and the part of a log that came with a seed.

use std::io;
use std::path::{Path, PathBuf};

use ese_engine::{Error, LogCopy};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoReason, OpenMode, Vfs};

use crate::error::{CopyError, Result};

/// Where logs and seeds are until they were inspected.
pub(crate) const INCOMING: &str = "incoming";
/// In [`INCOMING`]: a part of the log that was being written when the databases were seeded. They have changes of it, so the whole
/// log has to begin with it.
const PART: &str = "part.log";

/// The part of a log that the databases have changes of, if the copy does not have the whole one.
pub(crate) fn part_of_log(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Option<LogCopy>> {
    let path = part_path(directory);
    match LogCopy::read(vfs, &path, false) {
        Err(error) if is_gone(&error) => Ok(None),
        read => Ok(Some(read?)),
    }
}

/// Where [`part_of_log`] is stored.
pub(crate) fn part_path(directory: &Path) -> PathBuf {
    directory.join(INCOMING).join(PART)
}

/// Whether an error says that a file does not exist, or not any more.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { kind: io::ErrorKind::NotFound, .. })
}

/// Creates a file in place of an earlier one. A link there is removed, and not followed.
pub(crate) fn create_again(vfs: &dyn Vfs, path: &Path) -> io::Result<Arc<dyn File>> {
    remove_if_there(vfs, path)?;
    vfs.open(path, OpenMode::CreateNew)
}

/// Removes a file that another process may remove at the same time.
pub(crate) fn remove_if_there(vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
    match vfs.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Writes a log there, durably. The file is not whole before that.
pub(crate) fn store_log(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let put = || {
        vfs.create_directory(directory)?;
        let file = create_again(vfs, path)?;
        file.write_at(0, bytes, IoReason::LogWrite)?;
        file.sync(IoReason::LogWrite)?;
        vfs.sync_directory(directory)
    };
    put().map_err(|error| CopyError::io(path, &error))
}
