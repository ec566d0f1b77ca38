//! The background checksum scan of a database, as in Jetstress's background database maintenance. The engine scans; this
//! file has the summary for a result.

use std::path::PathBuf;

use ese_engine::internals::scan::ScanProgress;
use serde::{Deserialize, Serialize};

/// Findings that are kept for each database. The first ones show what is wrong.
const FINDINGS_KEPT: usize = 10;

/// Summary of the scan of one database, from attach to shutdown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanSummary {
    /// Database file.
    pub database: PathBuf,
    /// Passes that reached the end of the file.
    pub passes: u64,
    /// Pages read, in all passes.
    pub pages: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Pages that contain only zeros, because they were never used.
    pub uninitialized: u64,
    /// Pages that looked wrong while a write was in progress, and were read again.
    pub examined_again: u64,
    /// Pages with a wrong checksum or number, with flipped bits, or that could not be read; once per pass.
    pub bad: u64,
    /// Time at work, pauses included, in seconds; zero in results of earlier versions.
    #[serde(default)]
    pub seconds: f64,
    /// Pages that were overwritten in part or whole, because of deleted data.
    #[serde(default)]
    pub zeroed: u64,
    /// The first findings, one line each.
    pub findings: Vec<String>,
}

impl ScanSummary {
    /// The summary of a scan of the engine that was at work for `seconds`.
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

    /// Pages Zeroed/sec.
    pub fn zeroed_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.zeroed as f64 / self.seconds } else { 0.0 }
    }
}
