//! Result of a recovery.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use ese_engine::IgnoredReason;
use ese_format::header::{DatabaseHeader, DatabaseState};
use jetcell_input::serialize_display;
use serde::Serialize;

/// Result of a recovery.
#[derive(Debug, Default, Serialize)]
pub struct RecoveryReport {
    /// True if no log was replayed, and the report only lists the logs that a recovery would replay.
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
    /// True if the ignored files include databases, even missing ones, or logs of another stream.
    #[serde(skip)]
    pub is_partial: bool,
}

impl RecoveryReport {
    /// Returns true if no database exists after the recovery. Always false for a dry run.
    pub fn has_no_database(&self) -> bool {
        !self.dry_run && self.databases.is_empty()
    }

    /// Returns true if the recovery lost no logs, ignored no databases, and recovered at least one.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && !self.is_partial && !self.has_no_database()
    }
}

/// The range of log generations that a recovery replayed.
#[derive(Debug, Default, Serialize)]
pub struct ReplayedGenerations {
    /// First generation.
    pub first: u32,
    /// Last generation.
    pub last: u32,
}

/// Counts of the pages that a recovery read, changed and wrote.
#[derive(Debug, Default, Serialize)]
pub struct ReplayedPages {
    /// Number of pages read.
    pub read: u64,
    /// Number of changes that were missing from the pages and had to be replayed.
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
    /// Reason for the loss.
    #[serde(serialize_with = "serialize_display")]
    pub why: LossReason,
}

/// Reason why a recovery lost log generations.
#[derive(Debug, thiserror::Error)]
pub enum LossReason {
    /// The logs are missing.
    #[error("missing")]
    Missing,
    /// The first log is missing, and replay cannot continue after the gap.
    #[error("missing, or after a gap")]
    AfterGap,
    /// The first log is damaged.
    #[error(transparent)]
    Damaged(#[from] ese_engine::Error),
}

/// State of a database before or after a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryState {
    /// The database did not exist.
    Absent,
    /// No log was replayed.
    NotReplayed,
    /// State in the database header, with the first and last log generations that the database requires.
    Header(DatabaseState, u32, u32),
}

impl RecoveryState {
    /// Returns the state of a database with this header.
    pub(super) fn from_header(header: &DatabaseHeader) -> RecoveryState {
        RecoveryState::Header(header.state, header.gen_min_required.0, header.gen_max_required.0)
    }
}

impl fmt::Display for RecoveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryState::Absent => f.write_str("absent"),
            RecoveryState::NotReplayed => Ok(()),
            RecoveryState::Header(DatabaseState::CleanShutdown, ..) => f.write_str("clean"),
            RecoveryState::Header(DatabaseState::DirtyShutdown, first, last) => {
                write!(f, "dirty, needs generations {first:X} to {last:X}")
            }
            RecoveryState::Header(other, ..) => write!(f, "{other:?}"),
        }
    }
}

/// Phase of a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryPhase {
    /// A replay on an overlay, which leaves the files unchanged.
    Trial,
    /// The replay of a log: its generation, its number starting at 1, and the number of logs.
    Replay(u32, usize, usize),
}

impl fmt::Display for RecoveryPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryPhase::Trial => f.write_str("running a trial recovery without changes"),
            RecoveryPhase::Replay(generation, number, logs) => {
                write!(f, "replaying generation {generation:X} ({number} of {logs})")
            }
        }
    }
}

/// A recovered database, with its state before and after the recovery.
#[derive(Debug, Serialize)]
pub struct RecoveredDatabase {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// State before the recovery.
    #[serde(serialize_with = "serialize_display")]
    pub before: RecoveryState,
    /// State after the recovery.
    #[serde(serialize_with = "serialize_display")]
    pub after: RecoveryState,
}

/// A file that a recovery ignored, and the reason.
#[derive(Debug, Serialize)]
pub struct IgnoredFile {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Reason why the file was ignored.
    #[serde(serialize_with = "serialize_display")]
    pub why: IgnoredFileReason,
}

/// Reason why a recovery ignored a file.
#[derive(Debug, thiserror::Error)]
pub enum IgnoredFileReason {
    /// The file is not part of the stream.
    #[error(transparent)]
    NotInSet(#[from] IgnoredReason),
    /// The database is missing.
    #[error("the logs change this database, but it is not among the files")]
    MissingDatabase,
}
