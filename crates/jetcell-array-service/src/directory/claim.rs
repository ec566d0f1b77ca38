//! Reservation of a directory in which an array is being created.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jetcell_vfs::{DirectoryLock, Vfs, parent_directory};

use super::state_file::{ArrayDirectory, STATE_FILE};
use crate::error::{Error, Result};

/// A directory in which an array is being created. A newly created directory is removed on drop unless the array was
/// created.
pub(crate) struct ClaimedDirectory {
    /// Path of the directory if it was newly created.
    created: Option<PathBuf>,
    _lock: Option<Box<dyn DirectoryLock>>,
}

impl ClaimedDirectory {
    /// Keeps the directory, because the array was created.
    pub fn keep(mut self) {
        self.created = None;
    }
}

impl Drop for ClaimedDirectory {
    fn drop(&mut self) {
        if let Some(path) = &self.created {
            // The caller reports the original error, so a failure of the removal is ignored.
            let _ = std::fs::remove_dir(path);
        }
    }
}

impl ArrayDirectory {
    /// Fails if the directory belongs to an array or cannot be used for one.
    pub(crate) fn refuse_used(path: &Path) -> Result<()> {
        if path.join(STATE_FILE).symlink_metadata().is_ok() {
            return Err(Error::IsArray(path.to_path_buf()));
        }
        if path.exists() && !path.is_dir() {
            return Err(Error::NotADirectory(path.to_path_buf()));
        }
        let parent = parent_directory(path);
        if !parent.is_dir() {
            return Err(Error::NoParentDirectory(parent.to_path_buf()));
        }
        Ok(())
    }

    /// Creates the directory if it does not exist. Until the returned guard is dropped, no other process can create
    /// an array in the directory.
    pub(crate) fn claim(vfs: &dyn Vfs, path: &Path) -> Result<ClaimedDirectory> {
        ArrayDirectory::refuse_used(path)?;
        let create_error = |source: io::Error| Error::Create { path: path.to_path_buf(), source };
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Some(path.to_path_buf()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => return Err(create_error(error)),
        };
        vfs.sync_directory(parent_directory(path)).map_err(create_error)?;
        let mut claimed = ClaimedDirectory { created: made, _lock: None };
        let lock = vfs.lock(path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::BeingCreated(path.to_path_buf()),
            _ => create_error(error),
        })?;
        claimed._lock = Some(lock);
        // Another process may have created an array before the lock was acquired.
        ArrayDirectory::refuse_used(path)?;
        Ok(claimed)
    }
}
