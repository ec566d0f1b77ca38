//! Recovery result, as text and as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jetcell_report::{StyledText, Tone};
use serde::Serialize;

/// Result of a recovery.
#[derive(Default, Serialize)]
pub struct RecoveryReport {
    /// True if the report only lists what would be replayed, because no log was replayed.
    pub dry_run: bool,
    /// Directory that contains the recovered files.
    #[serde(serialize_with = "jetcell_input::serialize_optional_path")]
    pub directory: Option<PathBuf>,
    pub generations: ReplayedGenerations,
    /// Position up to which the log was replayed.
    pub position: Option<String>,
    /// Number of replayed records by type.
    pub records: BTreeMap<&'static str, u64>,
    pub pages: ReplayedPages,
    /// Number of transactions that were rolled back.
    pub undone: usize,
    /// Number of macros (changes to several pages) that are incomplete at the end of the log. None of their changes
    /// were replayed.
    pub incomplete_macros: usize,
    /// Logs that were not replayed because they were missing, damaged, or located after a gap.
    pub lost: Vec<LostGenerations>,
    pub databases: Vec<RecoveredDatabase>,
    /// Files that are not part of the stream.
    pub ignored: Vec<IgnoredFile>,
}

/// The range of log generations that a recovery replayed.
#[derive(Default, Serialize)]
pub struct ReplayedGenerations {
    pub first: u32,
    pub last: u32,
}

/// Numbers of pages that a recovery read, changed and wrote.
#[derive(Default, Serialize)]
pub struct ReplayedPages {
    pub read: u64,
    /// Number of changes that were missing from the pages.
    pub changes: u64,
    pub written: u64,
}

/// The range of log generations that a recovery lost, and the reason.
#[derive(Serialize)]
pub struct LostGenerations {
    pub first: u32,
    pub last: u32,
    pub why: String,
}

/// A recovered database, with its state before and after the recovery.
#[derive(Serialize)]
pub struct RecoveredDatabase {
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    pub before: String,
    pub after: String,
}

/// A file that a recovery ignored, and the reason.
#[derive(Serialize)]
pub struct IgnoredFile {
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    pub why: String,
}

impl RecoveryReport {
    /// Formats the report as text.
    pub fn text(&self) -> StyledText {
        let mut out = StyledText::new();
        let ReplayedGenerations { first, last } = self.generations;
        let verb = if self.dry_run { "would replay" } else { "replayed" };
        let upto = self.position.as_ref().map(|position| format!(", up to {position}")).unwrap_or_default();
        out.add_line(&format!("{verb} log generations {first:X} to {last:X} (hexadecimal){upto}"));
        if !self.dry_run {
            let all: u64 = self.records.values().sum();
            let mut types: Vec<_> = self.records.iter().collect();
            types.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
            let types: Vec<String> = types.iter().map(|(name, count)| format!("{name} {count}")).collect();
            out.add_line(&format!("records: {all} ({})", types.join(", ")));
            out.add_line(&format!(
                "pages: {} changes made, {} pages read, {} written",
                self.pages.changes, self.pages.read, self.pages.written
            ));
            out.add_line(&format!("transactions rolled back: {}", self.undone));
            if self.incomplete_macros > 0 {
                let count = self.incomplete_macros;
                out.add_line(&format!("macros truncated by the end of the log, not replayed: {count}"));
            }
        }
        for LostGenerations { first, last, why } in &self.lost {
            let range = if first == last { format!("{first:X}") } else { format!("{first:X} to {last:X}") };
            out.push("LOST", Tone::Bad);
            out.add_line(&format!(": log generations {range}: {why}"));
        }
        for IgnoredFile { path, why } in &self.ignored {
            out.add_line(&format!("ignored: {}: {why}", path.display()));
        }
        for RecoveredDatabase { path, before, after } in &self.databases {
            let state = if self.dry_run { before.clone() } else { format!("{before} -> {after}") };
            out.add_line(&format!("{}: {state}", path.display()));
        }
        out
    }
}
