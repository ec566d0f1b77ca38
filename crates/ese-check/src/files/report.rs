//! Result of checking one file of any format, in a form suitable for programs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_format::header::DatabaseState;
use ese_format::recognise::EseFileKind;
use ese_format::{PageNumber, RecoverCommand};
use jetcell_vfs::parent_directory;
use serde::{Serialize, Serializer};

use crate::files::logs::SegmentCounts;
use crate::findings::Findings;
use crate::findings::finding::{Finding, FindingCounts, FindingKind, Severity};
use crate::pages::page_status::PageCounts;
use crate::structure::StructureSummary;

/// Outcome of checking one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// No problems were found in the file.
    Sound,
    /// There are findings with severity `warning` or `error`.
    Findings,
    /// The file could not be checked, because it is not an ESE file or cannot be read.
    Unreadable,
}

/// State of a checked file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileState {
    /// Database, with the state stored in its header.
    Database(DatabaseState),
    /// Temporary database.
    Temporary,
    /// Flush map that was closed cleanly.
    CleanFlushMap,
    /// Flush map that was not closed cleanly.
    DirtyFlushMap,
    /// Log that ends with a torn write.
    TornLog,
    /// Log with damage.
    DamagedLog,
    /// Log without free segments.
    FullLog,
    /// Log with free segments.
    OpenLog,
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileState::Database(state) => return write!(f, "{state:?}"),
            FileState::Temporary => "Temporary",
            FileState::CleanFlushMap => "clean",
            FileState::DirtyFlushMap => "dirty",
            FileState::TornLog => "torn",
            FileState::DamagedLog => "damaged",
            FileState::FullLog => "full",
            FileState::OpenLog => "open",
        })
    }
}

fn state_text<S: Serializer>(state: &Option<FileState>, serializer: S) -> Result<S::Ok, S::Error> {
    state.map(|state| state.to_string()).serialize(serializer)
}

/// Report on one checked file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Format of the file.
    #[serde(serialize_with = "format_name")]
    pub format: EseFileKind,
    /// State of the file.
    #[serde(serialize_with = "state_text")]
    pub state: Option<FileState>,
    /// Page size in bytes of the database or, for a log, of the databases to which it belongs.
    pub page_size: Option<u32>,
    /// Format version from the header.
    pub version: Option<String>,
    /// Number of database pages in each state.
    pub pages: Option<PageStateCounts>,
    /// Number of log segments of each kind.
    pub segments: Option<SegmentCounts>,
    /// Generation of a log.
    pub generation: Option<u32>,
    /// Position at which recovery starts according to the checkpoint, as generation, segment, and offset.
    pub position: Option<String>,
    /// Databases named in a log or checkpoint, as paths on the computer where they were used.
    pub databases: Vec<String>,
    /// Logs that a dirty database needs.
    pub needs_logs: Option<RequiredLogs>,
    /// Contents of the trees, if the structure was verified.
    pub structure: Option<StructureSummary>,
    /// Number of findings by severity.
    pub counts: FindingCounts,
    /// Outcome of the check. JSON name: `verdict`.
    #[serde(rename = "verdict")]
    pub outcome: CheckOutcome,
    /// First page that was not verified, if the check was cancelled.
    #[serde(serialize_with = "crate::findings::finding::page_number")]
    pub resume_from: Option<PageNumber>,
    /// Whether the check was cancelled before it was complete.
    pub cancelled: bool,
    /// Whether the file is readable but not an ESE file.
    #[serde(skip)]
    pub foreign: bool,
    /// Error from the operating system, if the file cannot be opened or its start cannot be read.
    #[serde(skip)]
    pub io_error: Option<Arc<io::Error>>,
    /// All findings, which are not part of the summary.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

fn format_name<S: Serializer>(format: &EseFileKind, serializer: S) -> Result<S::Ok, S::Error> {
    format.name().serialize(serializer)
}

/// Page counts by state, and the pages that the check covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PageStateCounts {
    /// Number of pages in the file.
    pub total: u64,
    /// Last page that the database owns.
    pub owned: u64,
    /// First page that was checked.
    pub first: u64,
    /// Number of pages that were read and checked.
    pub examined: u64,
    /// Number of pages with a matching checksum.
    pub good: u64,
    /// Number of pages that are all zero, whether or not they are owned.
    pub zero: u64,
    /// Number of pages that have a bad checksum or a wrong number, or that are unreadable.
    pub bad: u64,
    /// Number of pages in `bad` that are sound but were written for another location.
    pub wrong_number: u64,
    /// Number of pages in `bad` that the operating system could not read.
    pub unreadable: u64,
    /// Number of pages with a flipped bit that the checksum locates.
    pub repairable: u64,
    /// Number of available pages that contain leftover bytes, which have no meaning.
    pub leftover: u64,
    /// Number of pages in a temporary database, which have no checksums.
    pub unchecked: u64,
    /// Number of pages in the file after the last owned page. Their contents have no meaning.
    pub beyond_owned: u64,
    /// Number of pages in `beyond_owned` that are all zero.
    pub beyond_owned_zero: u64,
    /// Number of owned pages that are beyond the end of the file.
    pub missing: u64,
}

