//! Values too long to be held in memory, each in a file of its own beside an output.
//!
//! They are collected in a directory aside, so that however many there are, none has to be remembered; they get their
//! names together with the output that refers to them, or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ese_format::PageNumber;

use crate::cell::Elsewhere;
use crate::output::{check_free, named, sync_directory};
use crate::table::TableColumn;

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 18;

/// Where in a table a value is, which is what its file is named after.
#[derive(Clone, Copy)]
pub(crate) struct Place<'c> {
    pub(crate) page: PageNumber,
    /// Row of the page.
    pub(crate) row: usize,
    pub(crate) column: &'c TableColumn,
    /// Which one of several values, from 1.
    pub(crate) item: Option<usize>,
}

/// The long values of one output.
#[derive(Debug)]
pub struct ValueFiles {
    /// The directory they go to in the end, and its name.
    directory: PathBuf,
    folder: String,
    /// The directory they are in until then; there once a value is.
    stage: PathBuf,
    staged: bool,
    force: bool,
    table: String,
    count: u64,
}

impl ValueFiles {
    /// For values of the output `target`: they will be in `folder` beside it, and replace what is there only if
    /// `force`.
    pub fn new(target: &Path, folder: &str, force: bool) -> io::Result<ValueFiles> {
        let directory = target.with_file_name(folder);
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let stage = directory.join(name);
        // What an earlier run left when it was killed.
        match fs::remove_dir_all(&stage) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(named(&stage, error));
            }
            _ => {}
        }
        let (folder, table) = (folder.to_owned(), String::new());
        Ok(ValueFiles { directory, folder, stage, staged: false, force, table, count: 0 })
    }

    /// Values from here on belong to the table of this file name.
    pub fn begin(&mut self, table: &str) {
        table.clone_into(&mut self.table);
    }

    /// How many values were written.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A file for the value at `place`.
    pub(crate) fn create(&mut self, place: Place<'_>) -> io::Result<ValueFile<'_>> {
        // A table may have a column and inherit another one of the same number.
        let inherited = if place.column.inherited { "t" } else { "" };
        let mut name = format!(
            "{}-{}-{}-{inherited}{}",
            self.table,
            place.page.get(),
            place.row,
            place.column.column.id.0
        );
        if let Some(item) = place.item {
            name.push_str(&format!("-{item}"));
        }
        name.push_str(".bin");
        check_free(&self.directory.join(&name), self.force)?;
        if !self.staged {
            fs::create_dir_all(&self.stage).map_err(|error| named(&self.stage, error))?;
            self.staged = true;
        }
        let path = self.stage.join(&name);
        // A damaged record may hold a column twice; the last one counts.
        let file = File::create(&path).map_err(|error| named(&path, error))?;
        let writer = BufWriter::with_capacity(BUFFER, file);
        Ok(ValueFile { writer, path, name, bytes: 0, finished: false, files: self })
    }

    /// Gives all of them their names; without it they are removed.
    pub fn publish(self) -> io::Result<()> {
        if self.count > 0 {
            for entry in fs::read_dir(&self.stage).map_err(|error| named(&self.stage, error))? {
                let staged = entry.map_err(|error| named(&self.stage, error))?;
                let target = self.directory.join(staged.file_name());
                fs::rename(staged.path(), &target).map_err(|error| named(&target, error))?;
            }
            sync_directory(&self.directory)?;
        }
        Ok(())
    }
}

impl Drop for ValueFiles {
    fn drop(&mut self) {
        if self.staged {
            let _ = fs::remove_dir_all(&self.stage);
            // Succeeds only if it is empty.
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// A value on its way into its file, which is removed unless [`ValueFile::finish`] is reached.
pub(crate) struct ValueFile<'f> {
    writer: BufWriter<File>,
    path: PathBuf,
    name: String,
    bytes: u64,
    finished: bool,
    files: &'f mut ValueFiles,
}

impl ValueFile<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.writer.write_all(bytes).map_err(|error| named(&self.path, error))
    }

    pub(crate) fn finish(mut self) -> io::Result<Elsewhere> {
        let durable = self.writer.flush().and_then(|()| self.writer.get_ref().sync_all());
        durable.map_err(|error| named(&self.path, error))?;
        self.finished = true;
        self.files.count += 1;
        Ok(Elsewhere { path: format!("{}/{}", self.files.folder, self.name), bytes: self.bytes })
    }
}

impl Drop for ValueFile<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The name of a table in the names of its values' files: one that ends in a number would run into those behind it.
pub(crate) fn stem(file_name: &str) -> String {
    let number = file_name.rsplit_once('-').is_some_and(|(_, end)| end.bytes().all(|b| b.is_ascii_digit()));
    format!("{file_name}{}", if number { "_" } else { "" })
}
