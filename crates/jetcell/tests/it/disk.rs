//! Tests of `jetcell disk`: its output for drives and file systems, and the targets that it refuses.

use std::os::unix::fs::FileExt;
use testkit::{TestRequirement, skip};

use serde_json::Value;

use crate::cell::CellDirectory;

/// Returns true if the file system of the cells reports extents.
fn extents_known(cell: &CellDirectory) -> bool {
    cell.write("probe", "text");
    cell.program(&["disk", "fragmentation", "probe"]).status().unwrap().success()
}

#[test]
fn databases_under_a_directory_are_listed_with_holes() {
    let cell = CellDirectory::new();
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
fn a_file_system_without_extents_is_refused() {
    let cell = CellDirectory::new();
    cell.make_dir("empty");
    let refused = |words: &[&str]| cell.program_refused(&[&["disk", "fragmentation"], words].concat());
    assert_eq!(
        refused(&["empty"]),
        "empty: the directory contains no databases (*.edb, *.dit); specify database files"
    );
    assert!(refused(&["none"]).starts_with("failed to read none: "));
    assert!(refused(&["/dev/null"]).starts_with("/dev/null is not a file"));
    assert!(refused(&["empty", "--read", "0"]).contains("'0' is zero"));
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = memory.path().join("a.edb");
    std::fs::write(&path, "text").unwrap();
    let path = path.to_str().unwrap();
    // In a container, this path may be on a file system with extents.
    if !cell.program(&["disk", "fragmentation", path]).status().unwrap().success() {
        assert!(refused(&[path]).contains("does not report the location of files (FIEMAP)"));
    }
}

/// Options for a test of a directory with very short steps.
const QUICK: [&str; 8] = ["disk", "test", "--size", "16MiB", "--duration", "0.01", "--zones", "4"];

/// Returns true if files of the cells can bypass the kernel's cache.
fn direct(cell: &CellDirectory) -> bool {
    jetcell_vfs::direct_io_available(&cell.path("."))
}

fn quick(cell: &CellDirectory, words: &[&str]) -> std::process::Output {
    cell.program(&[&QUICK[..], words].concat()).output().unwrap()
}

#[test]
fn a_directory_test_leaves_no_files() {
    let cell = CellDirectory::new();
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
    let cell = CellDirectory::new();
    if !direct(&cell) {
        return;
    }
    let path = cell.write("a.bin", vec![7; 16 << 20]);
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let output = quick(&cell, &["a.bin", "a.bin", "--repeat", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Differences\n") && text.contains("a.bin (2)"), "{text}");
    assert!(text.contains("Transfer, read (MiB/s)") && !text.contains("write"), "{text}");
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn an_untestable_target_gives_one_line_and_leaves_no_files() {
    let cell = CellDirectory::new();
    cell.make_dir("data");
    cell.make_dir("taken/inside");
    cell.write("small", "text");
    let refused = |words: &[&str]| cell.program_refused(&[&["disk", "test"], words].concat());
    assert!(refused(&["none"]).starts_with("none does not exist; "));
    assert!(refused(&["/dev/null"]).contains("specify a directory, a file or a block device"));
    assert!(refused(&["small"]).starts_with("small: 4 B is too small for a test; use at least 16.00 MiB"));
    assert!(refused(&["small", "--write"]).contains("small exists; add --force to overwrite the whole file"));
    assert!(refused(&["data", "--time-limit", "0s"]).contains("'0s' is zero"));
    assert!(refused(&["data", "--watts", "3"]).contains("--power-scope"));
    assert!(refused(&["data", "--watts", "3", "--power-scope", "house"]).contains("is not a valid scope"));
    assert!(refused(&["data", "--force"]).contains("--write"));
    assert!(refused(&["data", "--size", "1MiB"]).contains("use at least 16.00 MiB"));
    assert!(refused(&["data", "--size", "4000TiB"]).contains("use a smaller --size"));
    assert!(refused(&["data", "--output", "taken"]).contains("is not empty"));
    assert!(refused(&["data", "--duration", "0"]).contains("is out of range; use a value from 10ms to "));
    assert!(refused(&["none", "data"]).starts_with("none does not exist; "));
}

#[test]
fn memory_and_file_systems_without_direct_io_are_refused() {
    let cell = CellDirectory::new();
    let refused = |path: &str| cell.program_refused(&["disk", "test", path, "--size", "16MiB"]);
    match tempfile::tempdir_in("/dev/shm") {
        Ok(memory)
            if jetcell_host::machine::Mount::containing(memory.path())
                .is_some_and(|mount| mount.is_in_memory()) =>
        {
            let said = refused(memory.path().to_str().unwrap());
            assert!(said.contains("is on tmpfs, which is memory, not storage"), "{said}");
        }
        _ => skip(TestRequirement::Kernel, "/dev/shm is not in memory"),
    }
    // An overlay on ramfs, which does not support direct I/O.
    let overlay = "mount -t ramfs none m && mkdir m/u m/w m/l && head -c 16777216 /dev/zero > m/u/a \
                   && mount -t overlay none -o lowerdir=m/l,upperdir=m/u,workdir=m/w o || exit 99; exec \"$0\" disk test o/a";
    cell.make_dir("m");
    cell.make_dir("o");
    let shell = ["--user", "--map-root-user", "--mount", "sh", "-c", overlay, env!("CARGO_BIN_EXE_jetcell")];
    let output = std::process::Command::new("unshare").args(shell).current_dir(cell.path("")).output();
    let output = match output {
        Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => output,
        skipped => return skip(TestRequirement::Root, format!("no mount namespace: {skipped:?}")),
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("o/a: the file system does not support direct I/O (O_DIRECT)"), "{said}");
}

#[test]
fn files_are_overwritten_only_with_write_and_force() {
    let cell = CellDirectory::new();
    if !direct(&cell) {
        return;
    }
    let before = vec![7; (16 << 20) + 5];
    let path = cell.write("old.bin", &before);
    let steps = ["--steps", "random_write_4k,random_read_4k,read_after_write", "--json"];
    let tested = |words: &[&str]| -> Value {
        let output = quick(&cell, &[words, &steps].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // A new file is created, written, and removed.
    let new = tested(&["new.bin", "--write"]);
    assert_eq!(
        (&new["targets"][0]["kind"], &new["targets"][0]["written"]),
        (&Value::from("new_file"), &Value::from(true))
    );
    assert_eq!(new["steps"].as_array().unwrap().len(), 3);
    assert!(!cell.path("new.bin").exists() && std::fs::read(&path).unwrap() == before);
    // An existing file is only read. With --write, it is refused.
    assert_eq!(tested(&["old.bin"])["targets"][0]["kind"], "file");
    cell.program_refused(&["disk", "test", "old.bin", "--write"]);
    assert!(std::fs::read(&path).unwrap() == before);
    let old = tested(&["old.bin", "--write", "--force"]);
    assert_eq!(old["targets"][0]["kind"], "overwritten_file");
    let after = std::fs::read(&path).unwrap();
    assert_eq!(after.len(), before.len(), "the file stays as long as it was");
    // The whole file was overwritten, except for the incomplete block at its end.
    let same = after.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 7)).count();
    assert_eq!((same, &after[16 << 20..]), (1, &[7; 5][..]));
}

#[test]
fn prices_power_and_preconditioning_are_in_every_format() {
    let cell = CellDirectory::new();
    if !direct(&cell) {
        return;
    }
    cell.make_dir("green");
    cell.make_dir("black");
    let costs =
        ["--price", "139", "--price", "249", "--watts", "4.5", "--watts", "8", "--power-scope", "server"];
    let money = ["--price-per-kwh", "0.2", "--currency", "EUR"];
    let more =
        ["--precondition", "--repeat", "1", "--steps", "random_read_4k,size_read_4k", "--output", "out"];
    let words = [&["green", "black"], &costs[..], &money, &more].concat();
    let output = quick(&cell, &words);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(cell.path("out").join(name)).unwrap();
    let (page, markdown) = (read("report.html"), read("report.md"));
    let result: Value = serde_json::from_str(&read("result.json")).unwrap();
    for form in [&text, &page, &markdown] {
        // 8 W correspond to 70.08 kWh a year.
        for said in [
            "Price (EUR)",
            "249.00",
            "server",
            "70.1",
            "14.02",
            "for the whole server",
            "rounds of random writes",
        ] {
            assert!(form.contains(said), "{said}: {form}");
        }
    }
    assert_eq!(result["options"]["costs"]["power_scope"], "server");
    for target in result["targets"].as_array().unwrap() {
        assert!(target["preconditioning"]["rounds"].as_array().unwrap().len() >= 5, "{target}");
    }
}

#[test]
fn a_test_has_a_maximum_duration() {
    let cell = CellDirectory::new();
    if !direct(&cell) {
        return;
    }
    cell.make_dir("data");
    let test = ["disk", "test", "data", "--size", "16MiB", "--zones", "4", "--time-limit", "1s", "--json"];
    let output = cell.program(&test).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| found[name].as_array().unwrap().len();
    assert!(count("steps") + count("left_out") > 50, "{found}");
    // Without the limit, the test would have more than 50 steps of 3 s.
    assert!(found["seconds"].as_f64().unwrap() < 60.0 && found["options"]["longest_seconds"] == 1.0);
}

#[test]
fn fragment_cost_is_predicted_from_a_drive_test() {
    let cell = CellDirectory::new();
    if !direct(&cell) || !extents_known(&cell) {
        return;
    }
    cell.make_dir("data");
    cell.write("a.edb", vec![7; 1 << 20]);
    let steps = ["--steps", "transfer_read,sequential_read_4k,seek_curve", "--repeat", "1"];
    let output = quick(&cell, &[&["data", "data", "--output", "drives"], &steps[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = ["disk", "fragmentation", "a.edb", "--drive-test", "drives"];
    assert!(cell.program_refused(&expected).contains("specify a target; available targets: data, data (2)"));
    let named = [&expected[..], &["--target", "data (2)", "--output", "out"]].concat();
    let output = cell.program(&named).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(cell.path("out").join(name)).unwrap();
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for form in [&one_line, &read("report.md"), &read("report.html")] {
        assert!(
            form.contains("on data (2): based on the measured seek times of the drive, a full scan"),
            "{form}"
        );
    }
    let found: Value = serde_json::from_str(&read("result.json")).unwrap();
    let cost = &found["expected"][0];
    assert_eq!((&cost["drive"], &cost["read_bytes"]), (&Value::from("data (2)"), &Value::from(32 << 10)));
    assert!(cost["scan_seconds"].as_f64() >= cost["contiguous_scan_seconds"].as_f64(), "{cost}");
    assert!(cost["contiguous_scan_seconds"].as_f64() > Some(0.0), "{cost}");
    let output = quick(&cell, &["data", "--steps", "sync", "--output", "less"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let refused = cell.program_refused(&["disk", "fragmentation", "a.edb", "--drive-test", "less"]);
    assert!(
        refused.starts_with("less: the test result does not contain the steps transfer_read"),
        "{refused}"
    );
}

#[test]
fn a_killed_test_leaves_no_files() {
    let cell = CellDirectory::new();
    if !direct(&cell) {
        return;
    }
    cell.make_dir("data");
    let words = ["disk", "test", "--size", "16MiB", "--duration", "60", "data"];
    let mut child = cell.program(&words).stderr(std::process::Stdio::null()).spawn().unwrap();
    // The file is open once the process has a descriptor for the unnamed file in the directory.
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
    // If the process was killed before the file lost its name, the next test removes the file.
    let left: Vec<_> =
        std::fs::read_dir(cell.path("data")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with(".jetcell-disk-test-")), "{left:?}");
    assert_eq!(quick(&cell, &["data"]).status.code(), Some(0));
    assert_eq!(std::fs::read_dir(cell.path("data")).unwrap().count(), 0);
}

#[test]
fn fragmentation_cost_is_measured() {
    let cell = CellDirectory::with_limits();
    if !extents_known(&cell) {
        return skip(TestRequirement::Kernel, "this file system reports no extents");
    }
    let words = [
        "disk",
        "experiment",
        "x",
        "--output",
        "out",
        "--size",
        "32MiB",
        "--duration",
        "1s",
        "--repeat",
        "2",
    ];
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
    let markdown = std::fs::read_to_string(cell.path("out/report.md")).unwrap();
    let answer = found["answer"].as_str().unwrap();
    assert!(answer.contains("transactional I/O") || answer.contains("is not conclusive"), "{answer}");
    let pieces_of = format!("reports {} and {} pieces for the contiguous", pieces(0), pieces(1));
    for form in [&page, &markdown] {
        for said in
            ["Should a database on this drive be defragmented?", answer, "in pieces of 64.00 KiB", &pieces_of]
        {
            assert!(form.contains(said), "{said}: {form}");
        }
    }
    // The report of a run lists the pieces before and after its load.
    let run = cell.program(&["report", "out/runs/scattered-1", "--format", "markdown"]).output().unwrap();
    let report = String::from_utf8(run.stdout).unwrap();
    let stored = std::fs::read(cell.path("out/runs/scattered-1/result.json")).unwrap();
    let change = serde_json::from_slice::<Value>(&stored).unwrap()["fragmentation"][0].clone();
    for when in ["before", "after"] {
        let count = change[when]["pieces"].as_u64().unwrap();
        assert!(count * 2 > pieces(1), "{when}: {count} of {}", pieces(1));
        let row = report.lines().find(|line| line.contains(&format!("| {when} |"))).unwrap_or(&report);
        assert!(row.replace(',', "").contains(&format!("| {count} |")), "{when}: {row}");
    }
    // The scattered database passes the check.
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
