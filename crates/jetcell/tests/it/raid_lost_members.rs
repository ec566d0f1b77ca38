//! Tests of arrays whose members shrank, were forgotten, or lost rows.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use jetcell_array::{Array, AssembleOptions, BLOCK};
use jetcell_vfs::{RealOptions, RealVfs};
use serde_json::Value;

use crate::cell::CellDirectory;

/// First block that is written. A start reads and repairs blocks 0 to 511, which may contain a catalogue of LUNs.
const FIRST: u64 = 768;
/// Number of blocks that are written.
const BLOCKS: u8 = 192;

/// Runs a command, checks its exit code, and returns its output.
#[track_caller]
fn ended(cell: &CellDirectory, code: i32, words: &[&str]) -> String {
    let output = cell.program(&[&["raid"], words].concat()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn status(cell: &CellDirectory, code: i32) -> Value {
    serde_json::from_str(&ended(cell, code, &["status", "a", "--json"])).unwrap()
}

fn create(cell: &CellDirectory, level: &str, members: &[&str]) {
    let words = ["create", "a", "--level", level, "--size", "16MiB", "--members"];
    ended(cell, 0, &[&words[..], members].concat());
}

fn assembled(cell: &CellDirectory, members: &[&str]) -> Array {
    let vfs = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    let members: Vec<PathBuf> = members.iter().map(|name| cell.path(name)).collect();
    Array::assemble(vfs, &members, AssembleOptions::default()).unwrap()
}

/// Writes blocks of the array, each with its own content.
fn write(cell: &CellDirectory, members: &[&str], version: u8) {
    let mut array = assembled(cell, members);
    let data: Vec<u8> = (0..BLOCKS).flat_map(|block| content(block, version)).collect();
    array.write(FIRST, &data).unwrap();
    array.close().unwrap();
}

fn content(block: u8, version: u8) -> Vec<u8> {
    [block + 1, version].repeat(BLOCK / 2)
}

/// Damages at most `count` blocks of a member: every other one of those that [`write`] has written. Returns their
/// first bytes in the array.
fn damage(cell: &CellDirectory, member: &str, version: u8, count: usize) -> Vec<u64> {
    let path = cell.path(member);
    let bytes = fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    // The last copy is not in the journal.
    let place_of = |number: u8| {
        let content = content(number, version);
        bytes.chunks_exact(BLOCK).rposition(|block| block == content)
    };
    let places = (0..BLOCKS).step_by(2).filter_map(|number| Some((number, place_of(number)?)));
    let damaged = places.take(count).map(|(number, place)| {
        file.write_all_at(&[0xFF; 9], (place * BLOCK + 7) as u64).unwrap();
        (FIRST + u64::from(number)) * BLOCK as u64
    });
    damaged.collect()
}

#[test]
fn a_shrunk_member_is_named_and_the_array_starts_without_it() {
    let cell = CellDirectory::new();
    create(&cell, "raid6", &["m1", "m2", "m3", "m4", "m5", "m6"]);
    OpenOptions::new().write(true).open(cell.path("m6")).unwrap().set_len(6 << 20).unwrap();
    let text = ended(&cell, 1, &["status", "a"]);
    assert!(text.contains("degraded: 1 of 6 slots"), "{text}");
    assert!(text.contains("m6: it has become too small: it has 6291456 bytes"), "{text}");
    ended(&cell, 0, &["scrub", "a"]);
    assert_eq!(status(&cell, 1)["missing"], 1);
    ended(&cell, 0, &["replace", "a", "5", "m7", "--size", "16MiB"]);
    assert_eq!(status(&cell, 0)["state"], "optimal");
}

#[test]
fn a_forgotten_member_is_found_at_its_old_path() {
    let cell = CellDirectory::new();
    create(&cell, "raid5", &["m1", "m2", "m3"]);
    let file = cell.path("a/array.toml");
    let listed = fs::read_to_string(&file).unwrap();
    let paths = ["m1", "m2", "m3"].map(|name| format!("{:?}", cell.path(name)));
    let id = listed.lines().find(|line| line.starts_with("id = ")).unwrap();
    // The list after two members dropped out, and the array stopped.
    let [first, second, third] = &paths;
    let forgotten = format!("{id}\nmembers = [{first}]\nformer = [{second}, {third}]\n");
    fs::write(&file, forgotten).unwrap();
    assert_eq!(status(&cell, 0)["state"], "optimal");
    ended(&cell, 0, &["scrub", "a"]);
    let listed = fs::read_to_string(&file).unwrap();
    assert!(
        !listed.contains("former") && paths.iter().all(|path| listed.contains(path.as_str())),
        "{listed}"
    );
    let events = fs::read_to_string(cell.path("a/events.jsonl")).unwrap();
    assert_eq!(events.matches("\"member_returned\"").count(), 2, "{events}");
    // A member that missed writes is remembered and not used.
    ended(&cell, 0, &["fail", "a", "m2"]);
    assert!(fs::read_to_string(&file).unwrap().contains("former"));
    assert_eq!(status(&cell, 1)["missing"], 1);
    assert!(status(&cell, 1)["slots"][1]["member"].is_null());
}

/// Returns the starts and the ends of the lost bytes.
fn lost_bytes(status: &Value) -> Vec<(u64, u64)> {
    let ranges = status["lost"].as_array().unwrap().iter();
    ranges.map(|range| (range["start"].as_u64().unwrap(), range["end"].as_u64().unwrap())).collect()
}

#[test]
fn lost_rows_are_shown_as_bytes_until_they_are_written_again() {
    let cell = CellDirectory::new();
    create(&cell, "raid5", &["m1", "m2", "m3", "m4"]);
    write(&cell, &["m1", "m2", "m3", "m4"], 1);
    let start = damage(&cell, "m2", 1, 1)[0];
    ended(&cell, 0, &["fail", "a", "m1"]);
    ended(&cell, 1, &["replace", "a", "0", "m5", "--size", "16MiB"]);

    let found = status(&cell, 1);
    assert_eq!(
        (&found["state"], &found["missing"], &found["lost_rows"]),
        (&"data_lost".into(), &0.into(), &1.into())
    );
    let lost = lost_bytes(&found);
    assert!(lost.contains(&(start, start + BLOCK as u64)), "{lost:?} {start}");
    let text = ended(&cell, 1, &["status", "a"]);
    assert!(text.contains("all members present, but data is lost"), "{text}");
    assert!(text.contains(&format!("bytes {start} to {}", start + BLOCK as u64 - 1)), "{text}");

    write(&cell, &["m5", "m2", "m3", "m4"], 2);
    let found = status(&cell, 0);
    assert_eq!((&found["state"], &found["lost_rows"]), (&"optimal".into(), &0.into()));
    ended(&cell, 0, &["scrub", "a"]);
}

#[test]
fn lost_bytes_that_the_text_does_not_list_are_counted() {
    let cell = CellDirectory::new();
    create(&cell, "raid5", &["m1", "m2", "m3", "m4"]);
    write(&cell, &["m1", "m2", "m3", "m4"], 1);
    let damaged = damage(&cell, "m2", 1, 30);
    ended(&cell, 0, &["fail", "a", "m1"]);
    ended(&cell, 1, &["replace", "a", "0", "m5", "--size", "16MiB"]);
    let found = status(&cell, 1);
    let lost = lost_bytes(&found);
    assert!(lost.len() > 20 && damaged.iter().all(|start| lost.iter().any(|range| range.0 == *start)));
    assert_eq!((&found["lost_rows_not_listed"], &found["lost_files"]), (&0.into(), &Value::Array(vec![])));
    let text = ended(&cell, 1, &["status", "a"]);
    assert_eq!(text.matches("\n    bytes ").count(), 20, "{text}");
    let others = format!("    and {} other ranges; --json shows them\n", lost.len() - 20);
    assert!(text.contains(&others), "{text}");

    let array = assembled(&cell, &["m5", "m2", "m3", "m4"]);
    let text = ended(&cell, 1, &["status", "a"]);
    assert!(text.contains("    the affected files are unknown: the array is in use\n"), "{text}");
    array.close().unwrap();
}
