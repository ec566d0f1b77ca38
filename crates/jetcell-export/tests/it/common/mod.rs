//! Shared helpers of the export tests.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

pub type JsonRows = Vec<serde_json::Map<String, Json>>;

/// Returns the rows of each table in a directory of JSON Lines files, by file stem.
pub fn json_lines(output: &Path) -> BTreeMap<String, JsonRows> {
    let files = std::fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), rows)
        })
        .collect()
}
