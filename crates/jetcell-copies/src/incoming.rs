//! The directory of a copy with what was not inspected yet, and the part of a log that came with a seed.

use std::path::{Path, PathBuf};

use ese_engine::LogCopy;
use jetcell_sync::Arc;
use jetcell_vfs::{IoReason, OpenMode, Vfs};

use crate::error::{CopyError, Result};

/// Where logs and seeds are until they were inspected.
pub(crate) const INCOMING: &str = "incoming";
/// In [`INCOMING`]: a part of the log that was being written when the databases were seeded. They have changes of it, so the whole
/// log has to begin with it.
const PART: &str = "part.log";

/// The part of a log that the databases have changes of, if the copy does not have the whole one.
pub(crate) fn part_of_log(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Option<LogCopy>> {
    let path = part_path(directory);
    match vfs.exists(&path) {
        Ok(false) => Ok(None),
        Ok(true) => Ok(Some(LogCopy::read(vfs, &path, false)?)),
        Err(error) => Err(CopyError::io(&path, &error)),
    }
}

/// Where [`part_of_log`] is stored.
pub(crate) fn part_path(directory: &Path) -> PathBuf {
    directory.join(INCOMING).join(PART)
}

/// Writes a log there, durably. The file is not whole before that.
pub(crate) fn store_log(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let put = || {
        vfs.create_directory(directory)?;
        if vfs.exists(path)? {
            vfs.remove(path)?;
        }
        let file = vfs.open(path, OpenMode::CreateNew)?;
        file.write_at(0, bytes, IoReason::LogWrite)?;
        file.sync(IoReason::LogWrite)?;
        vfs.sync_directory(directory)
    };
    put().map_err(|error| CopyError::io(path, &error))
}
