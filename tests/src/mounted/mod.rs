//! A [`Vfs`] that is mounted by FUSE, so that programs use it through the kernel.
//!
//! Each call reaches the [`Vfs`]: neither data nor lengths are cached above it. Left out: removal and renaming of
//! directories, permissions, times, symbolic links.

mod inodes;
mod served;

use std::io;
use std::path::Path;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, spawn_mount};
use jetcell_vfs::Vfs;
use tempfile::TempDir;

use self::served::Served;

/// A mounted file system. Dropping it unmounts.
pub struct Mounted {
    session: Option<BackgroundSession>,
    directory: TempDir,
}

impl Mounted {
    /// Mounts `vfs`, whose root is `/`, at a directory of its own.
    ///
    /// Errors: the kernel has no FUSE, this user may not use it, or `fusermount3` is not installed.
    pub fn new(vfs: Arc<dyn Vfs>) -> io::Result<Mounted> {
        Mounted::with_short_transfers(vfs, usize::MAX)
    }

    /// The same, but a read or a write transfers so many bytes at most, and says so.
    pub fn with_short_transfers(vfs: Arc<dyn Vfs>, most: usize) -> io::Result<Mounted> {
        let directory = tempfile::Builder::new().prefix("jetcell-mounted-").tempdir()?;
        let mut options = Config::default();
        options.mount_options = vec![MountOption::FSName("jetcell-tests".into()), MountOption::NoAtime];
        let session = spawn_mount(Served::new(vfs, most), directory.path(), &options)?;
        Ok(Mounted { session: Some(session), directory })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = self.session.take().map_or(Ok(()), BackgroundSession::umount_and_join);
        if let Err(error) = ended {
            eprintln!("{} cannot be unmounted: {error}", self.path().display());
        }
    }
}
