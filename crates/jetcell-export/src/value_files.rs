//! Files for values that exceed the row limit, stored next to an output.
//!
//! The files are collected in a temporary directory, so memory use does not depend on how many there are. They are
//! either published together with the output that refers to them, or removed.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ese_format::PageNumber;
use jetcell_vfs::{OutputFile, create_private_directory, sync_directory, sync_file_system, with_path};

use crate::cell::ValueFileRef;
use crate::table::TableColumn;
use crate::target::{OutputSync, check_absent};

/// Size of a file's write buffer in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// A value's location within a table, which determines the name of the value's file.
#[derive(Clone, Copy)]
pub(crate) struct ValueLocation<'c> {
    pub(crate) page: PageNumber,
    /// Position of the row on the page.
    pub(crate) row: usize,
    pub(crate) column: &'c TableColumn,
    /// Position among several values in a cell, starting at 1.
    pub(crate) item: Option<usize>,
}

/// The separate files to which an export writes long values.
#[derive(Debug)]
pub struct ValueFiles {
    /// The final directory. `folder` is its name.
    directory: PathBuf,
    folder: String,
    /// The temporary directory. It exists if `is_staged` is true.
    staging_directory: PathBuf,
    is_staged: bool,
    force: bool,
    table: String,
    count: u64,
}

impl ValueFiles {
    /// Prepares to create files for values in the output `target`, in the directory `folder` next to it. Existing
    /// files are replaced only if `force` is true.
    pub fn new(target: &Path, folder: &str, force: bool) -> io::Result<ValueFiles> {
        let directory = target.with_file_name(folder);
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let stage = directory.join(name);
        // The directory may be left over from a killed process.
        match fs::remove_dir_all(&stage) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(with_path(&stage, error));
            }
            _ => {}
        }
        let (folder, table) = (folder.to_owned(), String::new());
        Ok(ValueFiles {
            directory,
            folder,
            staging_directory: stage,
            is_staged: false,
            force,
            table,
            count: 0,
        })
    }

    /// Sets the table for subsequent values, by its file name.
    pub fn begin(&mut self, table: &str) {
        table.clone_into(&mut self.table);
    }

    /// Returns the number of values written.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Creates a file for the value at `place`.
    pub(crate) fn create(&mut self, place: ValueLocation<'_>) -> io::Result<ValueFile<'_>> {
        // A table may have both its own column and an inherited column with the same number.
        let id = place.column.column.id;
        let inherited = if id.is_inherited() { "t" } else { "" };
        let mut name = format!("{}-{}-{}-{inherited}{}", self.table, place.page.get(), place.row, id);
        if let Some(item) = place.item {
            name.push_str(&format!("-{item}"));
        }
        name.push_str(".bin");
        check_absent(&self.directory.join(&name), self.force)?;
        if !self.is_staged {
            create_private_directory(&self.staging_directory)
                .map_err(|error| with_path(&self.staging_directory, error))?;
            self.is_staged = true;
        }
        let path = self.staging_directory.join(&name);
        // A damaged record may contain a column twice. The last value wins.
        let file = OutputFile::create(&path).map_err(|error| with_path(&path, error))?;
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(ValueFile { writer, path, name, bytes: 0, finished: false, files: self })
    }

    /// Moves all files to the final directory. With [`OutputSync::EachFile`], their content is made durable first.
    pub(crate) fn publish(self, sync: OutputSync) -> io::Result<()> {
        let is_synced = sync == OutputSync::EachFile;
        if self.count > 0 {
            if is_synced {
                sync_file_system(&self.staging_directory)
                    .map_err(|error| with_path(&self.staging_directory, error))?;
            }
            for entry in fs::read_dir(&self.staging_directory)
                .map_err(|error| with_path(&self.staging_directory, error))?
            {
                let staged = entry.map_err(|error| with_path(&self.staging_directory, error))?;
                let target = self.directory.join(staged.file_name());
                fs::rename(staged.path(), &target).map_err(|error| with_path(&target, error))?;
            }
            if is_synced {
                sync_directory(&self.directory)?;
            }
        }
        Ok(())
    }
}

impl Drop for ValueFiles {
    fn drop(&mut self) {
        if self.is_staged {
            let _ = fs::remove_dir_all(&self.staging_directory);
            // Succeeds only if the directory is empty.
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// A value file that is being written. It is removed unless [`ValueFile::finish`] is called.
pub(crate) struct ValueFile<'f> {
    writer: BufWriter<OutputFile>,
    path: PathBuf,
    name: String,
    bytes: u64,
    finished: bool,
    files: &'f mut ValueFiles,
}

impl ValueFile<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.writer.write_all(bytes).map_err(|error| with_path(&self.path, error))
    }

    pub(crate) fn finish(mut self) -> io::Result<ValueFileRef> {
        self.writer.flush().map_err(|error| with_path(&self.path, error))?;
        self.finished = true;
        self.files.count += 1;
        Ok(ValueFileRef { path: format!("{}/{}", self.files.folder, self.name), bytes: self.bytes })
    }
}

impl Drop for ValueFile<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the part of value file names that identifies a table. A `_` is appended if the table's name ends in a
/// number, to separate it from the numbers that follow.
pub(crate) fn file_stem(file_name: &str) -> String {
    let number = file_name.rsplit_once('-').is_some_and(|(_, end)| end.bytes().all(|b| b.is_ascii_digit()));
    format!("{file_name}{}", if number { "_" } else { "" })
}
