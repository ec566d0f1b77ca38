//! Tests with paths that are not UTF-8: JSON contains them with replacement characters, and no command is silent or ends
//! with a panic.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Output};

use serde_json::Value;
use testkit::samples;

use crate::cell::CellDirectory;
use crate::hostile_names::{MISSING, leaves};

/// A name that is not UTF-8, and the name in JSON.
const NAME: &[u8] = b"case-\xff";
const SHOWN: &str = "case-\u{fffd}";

/// Runs a command. Every `@` stands for the name.
fn run(cell: &CellDirectory, words: &[&str]) -> Output {
    let word = |word: &&str| -> OsString {
        let parts: Vec<&[u8]> = word.as_bytes().split(|byte| *byte == b'@').collect();
        OsString::from_vec(parts.join(NAME))
    };
    let words: Vec<OsString> = words.iter().map(word).collect();
    let mut command = Command::new("timeout");
    command.current_dir(cell.path("")).args(["60", env!("CARGO_BIN_EXE_jetcell")]).args(&words);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 100), "{words:?}: {:?} {stderr}", output.status);
    assert!(!stderr.contains("panicked"), "{words:?}: {stderr}");
    output
}

/// Runs a command whose result must name the path.
#[track_caller]
fn result(cell: &CellDirectory, words: &[&str]) -> Vec<Value> {
    let output = run(cell, words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() < Some(2), "{words:?}: {stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(SHOWN), "{words:?} does not name the path: {text:?} {stderr}");
    serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
}

fn utf8_free_directory(cell: &CellDirectory) -> std::path::PathBuf {
    let path = cell.path("").join(OsStr::from_bytes(NAME));
    fs::create_dir(&path).unwrap();
    path
}

#[test]
fn files_are_checked_and_dumped() {
    let cell = CellDirectory::new();
    let directory = utf8_free_directory(&cell);
    let mut damaged = samples::read("engine-4k.edb");
    // The root of the catalog.
    damaged[5 * 4096..6 * 4096].iter_mut().zip(0u32..).for_each(|(byte, n)| *byte = (n * n / 7) as u8);
    fs::write(directory.join("ok.edb"), samples::read("all-deleted.edb")).unwrap();
    fs::write(directory.join("damaged.edb"), damaged).unwrap();
    fs::write(directory.join("E00.log"), samples::read(samples::ENGINE_LOG)).unwrap();
    let lines = result(&cell, &["check", "--json", "@"]);
    let summaries: Vec<&Value> = lines.iter().filter(|line| line["type"] == "summary").collect();
    assert_eq!(summaries.len(), 3, "{lines:?}");
    assert!(lines.iter().any(|line| line["type"] == "finding" && line["severity"] == "error"), "{lines:?}");
    assert!(lines.iter().any(|line| line["type"] == "log-set"), "{lines:?}");
    result(&cell, &["check", "--json", "--structure", "@/damaged.edb"]);
    result(&cell, &["dump", "header", "--json", "@/ok.edb"]);
    result(&cell, &["dump", "header", "--json", "@/E00.log"]);
    result(&cell, &["dump", "log", "--json", "@/E00.log"]);
    let output = run(&cell, &["compare-files", "--json", "@/ok.edb", "@/ok.edb"]);
    assert!(output.status.success() && !output.stdout.is_empty(), "compare-files");
    let timeline = ["export", "@/ok.edb", "--timeline", "--format", "jsonl", "--output", "-"];
    assert!(run(&cell, &timeline).status.success(), "a time line");
    for kind in ["schema", "pages", "space"] {
        let output = run(&cell, &["dump", kind, "--json", "@/ok.edb"]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{kind}");
    }
    result(&cell, &["disk", "fragmentation", "--json", "@/ok.edb"]);
    result(&cell, &["doctor", "--json", "@"]);
}

/// The engine refuses databases with such paths, because a log cannot contain them. The commands say so.
#[test]
fn an_instance_and_its_backup_are_named() {
    let cell = CellDirectory::with_limits();
    cell.run("out", 0, &["--dir", "d", "--size", "32MiB", "--duration", "1s"]);
    let made =
        cell.program(&["backup", "--from", "d/log001", "--from", "d", "--to", "kept"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let directory = utf8_free_directory(&cell);
    for name in ["d", "kept"] {
        fs::rename(cell.path(name), directory.join(name)).unwrap();
    }
    result(&cell, &["check", "--json", "@/kept"]);
    let store = ["@/d/log001", "@/d/Jetstress001001.edb"];
    for words in [
        &["maintain", "--json", store[0], store[1]][..],
        &["backup", "--json", "--from", store[0], "--from", "@/d", "--to", "@/more"],
        &["restore", "--json", "@/kept", "--to", "@/restored"],
        &["recover", "--json", "--dry-run", store[0], store[1]],
        &["copies", "--json", store[0]],
    ] {
        let output = run(&cell, words);
        let text = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8(text).unwrap().contains(SHOWN), "{words:?} does not name the path");
    }
}

/// Commands that print JSON report a missing file that is not UTF-8 as they report any other missing file.
#[test]
fn missing_files_are_reported() {
    let cell = CellDirectory::new();
    let mut all = Vec::new();
    leaves(&cell, &[], &mut all);
    let json: Vec<&Vec<String>> = all
        .iter()
        .filter(|leaf| {
            let words: Vec<&str> = leaf.iter().map(String::as_str).collect();
            let help = cell.program(&[&words[..], &["--help"]].concat()).output().unwrap();
            String::from_utf8_lossy(&help.stdout).contains("--json")
        })
        .collect();
    assert!(json.len() > 25, "{json:?}");
    for leaf in json {
        let is_row = |row: &&&str| row.split(' ').take(leaf.len()).eq(leaf.iter().map(String::as_str));
        let row = MISSING.iter().find(is_row).unwrap_or_else(|| panic!("add a row for {leaf:?}"));
        let mut words: Vec<&str> = row.split(' ').collect();
        if !words.contains(&"--json") {
            words.insert(leaf.len(), "--json");
        }
        let output = run(&cell, &words);
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{words:?} is silent");
    }
}
