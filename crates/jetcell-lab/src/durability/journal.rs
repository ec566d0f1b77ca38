//! The journal of a witness: JSON lines, one for each promise that the storage made.

use std::io::{self, BufRead};
use std::path::PathBuf;

use jetcell_workload::machine::Storage;
use jetcell_workload::measurement::Latencies;
use serde::{Deserialize, Serialize};

use super::operation::OperationNumber;

/// Version of the lines, and of the script that a seed stands for.
const SCHEMA: u32 = 2;

/// What the storage must survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The writer is killed. The kernel goes on, so every completed operation must be there, synced or not.
    Process,
    /// The machine is reset. The kernel's memory is gone, but drives keep their power and their caches.
    Reset,
    /// The power is cut, of the drives too.
    Power,
}

/// The first line: what the writer is going to do, and where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// Version of the journal.
    pub schema: u32,
    /// Decides about all operations.
    pub seed: u64,
    /// What the storage must survive.
    pub level: Level,
    /// Whether the engine takes part.
    pub transactions: bool,
    /// Whether a file can have several names there; the writer finds out.
    pub links: bool,
    /// The directory of the test.
    pub directory: PathBuf,
    /// Which start of the kernel this was (`boot_id`).
    pub boot: Option<String>,
    /// When the writer began.
    pub unix_ms: i64,
    /// File system and device under the directory.
    pub storage: Option<Storage>,
}

impl Begin {
    /// A first line of this version.
    pub fn new(seed: u64, level: Level, transactions: bool, directory: PathBuf) -> Begin {
        let (boot, unix_ms, storage) = (None, 0, None);
        let (schema, links) = (SCHEMA, true);
        Begin { schema, seed, level, transactions, links, directory, boot, unix_ms, storage }
    }
}

/// A line of the journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first one.
    Begin(Box<Begin>),
    /// All operations up to this one are complete.
    Complete {
        /// The last one.
        operation: OperationNumber,
        /// How long it took.
        us: u64,
        /// When it was complete.
        unix_ms: i64,
    },
    /// This operation failed, and nothing was done after it.
    Failed {
        /// The operation.
        operation: OperationNumber,
        /// What the system said.
        error: String,
    },
    /// The writer ended by itself.
    Ended,
}

impl Line {
    /// The line as it is stored.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("text and numbers can be written as JSON") + "\n"
    }

    /// The line that was stored.
    pub fn parse(text: &[u8]) -> Option<Line> {
        serde_json::from_slice(text).ok()
    }
}

/// What the first lines of all versions have.
#[derive(Deserialize)]
struct Version {
    begin: VersionOfBegin,
}

#[derive(Deserialize)]
struct VersionOfBegin {
    schema: u32,
}

impl Version {
    fn of(first: &[u8]) -> Option<u32> {
        serde_json::from_slice(first).ok().map(|found: Version| found.begin.schema)
    }
}

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JournalError {
    /// It has no first line.
    #[error(
        "this is no journal of a durability test, or its first line is missing; give the file that the witness wrote"
    )]
    NoBegin,
    /// Another version wrote it.
    #[error(
        "the journal has version {0}; this program verifies version {SCHEMA}: use the jetcell that wrote it"
    )]
    Version(u32),
    /// The system cannot read the file.
    #[error("the journal cannot be read: {0}; copy it to another device")]
    Read(io::ErrorKind),
    /// A line in the middle cannot be read.
    #[error(
        "line {0} of the journal is damaged, so the witness itself has lost something; repeat the test with another witness"
    )]
    Damaged(usize),
}

/// What a witness knows.
#[derive(Clone, Debug)]
pub struct Journal {
    /// The first line.
    pub begin: Box<Begin>,
    /// The last operation that was complete.
    pub last: OperationNumber,
    /// When that was.
    pub last_unix_ms: i64,
    /// Latencies of what promises durability.
    pub(super) latencies: Latencies,
    /// The error that ended the writer.
    pub failed: Option<(OperationNumber, String)>,
    /// Whether the writer ended by itself.
    pub ended: bool,
}

impl Journal {
    /// Reads a journal line by line. Its last line may be incomplete.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn read(mut input: impl BufRead) -> Result<Journal, JournalError> {
        let mut line = Vec::new();
        read_line(&mut input, &mut line)?;
        let version = Version::of(&line).ok_or(JournalError::NoBegin)?;
        if version != SCHEMA {
            return Err(JournalError::Version(version));
        }
        let Some(Line::Begin(begin)) = Line::parse(&line) else {
            return Err(JournalError::NoBegin);
        };
        let (last_unix_ms, last) = (begin.unix_ms, OperationNumber(0));
        let latencies = Latencies::default();
        let mut journal = Journal { begin, last, last_unix_ms, latencies, failed: None, ended: false };
        for number in 2.. {
            read_line(&mut input, &mut line)?;
            if line.is_empty() {
                break;
            }
            match Line::parse(&line) {
                Some(Line::Complete { operation, us, unix_ms }) if operation > journal.last => {
                    (journal.last, journal.last_unix_ms) = (operation, unix_ms);
                    journal.latencies.record(us);
                }
                Some(Line::Failed { operation, error }) => journal.failed = Some((operation, error)),
                Some(Line::Ended) => journal.ended = true,
                // The cut may have interrupted the witness as well. Only the last line has no line end.
                None if !line.ends_with(b"\n") && line.len() < MAX_LINE_BYTES => {}
                _ => return Err(JournalError::Damaged(number)),
            }
        }
        Ok(journal)
    }
}

/// Replaces `line` by the next line, which is empty at the end. A longer line is cut off, and is damaged therefore.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), JournalError> {
    line.clear();
    let read = io::Read::take(input, MAX_LINE_BYTES as u64).read_until(b'\n', line);
    read.map(drop).map_err(|error| JournalError::Read(error.kind()))
}
