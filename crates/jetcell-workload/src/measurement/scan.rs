//! Summary of a database's background checksum scan, which corresponds to Jetstress's background database
//! maintenance. The engine performs the scan.

use std::path::PathBuf;

use ese_engine::ScanProgress;
use serde::{Deserialize, Serialize};

/// Maximum number of findings kept for each database. The first ones are enough to identify the problem.
const MAX_FINDINGS: usize = 10;

/// Summary of one database's scan, from attach to shutdown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanSummary {
    /// Path of the database file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub database: PathBuf,
    /// Number of passes that reached the end of the file.
    pub passes: u64,
    /// Number of pages read, over all passes.
    pub pages: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of pages that contain only zeros because they were never used.
    pub uninitialized: u64,
    /// Number of pages that were read again because they appeared damaged while a write was in progress.
    pub examined_again: u64,
    /// Number of pages with a wrong checksum or page number, or a read error. A page is counted once per pass.
    /// Results written by earlier versions include the pages with flipped bits.
    pub bad: u64,
    /// Number of pages with flipped bits, which were corrected.
    #[serde(default)]
    pub corrected: u64,
    /// Running time in seconds, including pauses. Zero in results written by earlier versions.
    #[serde(default)]
    pub seconds: f64,
    /// Number of pages that were partly or fully overwritten because they contained deleted data.
    #[serde(default)]
    pub zeroed: u64,
    /// First findings, one line each.
    pub findings: Vec<String>,
}

impl ScanSummary {
    /// Creates the summary of a scan that ran for `seconds`.
    pub fn new(database: PathBuf, seconds: f64, progress: &ScanProgress) -> ScanSummary {
        let finding = |(page, flaw)| format!("page {page}: {flaw}");
        ScanSummary {
            database,
            seconds,
            passes: progress.passes,
            pages: progress.pages,
            bytes: progress.bytes,
            uninitialized: progress.uninitialized,
            examined_again: progress.examined_again,
            bad: progress.bad.saturating_sub(progress.corrected),
            corrected: progress.corrected,
            zeroed: progress.zeroed,
            findings: progress.findings.iter().map(finding).take(MAX_FINDINGS).collect(),
        }
    }

    /// Returns the number of pages zeroed per second. ESE: Pages Zeroed/sec.
    pub fn zeroed_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.zeroed as f64 / self.seconds } else { 0.0 }
    }
}
