//! A file system with other file systems mounted at some of its directories.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;

use crate::{Clock, DirectoryLock, File, OpenMode, Vfs};

/// A file system in which other file systems are mounted at some directories.
pub struct MountedVfs {
    base: Arc<dyn Vfs>,
    mounts: Vec<(PathBuf, Arc<dyn Vfs>)>,
}

impl MountedVfs {
    /// Creates a file system from `base` with other file systems mounted at directories. If mounts are nested, the
    /// first matching mount is used.
    pub fn new(base: Arc<dyn Vfs>, mounts: Vec<(PathBuf, Arc<dyn Vfs>)>) -> MountedVfs {
        MountedVfs { base, mounts }
    }

    /// Returns the directory of the mount that contains a path, or `None` if the path is in the base.
    pub fn mount_of(&self, path: &Path) -> Option<&Path> {
        self.mounts.iter().map(|(root, _)| root.as_path()).find(|root| path.starts_with(root))
    }

    fn vfs_for(&self, path: &Path) -> &dyn Vfs {
        let found = self.mounts.iter().find(|(root, _)| path.starts_with(root));
        found.map_or(&*self.base, |(_, vfs)| &**vfs)
    }

    fn common_vfs(&self, from: &Path, to: &Path) -> io::Result<&dyn Vfs> {
        if self.mount_of(from) == self.mount_of(to) {
            Ok(self.vfs_for(from))
        } else {
            Err(io::ErrorKind::CrossesDevices.into())
        }
    }
}

impl Vfs for MountedVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.vfs_for(path).open(path, mode)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.vfs_for(path).exists(path)
    }
    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        self.vfs_for(path).is_regular_file(path)
    }
    fn is_confined(&self, directory: &Path) -> bool {
        self.vfs_for(directory).is_confined(directory)
    }
    fn unfinished_path(&self, path: &Path) -> PathBuf {
        self.vfs_for(path).unfinished_path(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.vfs_for(path).remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.common_vfs(from, to)?.rename(from, to)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.vfs_for(directory).sync_directory(directory)
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.vfs_for(directory).create_directory(directory)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.vfs_for(directory).list(directory)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.vfs_for(path).free_space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.vfs_for(path).lock(path)
    }
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.vfs_for(directory).lock_directory(directory)
    }
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.common_vfs(from, to)?.clone_file(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.common_vfs(from, to)?.link(from, to)
    }
    fn same_file(&self, one: &Path, other: &Path) -> bool {
        self.mount_of(one) == self.mount_of(other) && self.vfs_for(one).same_file(one, other)
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.base.clock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoReason, SimVfs};

    #[test]
    fn paths_resolve_to_a_mount_and_operations_never_cross_mounts() {
        let (base, other) = (SimVfs::new(), SimVfs::new());
        let mounts: Vec<(PathBuf, Arc<dyn Vfs>)> = vec![("/arr".into(), Arc::new(other.clone()))];
        let vfs = MountedVfs::new(Arc::new(base.clone()), mounts);
        for (path, disk) in [("/arr/a", &other), ("/array", &base), ("/b", &base)] {
            let file = vfs.open(Path::new(path), OpenMode::CreateNew).unwrap();
            file.write_at(0, &[1; 4096], IoReason::Other).unwrap();
            assert_eq!(disk.contents(Path::new(path)).unwrap(), vec![1; 4096]);
        }
        assert_eq!(vfs.mount_of(Path::new("/arr/a")), Some(Path::new("/arr")));
        let crossing = vfs.rename(Path::new("/arr/a"), Path::new("/c")).unwrap_err();
        assert_eq!(crossing.kind(), io::ErrorKind::CrossesDevices);
        vfs.rename(Path::new("/arr/a"), Path::new("/arr/c")).unwrap();
        assert!(vfs.exists(Path::new("/arr/c")).unwrap() && !vfs.exists(Path::new("/c")).unwrap());
    }
}
