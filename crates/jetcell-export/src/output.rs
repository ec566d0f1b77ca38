//! Output files, which are written under a temporary name and renamed when complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use jetcell_vfs::create_new;

use crate::target::{check_free, sync_directory, with_path};
use crate::value_files::ValueFiles;

/// Destination of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// One file per table in this directory.
    Directory(PathBuf),
    /// One file.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// A file that gets its name when [`PartialFile::finish`] is called, and is removed otherwise.
#[derive(Debug)]
pub(crate) struct PartialFile {
    target: PathBuf,
    partial: PathBuf,
    finished: bool,
}

impl PartialFile {
    /// Creates the temporary file for `target`. Fails if `target` exists, unless `force`.
    pub(crate) fn create(target: &Path, force: bool) -> io::Result<PartialFile> {
        check_free(target, force)?;
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = target.with_file_name(name);
        // A run that was killed may have left the file.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(with_path(&partial, error)),
            _ => {}
        }
        create_new(&partial).map_err(|error| with_path(&partial, error))?;
        Ok(PartialFile { target: target.to_owned(), partial, finished: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    pub(crate) fn open(&self) -> io::Result<File> {
        fs::OpenOptions::new()
            .write(true)
            .open(&self.partial)
            .map_err(|error| with_path(&self.partial, error))
    }

    /// Makes the contents durable, publishes the files of the values to which it refers, and renames the file.
    pub(crate) fn finish(mut self, values: Option<ValueFiles>) -> io::Result<()> {
        let synced = File::open(&self.partial).and_then(|file| file.sync_all());
        synced.map_err(|error| with_path(&self.partial, error))?;
        if let Some(values) = values {
            values.publish()?;
        }
        fs::rename(&self.partial, &self.target).map_err(|error| with_path(&self.target, error))?;
        self.finished = true;
        let directory = self.target.parent().unwrap_or(Path::new(""));
        sync_directory(directory).map_err(|error| with_path(directory, error))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// A stream into a partial file or standard output.
pub(crate) enum Stream {
    File(BufWriter<File>, PartialFile),
    Stdout(BufWriter<io::Stdout>),
}

const BUFFER: usize = 1 << 20;

impl Stream {
    pub(crate) fn file(target: &Path, force: bool) -> io::Result<Stream> {
        let partial = PartialFile::create(target, force)?;
        Ok(Stream::File(BufWriter::with_capacity(BUFFER, partial.open()?), partial))
    }

    pub(crate) fn stdout() -> Stream {
        Stream::Stdout(BufWriter::with_capacity(BUFFER, io::stdout()))
    }

    /// Ends the output: see [`PartialFile::finish`].
    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        match self {
            Stream::File(mut writer, partial) => {
                writer.flush().map_err(|error| with_path(partial.path(), error))?;
                drop(writer);
                partial.finish(values)
            }
            Stream::Stdout(mut writer) => writer.flush(),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::File(writer, file) => writer.write(bytes).map_err(|error| with_path(file.path(), error)),
            Stream::Stdout(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::File(writer, file) => writer.flush().map_err(|error| with_path(file.path(), error)),
            Stream::Stdout(writer) => writer.flush(),
        }
    }
}

/// A file name for a table: no separators, control characters or leading dots, and not too long.
pub(crate) fn file_name(table: &str) -> String {
    let unsafe_in_names =
        |c: char| c.is_control() || matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let mut name = String::new();
    for c in table.chars().take(60) {
        // File systems limit names to 255 bytes, and a suffix is appended to this one.
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
