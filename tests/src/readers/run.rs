//! Starts a reader and parses its output.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use testkit::{TestRequirement, skip};

use serde::Deserialize;

use super::expected::ExpectedColumn;

/// Time limit of one reader. impacket loops forever on a link past the end of the file.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// One of the independent readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndependentReader {
    /// libyal/libesedb, in C.
    Libesedb,
    /// fox-it/dissect.esedb.
    Dissect,
    /// fortra/impacket.
    Impacket,
}

impl IndependentReader {
    /// All readers.
    pub const ALL: [IndependentReader; 3] =
        [IndependentReader::Libesedb, IndependentReader::Dissect, IndependentReader::Impacket];

    /// Returns the name for messages and for the script.
    pub fn name(self) -> &'static str {
        match self {
            IndependentReader::Libesedb => "libesedb",
            IndependentReader::Dissect => "dissect",
            IndependentReader::Impacket => "impacket",
        }
    }
}

/// Reason why a reader could not read a file, or the differences between the file and the expected content.
#[derive(Debug)]
pub struct ReaderError(String);

impl std::fmt::Display for ReaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReaderError {}

impl From<String> for ReaderError {
    fn from(what: String) -> ReaderError {
        ReaderError(what)
    }
}

impl From<&str> for ReaderError {
    fn from(what: &str) -> ReaderError {
        ReaderError(what.to_owned())
    }
}

/// The installed readers.
pub struct InstalledReaders {
    python: PathBuf,
}

/// A table that a reader returned.
#[derive(Debug)]
pub struct ReadTable {
    /// Name of the table.
    pub name: String,
    /// Columns in the reader's order.
    pub columns: Vec<ExpectedColumn>,
    /// Number of rows that the reader returned.
    pub row_count: u64,
    /// Rows; empty if rows were only counted.
    pub rows: Vec<Vec<ReadCell>>,
}

/// A cell that a reader returned.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ReadCell {
    /// Bytes in hexadecimal.
    Hex(String),
    /// Multiple values.
    Multi(Vec<Option<String>>),
    /// The reader cannot show this kind of value.
    Unseen {
        /// Reason.
        unseen: String,
    },
    /// The reader failed on this cell.
    Error {
        /// Error message.
        error: String,
    },
    /// NULL.
    Null(()),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ReaderLine {
    Table { table: String, columns: Vec<(u32, String, u32)> },
    Row { row: Vec<ReadCell> },
    End { end: String, rows: u64 },
}

impl InstalledReaders {
    /// Returns the environment of the readers. Prints a message and returns `Ok(None)` if it is not installed and not
    /// required.
    pub fn locate() -> Result<Option<InstalledReaders>, ReaderError> {
        let environment = std::env::var_os("JETCELL_READERS_VENV").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/readers-venv")),
            PathBuf::from,
        );
        let python = environment.join("bin/python");
        if python.exists() {
            return Ok(Some(InstalledReaders { python }));
        }
        skip(
            TestRequirement::Readers,
            format!("none in {}; run scripts/setup-readers.sh", environment.display()),
        );
        Ok(None)
    }

    /// Returns all tables that `reader` finds in the file. Rows are included only if `with_rows` is true.
    pub fn read(
        &self,
        reader: IndependentReader,
        path: &Path,
        with_rows: bool,
    ) -> Result<Vec<ReadTable>, ReaderError> {
        let fail = |what: String| ReaderError(format!("{} on {}: {what}", reader.name(), path.display()));
        let mut command = Command::new(&self.python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/read_all.py")).arg(reader.name()).arg(path);
        if !with_rows {
            command.arg("--count");
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| fail(error.to_string()))?;
        let (stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
        let (sender, results) = mpsc::channel();
        std::thread::spawn(move || {
            let tables = stdout.ok_or("no output".into()).and_then(|out| parse(BufReader::new(out)));
            // The receiver is closed only after the time limit.
            let _ = sender.send(tables);
        });
        let complaints = std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(pipe) = stderr.as_mut() {
                let _ = pipe.read_to_string(&mut text);
            }
            text
        });
        let tables = results.recv_timeout(TIME_LIMIT).unwrap_or_else(|_| Err("took too long".into()));
        if tables.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| fail(error.to_string()))?;
        let complaints = complaints.join().unwrap_or_default();
        let tables = tables.map_err(|what| fail(format!("{what} {complaints}")))?;
        if status.success() { Ok(tables) } else { Err(fail(format!("{status} {complaints}"))) }
    }
}

fn parse(lines: impl BufRead) -> Result<Vec<ReadTable>, ReaderError> {
    let mut tables: Vec<ReadTable> = Vec::new();
    let mut open = false;
    for line in lines.lines() {
        let line = line.map_err(|error| error.to_string())?;
        match serde_json::from_str(&line).map_err(|error| format!("{error} in {line}"))? {
            ReaderLine::Table { table: name, columns } => {
                let columns =
                    columns.into_iter().map(|(id, name, kind)| ExpectedColumn { id, name, kind }).collect();
                tables.push(ReadTable { name, columns, row_count: 0, rows: Vec::new() });
                open = true;
            }
            ReaderLine::Row { row } => tables.last_mut().ok_or("row before its table")?.rows.push(row),
            ReaderLine::End { end, rows } => {
                let table =
                    tables.last_mut().filter(|table| open && table.name == end).ok_or("end without table")?;
                table.row_count = rows;
                open = false;
            }
        }
    }
    if open { Err("output stops inside a table".into()) } else { Ok(tables) }
}
