//! The result of checking one file, of whatever format; the form that programs read.

use std::path::{Path, PathBuf};

use ese_format::PageNumber;
use ese_format::recognise::Format;
use jetcell_vfs::parent_directory;
use serde::{Serialize, Serializer};

use crate::finding::{Finding, FindingCounts, FindingKind, Severity};
use crate::findings::Findings;
use crate::logs::SegmentCounts;
use crate::page_status::PageCounts;
use crate::structure::StructureSummary;

/// The result of the check of one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// Nothing is wrong.
    Sound,
    /// There are findings with severity `warning` or `error`.
    Findings,
    /// The file could not be checked: it is no ESE file, or it cannot be read.
    Unreadable,
}

/// One checked file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// What it is.
    #[serde(serialize_with = "format_name")]
    pub format: Format,
    /// The state of the file, such as `DirtyShutdown`.
    pub state: Option<String>,
    /// Bytes per page of a database; of the databases of a log.
    pub page_size: Option<u32>,
    /// Format version as in the header.
    pub version: Option<String>,
    /// The pages of a database.
    pub pages: Option<PageSummary>,
    /// The segments of a log.
    pub segments: Option<SegmentCounts>,
    /// The number of a log.
    pub generation: Option<u32>,
    /// Where a checkpoint says that recovery begins, as generation, segment, offset.
    pub position: Option<String>,
    /// Databases that a log or checkpoint names: paths where they were used.
    pub databases: Vec<String>,
    /// The logs that a dirty database needs.
    pub needs_logs: Option<NeedsLogs>,
    /// What the trees hold, if the structure was verified.
    pub structure: Option<StructureSummary>,
    /// How many findings there are.
    pub counts: FindingCounts,
    /// The result. In JSON: `verdict`.
    #[serde(rename = "verdict")]
    pub outcome: CheckOutcome,
    /// First page that was not verified, if the check was cancelled.
    #[serde(serialize_with = "crate::finding::page_number")]
    pub resume_from: Option<PageNumber>,
    /// The check ended before it was complete.
    pub cancelled: bool,
    /// The file could be read, and is none of ESE.
    #[serde(skip)]
    pub foreign: bool,
    /// All findings; not part of the summary.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

fn format_name<S: Serializer>(format: &Format, serializer: S) -> Result<S::Ok, S::Error> {
    format.name().serialize(serializer)
}

/// Pages by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PageSummary {
    /// In the file.
    pub total: u64,
    /// Last page the database owns.
    pub owned: u64,
    /// First page that the check looked at.
    pub first: u64,
    /// Pages that the check read and judged.
    pub examined: u64,
    /// Checksum matches.
    pub good: u64,
    /// All zero, owned or not.
    pub zero: u64,
    /// Bad checksum, wrong number or unreadable.
    pub bad: u64,
    /// Of these, sound but written for another place.
    pub wrong_number: u64,
    /// Of these, those that the operating system could not read.
    pub unreadable: u64,
    /// Pages with a flipped bit that the checksum locates.
    pub repairable: u64,
    /// Pages of a temporary database, which have no checksums.
    pub unchecked: u64,
    /// Pages in the file after the last owned page. Their content has no meaning.
    pub beyond_owned: u64,
    /// Of these, all zero.
    pub beyond_owned_zero: u64,
    /// Owned, but the file is too short.
    pub missing: u64,
}

impl PageSummary {
    pub(crate) fn new(total: u32, owned: u32, first: u32, counts: &PageCounts) -> PageSummary {
        PageSummary {
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
            unchecked: counts.unchecked,
            beyond_owned: counts.beyond_owned,
            beyond_owned_zero: counts.beyond_owned_zero,
            missing: counts.missing,
        }
    }
}

/// The logs that a dirty database needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NeedsLogs {
    /// First generation.
    pub first: u32,
    /// Last generation without which the database cannot be made consistent.
    pub last: u32,
    /// Last generation that may hold committed changes.
    pub committed: u32,
    /// Files among the logs at hand that are of the stream and in the range.
    pub found: Vec<PathBuf>,
    /// Generations up to `last` that are missing or damaged; the first hundred.
    pub missing: Vec<u32>,
    /// Whether all needed logs were found and are sound.
    pub complete: bool,
    /// Whether any log of the stream was found.
    pub stream_is_here: bool,
}

impl NeedsLogs {
    /// The command that recovers the database, with its arguments; `LOGS` stands for the directory of logs that were not found.
    pub fn recovery(&self, database: &Path) -> String {
        // A recovery writes, so it does not read compressed files.
        if database.extension().is_some_and(|end| end.eq_ignore_ascii_case("zst")) {
            return "unpack the files with zstd -d, and give them to jetcell recover DATABASE LOGS --into recovered".into();
        }
        let database_shown = database.display();
        match self.found.first().map(|log| parent_directory(log)) {
            Some(logs) if logs == parent_directory(database) => {
                format!("jetcell recover {} --into recovered", logs.display())
            }
            Some(logs) => format!("jetcell recover {database_shown} {} --into recovered", logs.display()),
            None => format!("jetcell recover {database_shown} LOGS --into recovered"),
        }
    }
}

impl std::fmt::Display for NeedsLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last {
            write!(f, "generation {:X} (hexadecimal)", self.first)
        } else {
            write!(f, "generations {:X} to {:X} (hexadecimal)", self.first, self.last)
        }
    }
}

impl FileReport {
    /// A report without content.
    pub(crate) fn new(path: &Path, format: Format) -> FileReport {
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
            findings: Vec::new(),
        }
    }

    /// A file that could not be checked.
    pub(crate) fn unreadable(path: &Path, format: Format, why: String, mut findings: Findings) -> FileReport {
        findings.at(Severity::Error, FindingKind::FileUnreadable, None, why);
        let mut report = FileReport::new(path, format);
        report.take(findings);
        report.outcome = CheckOutcome::Unreadable;
        report
    }

    /// Takes over the findings when they are complete, and sets the result.
    pub(crate) fn take(&mut self, findings: Findings) {
        (self.findings, self.counts) = findings.finish();
        let wrong = self.counts.errors + self.counts.warnings > 0;
        self.outcome = if wrong { CheckOutcome::Findings } else { CheckOutcome::Sound };
    }
}
