//! Summary of the background checksum scan of a database, which corresponds to Jetstress's background database
//! maintenance. The engine performs the scan.

use std::path::PathBuf;

use ese_engine::internals::scan::ScanProgress;
use serde::{Deserialize, Serialize};

/// Maximum number of findings that are kept for each database. The first findings are enough to identify the problem.
const FINDINGS_KEPT: usize = 10;

/// Summary of the scan of one database, from attach to shutdown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanSummary {
    /// Path of the database file.
    pub database: PathBuf,
    /// Number of passes that reached the end of the file.
    pub passes: u64,
    /// Number of pages read in all passes.
    pub pages: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of pages that contain only zeros because they were never used.
    pub uninitialized: u64,
    /// Number of pages that appeared damaged while a write was in progress, and were read again.
    pub examined_again: u64,
    /// Number of pages with a wrong checksum or page number, with flipped bits, or with a read error. A page counts
    /// once per pass.
    pub bad: u64,
    /// Running time in seconds, including pauses. Zero in results of earlier versions.
    #[serde(default)]
    pub seconds: f64,
    /// Number of pages that were partially or completely overwritten because they contained deleted data.
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
            bad: progress.bad,
            zeroed: progress.zeroed,
            findings: progress.findings.iter().map(finding).take(FINDINGS_KEPT).collect(),
        }
    }

    /// Returns the number of pages zeroed per second. ESE: Pages Zeroed/sec.
    pub fn zeroed_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.zeroed as f64 / self.seconds } else { 0.0 }
    }
}
