//! A [`Vfs`] that is mounted by FUSE, so programs use it through the kernel.
//!
//! Each call reaches the [`Vfs`]: neither data nor lengths are cached above it. Not supported: removal and renaming
//! of directories, permissions, times, symbolic links.

mod file_system;
mod inodes;

use std::io;
use std::path::Path;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, spawn_mount};
use jetcell_vfs::Vfs;
use tempfile::TempDir;

use self::file_system::ServedFileSystem;

/// A mounted file system. It is unmounted when dropped.
pub struct MountedFileSystem {
    session: Option<BackgroundSession>,
    directory: TempDir,
}

impl MountedFileSystem {
    /// Mounts `vfs`, whose root is `/`, on a new directory.
    ///
    /// # Errors
    /// Returns an error if the kernel lacks FUSE, the user may not use it, or `fusermount3` is not installed.
    pub fn new(vfs: Arc<dyn Vfs>) -> io::Result<MountedFileSystem> {
        MountedFileSystem::with_short_transfers(vfs, usize::MAX)
    }

    /// Mounts `vfs`, but limits each read or write to `most` bytes and reports the shorter length.
    pub fn with_short_transfers(vfs: Arc<dyn Vfs>, most: usize) -> io::Result<MountedFileSystem> {
        let directory = tempfile::Builder::new().prefix("jetcell-mounted-").tempdir()?;
        let mut options = Config::default();
        options.mount_options = vec![MountOption::FSName("jetcell-tests".into()), MountOption::NoAtime];
        let session = spawn_mount(ServedFileSystem::new(vfs, most), directory.path(), &options)?;
        Ok(MountedFileSystem { session: Some(session), directory })
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for MountedFileSystem {
    fn drop(&mut self) {
        let ended = self.session.take().map_or(Ok(()), BackgroundSession::umount_and_join);
        if let Err(error) = ended {
            eprintln!("{} cannot be unmounted: {error}", self.path().display());
        }
    }
}
