//! Progress of the page scan of a copy.

use std::path::Path;

use jetcell_copies::{CopyScanProgress, ScannedDatabase};
use jetcell_input::json_path;
use jetcell_vfs::Vfs;
use serde_json::{Value, json};

use super::format_time;

/// Returns the state of the page scan of a copy's databases. The state is empty if there has been no scan.
pub fn read_scan(vfs: &dyn Vfs, directory: &Path) -> CopyScanProgress {
    CopyScanProgress::read(vfs, directory).unwrap_or_default()
}

/// Returns the scan of each database as JSON.
pub fn scan_json(directory: &Path, scan: &CopyScanProgress) -> Vec<Value> {
    let database_json = |one: &ScannedDatabase| {
        json!({
            "path": json_path(&directory.join(&one.file)), "passes": one.passes, "invocations": one.invocations,
            "began_unix_ms": one.began_unix_ms, "ended_unix_ms": one.ended_unix_ms, "next_page": one.next,
            "pages": one.pages, "uninitialized": one.uninitialized, "corrected": one.corrected,
            "bad": one.bad, "bad_pages": one.bad_pages,
        })
    };
    scan.databases.iter().map(database_json).collect()
}

/// Returns the scan of each database as one line.
pub fn scan_lines(scan: &CopyScanProgress) -> Vec<String> {
    let line = |one: &ScannedDatabase| {
        let ScannedDatabase { file, bad, .. } = one;
        match (one.next, one.ended_unix_ms) {
            (Some(next), _) => format!("  scan: {file}; at page {next}, {bad} bad pages"),
            (None, Some(ended)) => {
                format!("  scan: {file}; {} pages read as of {}, {bad} bad", one.pages, format_time(ended))
            }
            (None, None) => format!("  scan: {file}; not started"),
        }
    };
    scan.databases.iter().map(line).collect()
}
