//! Atomic replacement of output files that are written in pieces, not through a [`Vfs`](crate::Vfs).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jetcell_sync::Mutex;

use crate::output_file::sync_directory;
use crate::path_names::{PARTIAL, with_ending};
use crate::{OutputFile, create_new, is_locked, parent_directory, try_lock_open, unique_unfinished};

/// Temporary files of this process that are neither finished nor removed.
static UNFINISHED_FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the temporary files of all output files, before the process ends without dropping them.
pub fn remove_unfinished_outputs() {
    for path in std::mem::take(&mut *UNFINISHED_FILES.lock()) {
        let _ = fs::remove_file(path);
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
    /// Another process may have replaced the temporary file before this process acquired its lock.
    is_exclusive: bool,
    finished: bool,
}

impl UnfinishedFile {
    /// Creates the file under a unique temporary name in the directory of `path`. Concurrent replacements do not
    /// interfere with each other.
    ///
    /// # Errors
    /// The file cannot be created; `path` has no file name.
    pub fn create(path: &Path) -> io::Result<UnfinishedFile> {
        path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let unfinished = unique_unfinished(path);
        let file = OutputFile::create(&unfinished)?;
        Ok(UnfinishedFile::new(file, unfinished, path, false))
    }

    /// Creates the file as `path.partial`, and locks it. A file that a killed process left there is replaced.
    ///
    /// # Errors
    /// Another process is writing the file (`ResourceBusy`); the file cannot be created. The text of the error contains
    /// the temporary path.
    pub fn create_exclusive(path: &Path) -> io::Result<UnfinishedFile> {
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
        let file = create()
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", unfinished.display())))?
            .into();
        Ok(UnfinishedFile::new(file, unfinished, path, true))
    }

    fn new(file: OutputFile, unfinished: PathBuf, path: &Path, is_exclusive: bool) -> UnfinishedFile {
        UNFINISHED_FILES.lock().insert(unfinished.clone());
        UnfinishedFile { file, unfinished, path: path.to_path_buf(), is_exclusive, finished: false }
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
    /// The temporary name refers to a file of another process (`ResourceBusy`).
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
    pub fn finish_unsynced(mut self) -> io::Result<()> {
        self.rename()
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
        Ok((written.dev(), written.ino()) == (named.dev(), named.ino()))
    }
}

/// Replaces an output file durably. If an error occurs, the old file is unchanged.
///
/// # Errors
/// Errors of [`UnfinishedFile::create`] and [`UnfinishedFile::finish`].
pub fn replace_output(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = UnfinishedFile::create(path)?;
    file.write_all(content.as_ref())?;
    file.finish()
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
        UNFINISHED_FILES.lock().remove(&self.unfinished);
        if !self.finished && self.has_its_name().unwrap_or(false) {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

#[cfg(test)]
#[path = "unfinished_file_tests.rs"]
mod tests;
