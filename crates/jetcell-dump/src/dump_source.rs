//! The file to dump.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_format::recognise::START_LEN;
use jetcell_vfs::{File, IoReason, OpenMode, Vfs};

use crate::{DumpError, Result, UnusableReason};

/// An open file to dump, in any supported format.
pub struct DumpSource {
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
}

impl DumpSource {
    /// Opens a file for reading.
    pub fn open(vfs: &dyn Vfs, path: &Path) -> Result<DumpSource> {
        let io_error = |error| DumpError::Io { path: path.to_owned(), error };
        let file = vfs.open(path, OpenMode::Read).map_err(io_error)?;
        let len = file.len().map_err(io_error)?;
        Ok(DumpSource { file, path: path.to_owned(), len })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Reads `len` bytes from `offset`, or fewer at the end of the file.
    pub(crate) fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let there = self.len.saturating_sub(offset).min(len as u64);
        let mut bytes = vec![0; there as usize];
        if !bytes.is_empty() {
            self.file.read_at(offset, &mut bytes, IoReason::Verify)?;
        }
        Ok(bytes)
    }

    /// Reads the bytes at the start of the file that are needed to recognise its format.
    pub(crate) fn start(&self) -> Result<Vec<u8>> {
        self.read(0, START_LEN).map_err(|error| self.io_error(error))
    }

    pub(crate) fn io_error(&self, error: io::Error) -> DumpError {
        DumpError::Io { path: self.path.clone(), error }
    }

    pub(crate) fn unusable_error(&self, reason: UnusableReason) -> DumpError {
        DumpError::Unusable { path: self.path.clone(), reason }
    }
}