impl PageStateCounts {
    pub(crate) fn new(total: u32, owned: u32, first: u32, counts: &PageCounts) -> PageStateCounts {
        PageStateCounts {
            total: total.into(),
            owned: owned.into(),
            first: first.into(),
            examined: counts.examined() + counts.unchecked,
            good: counts.good,
            zero: counts.zero,
            bad: counts.bad + counts.wrong_page + counts.unreadable,
            wrong_number: counts.wrong_page,
            unreadable: counts.unreadable,
            repairable: counts.repairable,
            leftover: counts.leftover,
            unchecked: counts.unchecked,
            beyond_owned: counts.beyond_owned,
            beyond_owned_zero: counts.beyond_owned_zero,
            missing: counts.missing,
        }
    }
}

/// The logs that a dirty database needs for recovery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RequiredLogs {
    /// First generation that is needed.
    pub first: u32,
    /// Last generation that is required to make the database consistent.
    pub last: u32,
    /// Last generation that may contain committed changes.
    pub committed: u32,
    /// Paths of the stream's available logs that have generations in this range.
    #[serde(serialize_with = "jetcell_input::serialize_paths")]
    pub found: Vec<PathBuf>,
    /// Generations up to `last` that are missing or damaged. At most 100 are listed.
    pub missing: Vec<u32>,
    /// Whether all needed logs were found and are sound.
    pub complete: bool,
    /// Whether any log of the stream was found.
    pub stream_is_here: bool,
}

impl RequiredLogs {
    /// Returns the command line that recovers the database. If no logs were found, `LOGS` stands for their directory.
    pub fn recovery(&self, database: &Path) -> String {
        // Recovery writes files, so it does not accept compressed files.
        let unpack = |(end, command): &(&str, &'static str)| {
            database.extension().is_some_and(|found| found.eq_ignore_ascii_case(end)).then_some(*command)
        };
        if let Some(command) = [("zst", "zstd -d"), ("gz", "gunzip")].iter().find_map(unpack) {
            return format!("decompress the files with {command}, then run {}", RecoverCommand::default());
        }
        let logs = self.found.first().map(|log| parent_directory(log));
        let database = Some(database).filter(|database| logs != Some(parent_directory(database)));
        RecoverCommand { database, logs }.to_string()
    }
}

impl std::fmt::Display for RequiredLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last {
            write!(f, "generation {:X} (hexadecimal)", self.first)
        } else {
            write!(f, "generations {:X} to {:X} (hexadecimal)", self.first, self.last)
        }
    }
}

impl FileReport {
    /// Creates an empty report.
    pub(crate) fn new(path: &Path, format: EseFileKind) -> FileReport {
        FileReport {
            path: path.to_owned(),
            format,
            state: None,
            page_size: None,
            version: None,
            pages: None,
            segments: None,
            generation: None,
            position: None,
            databases: Vec::new(),
            needs_logs: None,
            structure: None,
            counts: FindingCounts::default(),
            outcome: CheckOutcome::Sound,
            resume_from: None,
            cancelled: false,
            foreign: false,
            io_error: None,
            findings: Vec::new(),
        }
    }

    /// Creates a report on a file that could not be checked.
    pub(crate) fn unreadable(
        path: &Path,
        format: EseFileKind,
        why: String,
        mut findings: Findings,
    ) -> FileReport {
        findings.add_at_offset(Severity::Error, FindingKind::FileUnreadable, None, why);
        let mut report = FileReport::new(path, format);
        report.set_findings(findings);
        report.outcome = CheckOutcome::Unreadable;
        report
    }

    /// Stores the final findings and sets the outcome.
    pub(crate) fn set_findings(&mut self, findings: Findings) {
        (self.findings, self.counts) = findings.finish();
        let wrong = self.counts.errors + self.counts.warnings > 0;
        self.outcome = if wrong { CheckOutcome::Findings } else { CheckOutcome::Sound };
    }
}
