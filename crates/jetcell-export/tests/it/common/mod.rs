//! What the tests of the export share.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

pub type Rows = Vec<serde_json::Map<String, Json>>;

/// File stem of each table and its rows, from a directory of JSON Lines.
pub fn json_lines(output: &Path) -> BTreeMap<String, Rows> {
    let files = std::fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), rows)
        })
        .collect()
}
