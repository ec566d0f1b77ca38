//! Files that are written from their begin to their end: results, samples, events.
//!
//! Invariant: no call hangs. The standard library repeats interrupted calls without end, and so it never ends on a file system that
//! interrupts each of them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use crate::retry::bounded;

/// A file for output.
#[derive(Debug)]
pub struct OutputFile(File);

impl OutputFile {
    /// Creates a file, or empties one.
    pub fn create(path: &Path) -> io::Result<OutputFile> {
        OutputFile::open(path, OFlags::TRUNC)
    }

    /// Opens a file to write behind its end. Creates it if there is none.
    pub fn append(path: &Path) -> io::Result<OutputFile> {
        OutputFile::open(path, OFlags::APPEND)
    }

    fn open(path: &Path, how: OFlags) -> io::Result<OutputFile> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | how;
        let file = bounded(|| rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o666)))?;
        Ok(OutputFile(file.into()))
    }

    /// Makes content and length durable.
    pub fn sync(&self) -> io::Result<()> {
        bounded(|| rustix::fs::fdatasync(&self.0))
    }

    /// Cuts or extends the file.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        bounded(|| rustix::fs::ftruncate(&self.0, len))
    }

    /// Makes the names in a directory durable.
    pub fn sync_directory(directory: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = bounded(|| rustix::fs::openat(CWD, directory, flags, Mode::empty()))?;
        bounded(|| rustix::fs::fsync(&opened))
    }
}

impl Write for OutputFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        bounded(|| rustix::io::write(&self.0, data))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_created_emptied_appended_and_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let text = || std::fs::read_to_string(&path).unwrap();
        OutputFile::create(&path).unwrap().write_all(b"a longer text").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"text").unwrap();
        file.sync().unwrap();
        OutputFile::append(&path).unwrap().write_all(b" and more").unwrap();
        assert_eq!(text(), "text and more");
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(text(), "new");
        OutputFile::sync_directory(dir.path()).unwrap();
        assert!(
            OutputFile::create(dir.path()).is_err() && OutputFile::append(Path::new("/none/file")).is_err()
        );
    }
}
