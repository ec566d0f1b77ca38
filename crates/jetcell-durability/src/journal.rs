//! A witness's journal: JSON lines, one for each promise that the storage made.

use std::borrow::Cow;
use std::io::{self, BufRead};
use std::path::PathBuf;

use jetcell_host::machine::DirectoryStorage;
use jetcell_workload::measurement::LatencyHistogram;
use serde::{Deserialize, Serialize};

use super::operation::OperationNumber;

/// Version of both the journal format and the script that a seed generates.
const SCHEMA: u32 = 2;

/// The kind of failure that the storage must survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureLevel {
    /// The writer is killed. The kernel continues to run, so every completed operation must be present, even if it was
    /// never synced.
    Process,
    /// The machine is reset. The kernel's memory is lost, but the drives and their caches keep their power.
    Reset,
    /// The power is cut, including the power of the drives.
    Power,
}

/// The first line of a durability journal, with the tested directory and the parameters that determine the
/// operations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DurabilityJournalHeader {
    /// Version of the journal.
    pub schema: u32,
    /// Seed that determines all operations.
    pub seed: u64,
    /// Kind of failure that the storage must survive.
    pub level: FailureLevel,
    /// True if the script includes engine commits.
    pub transactions: bool,
    /// True if the file system supports hard links. The writer sets this field.
    pub links: bool,
    /// Directory in which the test runs.
    pub directory: PathBuf,
    /// The kernel's boot ID (`boot_id`).
    pub boot: Option<String>,
    /// Time at which the writer started, in milliseconds since 1970 UTC.
    pub unix_ms: i64,
    /// File system and device that store the directory.
    pub storage: Option<DirectoryStorage>,
}

impl DurabilityJournalHeader {
    /// Creates a first line with the current version.
    pub fn new(
        seed: u64,
        level: FailureLevel,
        transactions: bool,
        directory: PathBuf,
    ) -> DurabilityJournalHeader {
        let (boot, unix_ms, storage) = (None, 0, None);
        let (schema, links) = (SCHEMA, true);
        DurabilityJournalHeader {
            schema,
            seed,
            level,
            transactions,
            links,
            directory,
            boot,
            unix_ms,
            storage,
        }
    }
}

/// A line in a durability journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalLine {
    /// First line of the journal.
    Begin(Box<DurabilityJournalHeader>),
    /// All operations up to and including this one are complete.
    Complete {
        /// Last completed operation.
        operation: OperationNumber,
        /// Duration of the last operation in microseconds.
        us: u64,
        /// Completion time, in milliseconds since 1970 UTC.
        unix_ms: i64,
    },
    /// An operation failed, and none was started after it.
    Failed {
        /// Operation that failed.
        operation: OperationNumber,
        /// Error that the system returned.
        error: String,
    },
    /// The writer finished normally.
    Ended,
}

impl JournalLine {
    /// Serializes the line as it is stored.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("text and numbers can be written as JSON") + "\n"
    }

    /// Parses a stored line.
    pub fn parse(text: &[u8]) -> Option<JournalLine> {
        serde_json::from_slice(text).ok()
    }
}

/// Field common to the first lines of all versions.
#[derive(Deserialize)]
struct JournalVersion {
    begin: HeaderVersion,
}

#[derive(Deserialize)]
struct HeaderVersion {
    schema: u32,
}

impl JournalVersion {
    fn read_schema(first: &[u8]) -> Option<u32> {
        serde_json::from_slice(first).ok().map(|found: JournalVersion| found.begin.schema)
    }
}

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Reason why a durability journal cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JournalError {
    /// The first line is missing or invalid.
    #[error("the file is not a journal of a durability test, or its first line is missing")]
    NoBegin,
    /// The journal's version is not supported.
    #[error("the journal is version {0}, but this program verifies only version {SCHEMA}")]
    Version(u32),
    /// The system could not read the file.
    #[error("failed to read the journal: {0}")]
    Read(io::ErrorKind),
    /// A line other than the last cannot be parsed.
    #[error("line {0} of the journal is damaged, so the witness itself lost data")]
    Damaged(usize),
}

impl JournalError {
    /// Returns what the user can do about the error, for example `copy it to another device`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            JournalError::NoBegin => "specify the file that the witness wrote",
            JournalError::Version(_) => "use the version of jetcell that wrote it",
            JournalError::Read(_) => "copy it to another device",
            JournalError::Damaged(_) => "repeat the test with another witness",
        }))
    }
}

/// The contents of a durability journal.
#[derive(Clone, Debug)]
pub struct Journal {
    /// The first line.
    pub begin: Box<DurabilityJournalHeader>,
    /// Last completed operation.
    pub last: OperationNumber,
    /// Completion time of that operation, in milliseconds since 1970 UTC.
    pub last_unix_ms: i64,
    /// Latencies of operations that promise durability.
    pub(crate) latencies: LatencyHistogram,
    /// Operation that failed and stopped the writer, with its error.
    pub failed: Option<(OperationNumber, String)>,
    /// True if the writer finished normally.
    pub ended: bool,
}

impl Journal {
    /// Reads a journal line by line. The last line may be incomplete.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn read(mut input: impl BufRead) -> Result<Journal, JournalError> {
        let mut line = Vec::new();
        read_line(&mut input, &mut line)?;
        let version = JournalVersion::read_schema(&line).ok_or(JournalError::NoBegin)?;
        if version != SCHEMA {
            return Err(JournalError::Version(version));
        }
        let Some(JournalLine::Begin(begin)) = JournalLine::parse(&line) else {
            return Err(JournalError::NoBegin);
        };
        let (last_unix_ms, last) = (begin.unix_ms, OperationNumber(0));
        let latencies = LatencyHistogram::default();
        let mut journal = Journal { begin, last, last_unix_ms, latencies, failed: None, ended: false };
        for number in 2.. {
            read_line(&mut input, &mut line)?;
            if line.is_empty() {
                break;
            }
            match JournalLine::parse(&line) {
                Some(JournalLine::Complete { operation, us, unix_ms }) if operation > journal.last => {
                    (journal.last, journal.last_unix_ms) = (operation, unix_ms);
                    journal.latencies.record(us);
                }
                Some(JournalLine::Failed { operation, error }) => journal.failed = Some((operation, error)),
                Some(JournalLine::Ended) => journal.ended = true,
                // The witness may also have been interrupted by the cut. Only the last line may lack its line end.
                None if !line.ends_with(b"\n") && line.len() < MAX_LINE_BYTES => {}
                _ => return Err(JournalError::Damaged(number)),
            }
        }
        Ok(journal)
    }
}

/// Replaces `line` with the next line, or with an empty line at the end of the input. A line longer than
/// [`MAX_LINE_BYTES`] is truncated, and is therefore treated as damaged.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), JournalError> {
    line.clear();
    let read = io::Read::take(input, MAX_LINE_BYTES as u64).read_until(b'\n', line);
    read.map(drop).map_err(|error| JournalError::Read(error.kind()))
}
