//! Output files, which are written under a temporary name and renamed when complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jetcell_input::{PrintableWriter, TextFormat};
use jetcell_vfs::{create_new, is_locked, try_lock_open};

use crate::target::{check_absent, sync_directory, with_path};
use crate::value_files::ValueFiles;

/// Destination of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportDestination {
    /// One file per table in this directory.
    Directory(PathBuf),
    /// One file.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// A file that [`PartialFile::finish`] renames to its final name. Without that call, the file is removed.
#[derive(Debug)]
pub(crate) struct PartialFile {
    target: PathBuf,
    partial: PathBuf,
    /// The open and locked file. The lock tells other exports to the same target that the file is in use and not left
    /// over from a killed process.
    file: File,
    finished: bool,
}

impl PartialFile {
    /// Creates the temporary file for `target`. Fails if `target` exists and `force` is false.
    pub(crate) fn create(target: &Path, force: bool) -> io::Result<PartialFile> {
        check_absent(target, force)?;
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = target.with_file_name(name);
        let with_partial_path = |error| with_path(&partial, error);
        // The file may be left over from a killed process.
        if is_locked(&partial).map_err(with_partial_path)? {
            return Err(with_partial_path(in_use_error()));
        } else {
            match fs::remove_file(&partial) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(with_partial_path(error));
                }
                _ => {}
            }
        }
        let file = create_new(&partial).map_err(with_partial_path)?;
        if !try_lock_open(&file).map_err(with_partial_path)? {
            return Err(with_partial_path(in_use_error()));
        }
        Ok(PartialFile { target: target.to_owned(), partial, file, finished: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    pub(crate) fn open(&self) -> io::Result<File> {
        self.file.try_clone().map_err(|error| with_path(&self.partial, error))
    }

    /// Returns true if the temporary path still refers to this file, and not to a file from another export.
    fn is_at_partial_path(&self) -> io::Result<bool> {
        let (written, named) = (self.file.metadata()?, fs::symlink_metadata(&self.partial)?);
        Ok((written.dev(), written.ino()) == (named.dev(), named.ino()))
    }

    /// Makes the content durable, publishes the value files that it refers to, and renames the file.
    pub(crate) fn finish(mut self, values: Option<ValueFiles>) -> io::Result<()> {
        let with_partial_path = |error| with_path(&self.partial, error);
        self.file.sync_all().map_err(with_partial_path)?;
        if !self.is_at_partial_path().map_err(with_partial_path)? {
            return Err(with_partial_path(in_use_error()));
        }
        if let Some(values) = values {
            values.publish()?;
        }
        fs::rename(&self.partial, &self.target).map_err(|error| with_path(&self.target, error))?;
        self.finished = true;
        let directory = self.target.parent().unwrap_or(Path::new(""));
        sync_directory(directory).map_err(|error| with_path(directory, error))
    }
}

/// Returns the error for an output file that another export is writing.
fn in_use_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another export is writing this file; wait for that export, or specify a different file",
    )
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.finished && self.is_at_partial_path().unwrap_or(false) {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// An output stream to a partial file or to standard output.
pub(crate) enum OutputStream {
    File(BufWriter<File>, PartialFile),
    Stdout(Box<dyn Write + Send>),
}

const BUFFER_BYTES: usize = 1 << 20;

impl OutputStream {
    pub(crate) fn file(target: &Path, force: bool) -> io::Result<OutputStream> {
        let partial = PartialFile::create(target, force)?;
        Ok(OutputStream::File(BufWriter::with_capacity(BUFFER_BYTES, partial.open()?), partial))
    }

    /// Returns a stream to standard output. Control characters are escaped if the output is a terminal, and left
    /// unchanged if it is a pipe or file.
    pub(crate) fn stdout(form: TextFormat) -> OutputStream {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        OutputStream::Stdout(if io::stdout().is_terminal() {
            Box::new(PrintableWriter::new(writer, form))
        } else {
            Box::new(writer)
        })
    }

    /// Completes the output; see [`PartialFile::finish`].
    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        match self {
            OutputStream::File(mut writer, partial) => {
                writer.flush().map_err(|error| with_path(partial.path(), error))?;
                drop(writer);
                partial.finish(values)
            }
            OutputStream::Stdout(mut writer) => writer.flush(),
        }
    }
}

impl Write for OutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputStream::File(writer, file) => {
                writer.write(bytes).map_err(|error| with_path(file.path(), error))
            }
            OutputStream::Stdout(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OutputStream::File(writer, file) => writer.flush().map_err(|error| with_path(file.path(), error)),
            OutputStream::Stdout(writer) => writer.flush(),
        }
    }
}

/// Converts a table name to a file name of limited length, without separators, control characters or leading dots.
pub(crate) fn file_name(table: &str) -> String {
    let unsafe_in_names =
        |c: char| c.is_control() || matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let mut name = String::new();
    for c in table.chars().take(60) {
        // File systems limit names to 255 bytes, and a suffix will be appended to this name.
        if name.len() > 180 {
            break;
        }
        name.push(if unsafe_in_names(c) { '_' } else { c });
    }
    if name.starts_with('.') {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_exports_to_one_file_do_not_mix() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("rows.csv");
        let mut first = OutputStream::file(&target, false).unwrap();
        first.write_all(b"first").unwrap();
        assert_eq!(OutputStream::file(&target, false).err().unwrap().kind(), io::ErrorKind::ResourceBusy);
        // Simulates a second export that started before the first one had acquired its lock.
        fs::remove_file(dir.path().join("rows.csv.partial")).unwrap();
        let mut second = OutputStream::file(&target, false).unwrap();
        second.write_all(b"sec").unwrap();
        assert_eq!(first.finish(None).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(!target.exists());
        second.finish(None).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"sec");
        fs::remove_file(&target).unwrap();
        // Simulates a file left over from a killed process.
        fs::write(dir.path().join("rows.csv.partial"), "remains").unwrap();
        let mut third = OutputStream::file(&target, false).unwrap();
        third.write_all(b"third").unwrap();
        third.finish(None).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"third");
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o600);
    }
}
