//! Event files, with one JSON object per line. Each event is written immediately.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::OutputFile;
use serde::Serialize;

/// Name of the event file.
pub const EVENT_FILE: &str = "events.jsonl";

/// The event file in a directory. Clones refer to the same file.
#[derive(Clone)]
pub struct EventLines(Arc<Mutex<EventLinesState>>);

struct EventLinesState {
    file: OutputFile,
    /// Error that stopped writing, or `None` while writing still works.
    failed: Option<String>,
}

impl EventLines {
    /// Opens the event file in a directory, either to append to it or to overwrite it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn open(directory: &Path, append: bool) -> io::Result<EventLines> {
        let path = directory.join(EVENT_FILE);
        let mut file = if append { OutputFile::append(&path)? } else { OutputFile::create(&path)? };
        if append && has_incomplete_last_line(&path)? {
            file.write_all(b"\n")?;
        }
        Ok(EventLines(Arc::new(Mutex::new(EventLinesState { file, failed: None }))))
    }

    /// Appends a line. After a failure, further lines are dropped instead of stopping the work.
    pub fn add(&self, line: &impl Serialize) {
        let mut inner = self.0.lock();
        if inner.failed.is_some() {
            return;
        }
        let written = jetcell_input::json_line(line).map_err(io::Error::from).and_then(|mut line| {
            line.push('\n');
            inner.file.write_all(line.as_bytes())
        });
        inner.failed = written.err().map(|error| error.to_string());
    }

    /// Returns the reason why events are missing from the file, or `None` if the file is complete.
    pub fn failure(&self) -> Option<String> {
        self.0.lock().failed.clone()
    }
}

/// Returns true if the last line of the file is incomplete, for example because a process was killed while writing
/// it.
fn has_incomplete_last_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last != *b"\n")
}
