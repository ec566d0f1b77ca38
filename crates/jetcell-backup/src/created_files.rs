//! A file system that records which files were created through it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{DirectoryLock, File, OpenMode, Vfs, VfsLayer};

/// A file system that records the files created through it. After an error, a restore removes only these files,
/// because other processes may have created files in the same directory.
pub struct CreatedFiles {
    inner: Arc<dyn Vfs>,
    created: Mutex<BTreeSet<PathBuf>>,
}

impl CreatedFiles {
    /// Creates a wrapper with an empty list of files.
    pub fn new(inner: Arc<dyn Vfs>) -> CreatedFiles {
        CreatedFiles { inner, created: Mutex::default() }
    }

    /// Returns true if the file was created through this file system and has been neither removed nor renamed since.
    pub fn contains(&self, path: &Path) -> bool {
        self.created.lock().contains(path)
    }

    fn add(&self, path: &Path) {
        self.created.lock().insert(path.to_path_buf());
    }
}

impl VfsLayer for CreatedFiles {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.inner.open(path, mode)?;
        if mode == OpenMode::CreateNew {
            self.add(path);
        }
        Ok(file)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)?;
        self.created.lock().remove(path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let mut created = self.created.lock();
        // The rename replaced the target file.
        if created.remove(from) {
            created.insert(to.to_path_buf())
        } else {
            created.remove(to)
        };
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let is_there = self.inner.exists(path)?;
        let lock = self.inner.lock(path)?;
        if !is_there {
            self.add(path);
        }
        Ok(lock)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)?;
        self.add(to);
        Ok(())
    }

    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.clone_file(from, to)?;
        self.add(to);
        Ok(())
    }
}
