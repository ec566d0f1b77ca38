//! Helpers for tests: files in memory and dumps of these files.
#![allow(dead_code)]

use std::path::Path;

use jetcell_dump::{DumpOutput, DumpSource, Result};
use jetcell_vfs::SimVfs;
use serde_json::Value;
use testkit::corpus::Corpus;

/// Returns a file of the corpus. If there is no corpus, writes a message to the test log and returns `None`.
pub fn corpus_file(name: &str) -> Option<Vec<u8>> {
    Some(Corpus::locate()?.read(name))
}

/// Returns the entries of the manifest. Without a corpus, there are no entries.
pub fn manifest() -> Vec<Value> {
    let Some(corpus) = Corpus::locate() else { return Vec::new() };
    let text = std::fs::read_to_string(corpus.root().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    manifest["files"].as_array().unwrap().clone()
}

/// Runs a dump that must succeed. Returns its output as JSON lines, and the number of problems in it.
pub fn dump(
    bytes: &[u8],
    with: impl FnOnce(&DumpSource, &mut DumpOutput<'_>) -> Result<()>,
) -> (String, u64) {
    let (output, problems, result) = run(bytes, true, with);
    result.unwrap();
    (output, problems)
}

/// Runs a dump that must succeed. Returns its output as text.
pub fn text(bytes: &[u8], with: impl FnOnce(&DumpSource, &mut DumpOutput<'_>) -> Result<()>) -> String {
    let (output, _, result) = run(bytes, false, with);
    result.unwrap();
    output
}

/// Runs a dump that may fail.
pub fn run(
    bytes: &[u8],
    json: bool,
    with: impl FnOnce(&DumpSource, &mut DumpOutput<'_>) -> Result<()>,
) -> (String, u64, Result<()>) {
    let vfs = SimVfs::new();
    let path = Path::new("/file");
    vfs.put(path, bytes);
    let source = DumpSource::open(&vfs, path).unwrap();
    let mut out = Vec::new();
    let mut output = if json { DumpOutput::json(&mut out) } else { DumpOutput::text(&mut out) };
    let result = with(&source, &mut output);
    let problems = output.problems();
    (String::from_utf8(out).unwrap(), problems, result)
}

/// Parses JSON lines.
pub fn items(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
