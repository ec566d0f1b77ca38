//! Result of a recovery.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// Result of a recovery.
#[derive(Debug, Default, Serialize)]
pub struct RecoveryReport {
    /// True if the report only lists what would be replayed, because no log was replayed.
    pub dry_run: bool,
    /// Directory that contains the recovered files.
    #[serde(serialize_with = "jetcell_input::serialize_optional_path")]
    pub directory: Option<PathBuf>,
    /// Generations that were replayed.
    pub generations: ReplayedGenerations,
    /// Position up to which the log was replayed.
    pub position: Option<String>,
    /// Number of replayed records by type.
    pub records: BTreeMap<&'static str, u64>,
    /// Pages that were read, changed and written.
    pub pages: ReplayedPages,
    /// Number of transactions that were rolled back.
    pub undone: usize,
    /// Number of macros (changes to several pages) that are incomplete at the end of the log. None of their changes
    /// were replayed.
    pub incomplete_macros: usize,
    /// Logs that were not replayed because they were missing, damaged, or located after a gap.
    pub lost: Vec<LostGenerations>,
    /// Databases of the stream.
    pub databases: Vec<RecoveredDatabase>,
    /// Files that are not part of the stream.
    pub ignored: Vec<IgnoredFile>,
    /// True if the ignored files include databases, or logs of another stream.
    #[serde(skip)]
    pub is_partial: bool,
}

/// The range of log generations that a recovery replayed.
#[derive(Debug, Default, Serialize)]
pub struct ReplayedGenerations {
    /// First generation.
    pub first: u32,
    /// Last generation.
    pub last: u32,
}

/// Numbers of pages that a recovery read, changed and wrote.
#[derive(Debug, Default, Serialize)]
pub struct ReplayedPages {
    /// Number of pages read.
    pub read: u64,
    /// Number of changes that were missing from the pages.
    pub changes: u64,
    /// Number of pages written.
    pub written: u64,
}

/// The range of log generations that a recovery lost, and the reason.
#[derive(Debug, Serialize)]
pub struct LostGenerations {
    /// First generation.
    pub first: u32,
    /// Last generation.
    pub last: u32,
    /// Reason.
    pub why: String,
}

/// A recovered database, with its state before and after the recovery.
#[derive(Debug, Serialize)]
pub struct RecoveredDatabase {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// State before the recovery.
    pub before: String,
    /// State after the recovery, or empty if no log was replayed.
    pub after: String,
}

/// A file that a recovery ignored, and the reason.
#[derive(Debug, Serialize)]
pub struct IgnoredFile {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Reason.
    pub why: String,
}
