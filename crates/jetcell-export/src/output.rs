//! Output files, which are written under a temporary name and renamed when complete.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use jetcell_input::{PrintableWriter, TextFormat};
use jetcell_vfs::{UnfinishedFile, with_path};

use crate::target::{OutputSync, check_absent};
use crate::value_files::ValueFiles;

/// Destination of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportDestination {
    /// One file per table in this directory.
    Directory(PathBuf),
    /// One file at this path.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// Creates the temporary file for `target`. Fails if `target` exists and `force` is false.
pub(crate) fn create(target: &Path, force: bool) -> io::Result<UnfinishedFile> {
    check_absent(target, force)?;
    UnfinishedFile::create_exclusive(target)
}

/// Publishes the value files to which the content of `file` refers, and then gives `file` its final name. With
/// [`OutputSync::EachFile`], all content is made durable first.
pub(crate) fn finish(file: UnfinishedFile, values: Option<ValueFiles>, sync: OutputSync) -> io::Result<()> {
    if sync == OutputSync::EachFile {
        file.sync().map_err(|error| with_path(file.temporary_path(), error))?;
    }
    if let Some(values) = values {
        values.publish(sync)?;
    }
    let path = file.path().to_owned();
    let finished = match sync {
        OutputSync::EachFile => file.finish(),
        OutputSync::AtEnd => file.finish_unsynced(),
    };
    finished.map_err(|error| with_path(&path, error))
}

/// An output stream that writes to a partial file or to standard output.
pub(crate) enum OutputStream {
    File(BufWriter<UnfinishedFile>, OutputSync),
    Stdout(Box<dyn Write + Send>),
}

const BUFFER_BYTES: usize = 1 << 20;

impl OutputStream {
    pub(crate) fn file(target: &Path, force: bool, sync: OutputSync) -> io::Result<OutputStream> {
        Ok(OutputStream::File(BufWriter::with_capacity(BUFFER_BYTES, create(target, force)?), sync))
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

    /// Completes the output; see [`finish`].
    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        match self {
            OutputStream::File(writer, sync) => {
                let path = writer.get_ref().temporary_path().to_owned();
                let file = writer.into_inner().map_err(|error| with_path(&path, error.into_error()))?;
                finish(file, values, sync)
            }
            OutputStream::Stdout(mut writer) => writer.flush(),
        }
    }
}

impl Write for OutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputStream::File(writer, _) => {
                writer.write(bytes).map_err(|error| with_path(writer.get_ref().temporary_path(), error))
            }
            OutputStream::Stdout(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OutputStream::File(writer, _) => {
                writer.flush().map_err(|error| with_path(writer.get_ref().temporary_path(), error))
            }
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
