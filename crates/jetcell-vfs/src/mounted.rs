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

    fn at(&self, path: &Path) -> &dyn Vfs {
        let found = self.mounts.iter().find(|(root, _)| path.starts_with(root));
        found.map_or(&*self.base, |(_, vfs)| &**vfs)
    }

    fn at_both(&self, from: &Path, to: &Path) -> io::Result<&dyn Vfs> {
        if self.mount_of(from) == self.mount_of(to) {
            Ok(self.at(from))
        } else {
            Err(io::ErrorKind::CrossesDevices.into())
        }
    }
}

impl Vfs for MountedVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.at(path).open(path, mode)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.at(path).exists(path)
    }
    fn is_own_file(&self, path: &Path) -> io::Result<bool> {
        self.at(path).is_own_file(path)
    }
    fn confines(&self, directory: &Path) -> bool {
        self.at(directory).confines(directory)
    }
    fn unfinished_path(&self, path: &Path) -> PathBuf {
        self.at(path).unfinished_path(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.at(path).remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at_both(from, to)?.rename(from, to)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.at(directory).sync_directory(directory)
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.at(directory).create_directory(directory)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.at(directory).list(directory)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.at(path).free_space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.at(path).lock(path)
    }
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.at(directory).lock_directory(directory)
    }
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at_both(from, to)?.clone_file(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at_both(from, to)?.link(from, to)
    }
    fn same_file(&self, one: &Path, other: &Path) -> bool {
        self.mount_of(one) == self.mount_of(other) && self.at(one).same_file(one, other)
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
    fn paths_lead_to_their_mount_and_nothing_crosses_its_border() {
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
