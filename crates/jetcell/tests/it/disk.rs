//! `jetcell disk`: what is shown of drives and file systems, and what is refused.

use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::cell::Cell;

/// Whether the file system of the cells reports extents.
fn extents_known(cell: &Cell) -> bool {
    cell.write("probe", "text");
    cell.program(&["disk", "fragmentation", "probe"]).status().unwrap().success()
}

#[test]
fn databases_below_a_directory_are_shown_with_their_holes() {
    let cell = Cell::new();
    if !extents_known(&cell) {
        return;
    }
    cell.make_dir("run/inner");
    cell.write("run/inner/b.EDB", vec![7; 128 << 10]);
    cell.write("run/notes.txt", "no database");
    let sparse = std::fs::File::create(cell.path("run/a.dit")).unwrap();
    sparse.write_all_at(&[7; 64 << 10], 192 << 10).unwrap();
    let before = cell.listing();
    let output =
        cell.program(&["disk", "fragmentation", "--json", "--read", "64KiB", "run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = found["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["run/a.dit", "run/inner/b.EDB"]);
    assert_eq!(
        (&files[0]["bytes"], &files[0]["hole_bytes"]),
        (&Value::from(256 << 10), &Value::from(192 << 10))
    );
    assert_eq!((&files[1]["hole_bytes"], &files[1]["unwritten_bytes"]), (&Value::from(0), &Value::from(0)));
    for file in files {
        assert!(file["extents"].as_u64().unwrap() >= 1 && file["pieces"].as_u64().unwrap() >= 1, "{file}");
        assert_eq!(file["reads"][0]["read_bytes"], 64 << 10);
        assert_eq!(file["reads"][0]["reads"].as_u64().unwrap(), file["bytes"].as_u64().unwrap() / (64 << 10));
    }
    assert_eq!(cell.listing(), before);
    let output = cell.program(&["disk", "fragmentation", "run"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("run/a.dit: 192.00 KiB are holes"), "{text}");
    assert!(text.contains("Split reads of 32.00 KiB"), "{text}");
}

#[test]
fn what_has_no_extents_is_refused() {
    let cell = Cell::new();
    cell.make_dir("empty");
    let refused = |words: &[&str]| cell.program_refused(&[&["disk", "fragmentation"], words].concat());
    assert_eq!(refused(&["empty"]), "empty: no database (*.edb, *.dit) below it; give files");
    assert!(refused(&["none"]).starts_with("none cannot be read: "));
    assert!(refused(&["/dev/null"]).starts_with("/dev/null is not a file"));
    assert!(refused(&["empty", "--read", "0"]).contains("a read of no bytes"));
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = memory.path().join("a.edb");
    std::fs::write(&path, "text").unwrap();
    let path = path.to_str().unwrap();
    // A container may have a file system with extents there.
    if !cell.program(&["disk", "fragmentation", path]).status().unwrap().success() {
        assert!(refused(&[path]).contains("does not tell where a file is (FIEMAP)"));
    }
}
