//! Atomic replacement of output files that are written in pieces, not through a [`Vfs`](crate::Vfs).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use jetcell_sync::Mutex;

use crate::file_ownership::not_a_file_error;
use crate::output_file::sync_directory;
use crate::path_error::with_path;
use crate::path_names::{PARTIAL, with_ending};
use crate::{OutputFile, create_new, is_locked, parent_directory, try_lock_open, unique_unfinished};

/// Device and inode number of a file.
type FileIdentity = (u64, u64);

/// Temporary files of this process that are neither finished nor removed.
static UNFINISHED_FILES: Mutex<BTreeMap<PathBuf, FileIdentity>> = Mutex::new(BTreeMap::new());

/// Removes the temporary files of all output files, before the process ends without dropping them.
pub fn remove_unfinished_outputs() {
    for (path, identity) in &*UNFINISHED_FILES.lock() {
        // Another process may have taken the name.
        if fs::symlink_metadata(path).is_ok_and(|named| identity_of(&named) == *identity) {
            let _ = fs::remove_file(path);
        }
    }
}

/// A temporary file that replaces another file when it is complete. Dropping it without finishing removes it.
///
/// Used for command output that is not written through a [`Vfs`](crate::Vfs). Otherwise works like
/// [`replace_file`](crate::replace_file).
#[derive(Debug)]
pub struct UnfinishedFile {
    file: OutputFile,
    unfinished: PathBuf,
    path: PathBuf,
    /// True if other processes use the same temporary name. One of them may have replaced the temporary file before
    /// this process acquired its lock.
    is_exclusive: bool,
    finished: bool,
}

impl UnfinishedFile {
    /// Creates the file under a unique temporary name in the directory of `path`. Concurrent replacements do not
    /// interfere with each other.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created. Also returns an error if `path` has no file name, or is a
    /// device, a pipe, a socket, or a link to one of them.
    pub fn create(path: &Path) -> io::Result<UnfinishedFile> {
        path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        refuse_special_file(path)?;
        let unfinished = unique_unfinished(path);
        let file = OutputFile::create(&unfinished)?;
        UnfinishedFile::new(file, unfinished, path, false)
    }

    /// Creates the file as `path.partial`, and locks it. A file that a killed process left there is replaced.
    ///
    /// # Errors
    /// Returns the errors of [`UnfinishedFile::create`], and `ResourceBusy` if another process is writing the file.
    /// The text contains the temporary path if the temporary file cannot be created.
    pub fn create_exclusive(path: &Path) -> io::Result<UnfinishedFile> {
        refuse_special_file(path)?;
        let unfinished = with_ending(path, PARTIAL);
        let create = || {
            if is_locked(&unfinished)? {
                return Err(in_use_error());
            }
            match fs::remove_file(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = create_new(&unfinished)?;
            if try_lock_open(&file)? { Ok(file) } else { Err(in_use_error()) }
        };
        let file = create().map_err(|error| with_path(&unfinished, error))?.into();
        UnfinishedFile::new(file, unfinished, path, true)
    }

    fn new(
        file: OutputFile,
        unfinished: PathBuf,
        path: &Path,
        is_exclusive: bool,
    ) -> io::Result<UnfinishedFile> {
        let identity = identity_of(&file.as_file().metadata()?);
        UNFINISHED_FILES.lock().insert(unfinished.clone(), identity);
        let path = path.to_path_buf();
        Ok(UnfinishedFile { file, unfinished, path, is_exclusive, finished: false })
    }

    /// Returns the final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the temporary path.
    pub fn temporary_path(&self) -> &Path {
        &self.unfinished
    }

    /// Returns the open file.
    pub fn as_file(&self) -> &File {
        self.file.as_file()
    }

    /// Makes the content durable under the temporary name.
    ///
    /// # Errors
    /// Returns `ResourceBusy` if the temporary name refers to a file of another process.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        if self.has_its_name()? { Ok(()) } else { Err(in_use_error()) }
    }

    /// Renames the file to its final name, durably.
    pub fn finish(mut self) -> io::Result<()> {
        self.finish_in_place()
    }

    /// Like [`UnfinishedFile::finish`], but returns the open file, to which more can be written.
    pub fn finish_open(mut self) -> io::Result<OutputFile> {
        let file = OutputFile::from(self.as_file().try_clone()?);
        self.finish_in_place().map(|()| file)
    }

    /// Renames the file to its final name. The file may be lost in a power failure.
    ///
    /// # Errors
    /// Returns `ResourceBusy` if the temporary name refers to a file of another process.
    pub fn finish_unsynced(mut self) -> io::Result<()> {
        if self.has_its_name()? { self.rename() } else { Err(in_use_error()) }
    }

    fn finish_in_place(&mut self) -> io::Result<()> {
        self.sync()?;
        self.rename()?;
        sync_directory(parent_directory(&self.path))
    }

    fn rename(&mut self) -> io::Result<()> {
        fs::rename(&self.unfinished, &self.path)?;
        self.finished = true;
        Ok(())
    }

    /// Returns true if the temporary name still refers to this file.
    fn has_its_name(&self) -> io::Result<bool> {
        if !self.is_exclusive {
            return Ok(true);
        }
        let (written, named) = (self.as_file().metadata()?, fs::symlink_metadata(&self.unfinished)?);
        Ok(identity_of(&written) == identity_of(&named))
    }
}

/// Replaces an output file durably. If an error occurs, the old file is unchanged. A character device such as
/// `/dev/null` is not replaced; the content is written to it.
///
/// # Errors
/// Returns the errors of [`UnfinishedFile::create`] and [`UnfinishedFile::finish`].
pub fn replace_output(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|named| named.file_type().is_char_device()) {
        return OutputFile::create(path)?.write_all(content.as_ref());
    }
    let mut file = UnfinishedFile::create(path)?;
    file.write_all(content.as_ref())?;
    file.finish()
}

/// Returns an error if the path names something that a file cannot replace. A missing file or a directory is handled
/// by the later calls.
fn refuse_special_file(path: &Path) -> io::Result<()> {
    let is_special = |file: &fs::Metadata| !file.is_file() && !file.is_dir();
    match (fs::symlink_metadata(path), fs::metadata(path)) {
        (Ok(named), _) if !named.is_symlink() && is_special(&named) => {
            Err(not_a_file_error("a device, a pipe or a socket"))
        }
        (_, Ok(target)) if is_special(&target) => {
            Err(not_a_file_error("a link to a device, a pipe or a socket"))
        }
        _ => Ok(()),
    }
}

fn identity_of(file: &fs::Metadata) -> FileIdentity {
    (file.dev(), file.ino())
}

fn in_use_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another process is writing this file; wait until it completes, or specify a different file",
    )
}

impl Write for UnfinishedFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.file.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.finished && self.has_its_name().unwrap_or(false) {
            let _ = fs::remove_file(&self.unfinished);
        }
        UNFINISHED_FILES.lock().remove(&self.unfinished);
    }
}

#[cfg(test)]
#[path = "unfinished_file_tests.rs"]
mod tests;
