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

/// A test of a directory with tiny steps.
const QUICK: [&str; 8] = ["disk", "test", "--size", "16MiB", "--seconds", "0.01", "--zones", "4"];

/// Whether files of the cells can bypass the kernel's cache.
fn direct(cell: &Cell) -> bool {
    jetcell_vfs::direct_io_available(&cell.path("."))
}

fn quick(cell: &Cell, words: &[&str]) -> std::process::Output {
    cell.program(&[&QUICK[..], words].concat()).output().unwrap()
}

#[test]
fn a_directory_is_tested_and_nothing_is_left_in_it() {
    let cell = Cell::new();
    if !direct(&cell) {
        return;
    }
    cell.make_dir("data");
    cell.write("data/.jetcell-disk-test-1", "leftover of a test that was killed");
    let output = quick(&cell, &["data", "--output", "result", "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(std::fs::read_dir(cell.path("data")).unwrap().count(), 0);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stored = std::fs::read(cell.path("result/result.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&stored).unwrap(), printed);
    assert_eq!(
        (&printed["schema"], &printed["targets"][0]["bytes"]),
        (&Value::from(1), &Value::from(16 << 20))
    );
    let steps = printed["steps"].as_array().unwrap();
    for group in [
        "transfer",
        "access_time",
        "four_kib",
        "by_size",
        "queue_depth",
        "burst",
        "read_after_write",
        "sync",
        "mixed",
    ] {
        assert!(steps.iter().any(|step| step["group"] == group), "{group}");
    }
    for step in steps {
        let figure = &step["figures"][0];
        let once = &figure["repetitions"][0];
        assert!(figure["mean"].as_f64().unwrap() > 0.0, "{}", step["name"]);
        assert!(once["operations"].as_u64().unwrap() > 0 && once["mismatches"] == 0, "{}", step["name"]);
    }
    let curve = steps.iter().find(|step| step["name"] == "transfer_read").unwrap();
    assert_eq!(curve["figures"][0]["repetitions"][0]["zones"].as_array().unwrap().len(), 4);
    let report = std::fs::read_to_string(cell.path("result/report.md")).unwrap();
    assert!(report.contains("## Figures\n"), "{report}");
    let page = std::fs::read_to_string(cell.path("result/report.html")).unwrap();
    assert!(page.contains("Random write by size") && page.matches("<svg").count() >= 8);
    let smallest = printed["smallest_transfer"].as_u64().unwrap();
    assert_eq!(printed["targets"][0]["smallest_transfer"], smallest);
    let sizes = steps.iter().filter(|step| step["name"].as_str().unwrap().starts_with("size_read"));
    assert_eq!(sizes.map(|step| step["size"].as_u64().unwrap()).min(), Some(smallest));
    assert!([512, 1024, 2048, 4096].contains(&smallest));
}

#[test]
fn targets_are_compared_and_a_file_is_only_read() {
    let cell = Cell::new();
    if !direct(&cell) {
        return;
    }
    let path = cell.write("a.bin", vec![7; 16 << 20]);
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let output = quick(&cell, &["a.bin", "a.bin", "--repetitions", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Differences\n") && text.contains("a.bin (2)"), "{text}");
    assert!(text.contains("Transfer, read (MiB/s)") && !text.contains("write"), "{text}");
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn what_cannot_be_tested_is_one_line_and_nothing_is_left() {
    let cell = Cell::new();
    cell.make_dir("data");
    cell.make_dir("taken/inside");
    cell.write("small", "text");
    let refused = |words: &[&str]| cell.program_refused(&[&["disk", "test"], words].concat());
    assert!(refused(&["none"]).starts_with("none does not exist; "));
    assert!(refused(&["/dev/null"]).contains("give a directory, a file or a block device"));
    assert!(refused(&["small"]).starts_with("small: 4 B is too little for a test; give 16.00 MiB or more"));
    assert!(refused(&["small", "--write"]).contains("only files that the test makes are written"));
    assert!(refused(&["data", "--size", "1MiB"]).contains("give 16.00 MiB or more"));
    assert!(refused(&["data", "--size", "4000TiB"]).contains("give a smaller --size"));
    assert!(refused(&["data", "--output", "taken"]).contains("is not empty"));
    assert!(refused(&["data", "--seconds", "0"]).contains("is no time of a step"));
    assert!(refused(&["none", "data"]).starts_with("none does not exist; "));
}

#[test]
fn a_test_that_is_killed_leaves_nothing() {
    let cell = Cell::new();
    if !direct(&cell) {
        return;
    }
    cell.make_dir("data");
    let words = ["disk", "test", "--size", "16MiB", "--seconds", "60", "data"];
    let mut child = cell.program(&words).stderr(std::process::Stdio::null()).spawn().unwrap();
    // The file is open once the process has a descriptor without a name in the directory.
    let descriptors = format!("/proc/{}/fd", child.id());
    let opened = || {
        let entries = std::fs::read_dir(&descriptors).ok()?;
        let mut links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.find(|link| link.to_string_lossy().contains(".jetcell-disk-test-")).map(drop)
    };
    while opened().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "the test ended early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Killed before the file had lost its name, which the next test removes, or after.
    let left: Vec<_> =
        std::fs::read_dir(cell.path("data")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with(".jetcell-disk-test-")), "{left:?}");
    assert_eq!(quick(&cell, &["data"]).status.code(), Some(0));
    assert_eq!(std::fs::read_dir(cell.path("data")).unwrap().count(), 0);
}

#[test]
fn what_fragmentation_costs_is_measured() {
    let cell = Cell::with_limits();
    if !extents_known(&cell) {
        return eprintln!("skipped: this file system reports no extents");
    }
    let words =
        ["disk", "experiment", "x", "--output", "out", "--size", "32MiB", "--duration", "1s", "--turns", "2"];
    let output = cell
        .program(&[&words[..], &["--config", "wide.toml", "--quiet", "--json"]].concat())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said, "", "--quiet has no progress");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pieces = |at: usize| found["files"][at]["pieces"].as_u64().unwrap();
    assert!(pieces(1) > 100 && pieces(0) * 4 < pieces(1), "{}", found["files"]);
    let rows = found["comparison"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16);
    for name in ["achieved_transactional_iops", "scan_mib_per_sec", "backup_mib_per_sec"] {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        assert!(row["means"][0].as_f64() > Some(0.0) && row["means"][1].as_f64() > Some(0.0), "{row}");
        assert!(row["differences"][1]["half_width"].is_f64(), "{row}");
    }
    let page = std::fs::read_to_string(cell.path("out/report.html")).unwrap();
    assert!(page.contains("Fragmentation of a database") && page.contains("Backup"), "{}", page.len());
    // The scattered database is the same: it is sound.
    let checked = cell.program(&["check", "x/scattered/Jetstress001001.edb"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    for (more, said) in [
        (&["x", "--output", "new"][..], "x"),
        (&["y", "--output", "out"], "out"),
        (&["y", "--output", "new", "--piece", "5000"], "multiple of 4KiB"),
        (&["y", "--output", "new", "--size", "1KiB"], "too small"),
    ] {
        let refused = cell.program_refused(&[&["disk", "experiment"], more].concat());
        assert!(refused.contains(said), "{more:?}: {refused}");
    }
}
