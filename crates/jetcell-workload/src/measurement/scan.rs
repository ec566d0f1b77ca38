//! The background checksum scan of a run: one per database, beside the load, as Jetstress's background database
//! maintenance does it. The engine scans ([`ese_engine::scan`]); this is what a result says about it.

use std::path::PathBuf;

use ese_engine::scan::ScanProgress;
use serde::{Deserialize, Serialize};

/// Findings that a result keeps of each database; the first ones tell what is wrong.
const FINDINGS_KEPT: usize = 10;

/// What the scan of one database has seen, from attaching to shutting down.
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
    /// Pages that were all zeros: not in use yet.
    pub uninitialized: u64,
    /// Pages that looked wrong and were read again, because a write was in progress.
    pub examined_again: u64,
    /// Pages with a wrong checksum or number, with flipped bits, or that could not be read; once per pass.
    pub bad: u64,
    /// The first of them, one line each.
    pub findings: Vec<String>,
}

impl ScanSummary {
    /// Of a scan that the engine did.
    pub fn new(database: PathBuf, progress: &ScanProgress) -> ScanSummary {
        let finding = |(page, flaw)| format!("page {page}: {flaw}");
        ScanSummary {
            database,
            passes: progress.passes,
            pages: progress.pages,
            bytes: progress.bytes,
            uninitialized: progress.uninitialized,
            examined_again: progress.examined_again,
            bad: progress.bad,
            findings: progress.findings.iter().map(finding).take(FINDINGS_KEPT).collect(),
        }
    }
}
