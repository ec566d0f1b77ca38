//! Files and block devices that are to become members. Missing files are created; files in use are refused.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use jetcell_array::{ArrayError, ArrayRefusal};
use jetcell_vfs::{IoReason, OpenMode, Vfs, create_new, is_locked, parent_directory, sync_file};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Files that were created for an array. Dropping this value removes them unless they have become members.
pub struct CreatedMemberFiles<'a> {
    vfs: &'a dyn Vfs,
    created: Vec<PathBuf>,
}

impl<'a> CreatedMemberFiles<'a> {
    /// Creates the files that do not exist. If `is_sparse` is true, no blocks are allocated for them. Fails if an
    /// existing file is in use.
    pub fn create_missing(
        vfs: &'a dyn Vfs,
        paths: &[PathBuf],
        size: Option<u64>,
        is_sparse: bool,
    ) -> Result<CreatedMemberFiles<'a>> {
        let missing: Vec<&PathBuf> = paths.iter().filter(|path| !path.exists()).collect();
        for path in paths.iter().filter(|path| path.exists()) {
            refuse_used(path)?;
        }
        let mut files = CreatedMemberFiles { vfs, created: vec![] };
        for path in missing {
            let size = size.ok_or_else(|| Error::NoMemberFile(path.clone()))?;
            if path.starts_with("/dev") {
                return Err(Error::NoDevice(path.clone()));
            }
            if files.created.contains(path) {
                return Err(ArrayError::from(ArrayRefusal::DuplicateMember(path.clone())).into());
            }
            files
                .create_file(path, size, is_sparse)
                .map_err(|source| Error::Create { path: path.clone(), source })?;
        }
        Ok(files)
    }

    fn create_file(&mut self, path: &Path, size: u64, is_sparse: bool) -> std::io::Result<()> {
        if is_sparse {
            // `create_new` returns the new file itself, even if the path is replaced by another file.
            let file = create_new(path)?;
            self.created.push(path.to_path_buf());
            file.set_len(size)?;
            sync_file(&file)?;
        } else {
            let file = self.vfs.open(path, OpenMode::CreateNew)?;
            self.created.push(path.to_path_buf());
            file.grow(size)?;
            file.sync(IoReason::Other)?;
        }
        self.vfs.sync_directory(parent_directory(path))
    }

    /// Keeps the files, because the array uses them.
    pub fn keep(mut self) {
        self.created.clear();
    }
}

impl Drop for CreatedMemberFiles<'_> {
    fn drop(&mut self) {
        for path in &self.created {
            // The original error is reported, so a failure of the removal is ignored.
            let _ = self.vfs.remove(path);
        }
    }
}

/// Returns true if a path is a link to a file, or a dangling link. Links to devices, such as those in /dev/disk, are
/// common device names and are not included.
pub fn is_link_to_file(path: &Path) -> bool {
    let is_device = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    path.is_symlink() && !is_device()
}

/// Fails if another program uses the file or the device.
fn refuse_used(path: &Path) -> Result<()> {
    let path_error = |source| Error::Path { path: path.to_path_buf(), source };
    let metadata = std::fs::metadata(path).map_err(path_error)?;
    if metadata.is_dir() {
        return Err(Error::MemberIsDirectory(path.to_path_buf()));
    }
    if is_locked(path).map_err(path_error)? {
        return Err(Error::MemberInUse(path.to_path_buf()));
    }
    if metadata.file_type().is_block_device() {
        // With these flags, the kernel refuses to open devices that are mounted or belong to another array.
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::BUSY) => return Err(Error::MemberMounted(path.to_path_buf())),
            Err(error) => return Err(path_error(io::Error::from(error))),
            Ok(_) => {}
        }
    }
    Ok(())
}
