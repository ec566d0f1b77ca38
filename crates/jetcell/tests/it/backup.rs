//! Tests of `jetcell backup`, `restore` and `check` of backups, on a dirty database of Windows with its logs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use ese_format::header::DatabaseState;
use serde_json::Value;
use testkit::corpus::Corpus;
use testkit::{TestRequirement, skip};

use crate::cell::CellDirectory;
use crate::copies::grow;
use crate::recover::{checked, dirty_set, header, scramble};

/// Runs the command. Returns its exit code and its output.
fn run(cell: &CellDirectory, words: &[&str]) -> (i32, String) {
    let output = cell.program(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// Creates a cell with the set in `dirty` and its backup in `backup`.
fn backed_up() -> Option<CellDirectory> {
    let corpus = Corpus::locate()?;
    let cell = CellDirectory::new();
    dirty_set(&cell, &corpus);
    let (code, text) = run(&cell, &["backup", "--from", "dirty", "--to", "backup"]);
    assert_eq!(code, 0, "{text}");
    Some(cell)
}

#[test]
fn a_backup_is_complete_and_restores_clean() {
    let Some(cell) = backed_up() else { return };
    let source = fs::read(cell.path("dirty/SRUDB.dat")).unwrap();
    assert!(!cell.path("backup/manifest.partial.json").exists());
    let (code, text) = run(&cell, &["check", "backup"]);
    assert!(code == 0 && text.contains("verified: good"), "{text}");
    let (code, text) = run(&cell, &["check", "--unverified", "--json", "backup"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && report["bytes"] == 0 && report["total_bytes"].as_u64() > Some(1 << 20), "{text}");
    let (code, text) = run(&cell, &["check", "--subset", "50%", "backup"]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = run(&cell, &["restore", "backup", "--to", "restored"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(header(&cell.path("restored/SRUDB.dat")).state, DatabaseState::CleanShutdown);
    checked(&cell, "restored");
    assert!(fs::read(cell.path("dirty/SRUDB.dat")).unwrap() == source);
    // The header must record the backup. Otherwise an instance could not detect that the pages need these logs.
    let copy = header(&cell.path("backup/SRUDB.dat"));
    assert!(copy.current_full_backup.gen_low.0 > 0);
    assert_eq!(header(&cell.path("restored/SRUDB.dat")).current_full_backup, Default::default());
    // A restore over the old files reuses those that are already correct.
    let (code, text) = run(&cell, &["restore", "backup", "--to", "restored", "--force", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && report["databases"][0] == "restored/SRUDB.dat", "{text}");
    checked(&cell, "restored");
}

#[test]
fn repeated_backups_and_restores_report_completion() {
    let Some(cell) = backed_up() else { return };
    let (code, text) = run(&cell, &["backup", "--from", "dirty", "--to", "backup"]);
    assert!(
        code == 0 && text.contains("already completed at") && text.contains("a different directory"),
        "{text}"
    );
    let (code, text) = run(&cell, &["backup", "--from", "dirty", "--to", "backup", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && report["already"] == true && report["copied_bytes"] == 0, "{text}");
    let text = cell.program_refused(&["backup", "--from", "dirty", "--to", "backup", "--copy"]);
    assert!(text.contains("already contains a complete backup (full, made at"), "{text}");

    let restore = ["restore", "backup", "--to", "restored"];
    let (code, text) = run(&cell, &restore);
    assert!(code == 0 && !text.contains("already restored"), "{text}");
    let (code, text) = run(&cell, &restore);
    assert!(code == 0 && text.contains("was already restored from these backups at"), "{text}");
    let (code, text) = run(&cell, &["restore", "backup", "--to", "restored", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && report["already_unix_ms"].is_i64(), "{text}");
    let text = cell.program_refused(&["restore", "backup", "--to", "restored", "--until", "5A"]);
    assert!(text.contains("-504") || text.contains("-553"), "{text}");
    checked(&cell, "restored");
    fs::remove_file(cell.path("restored/SRUDB.dat")).unwrap();
    let text = cell.program_refused(&restore);
    assert!(text.contains("SRUDB.dat was used or removed after") && text.contains("-504"), "{text}");
}

#[test]
fn the_exit_code_reflects_the_last_good_backup_age() {
    let Some(cell) = backed_up() else { return };
    assert_eq!(run(&cell, &["backup", "--age", ".", "--max-age", "1h"]).0, 0);
    assert_eq!(run(&cell, &["backup", "--age", "backup"]).0, 0);
    let (code, text) = run(&cell, &["backup", "--age", ".", "--max-age", "0s", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 1 && report["in_time"] == false && report["kind"] == "full", "{text}");
    assert_eq!(run(&cell, &["backup", "--age", "dirty"]).0, 1);
}

/// The superuser can read every directory, so the program runs as another user in that case.
#[test]
fn a_closed_lost_and_found_is_not_a_backup() {
    let Some(cell) = backed_up() else { return };
    let rights = |name: &str, mode: u32| {
        fs::set_permissions(cell.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    rights("", 0o755);
    fs::create_dir(cell.path("volume")).unwrap();
    fs::rename(cell.path("backup"), cell.path("volume/backup")).unwrap();
    cell.make_dir("volume/lost+found");
    let chmod = Command::new("chmod").args(["-R", "a+rX"]).arg(cell.path("volume")).status();
    assert!(chmod.unwrap().success());
    rights("volume/lost+found", 0);
    cell.make_dir("volume/other");
    let program = env!("CARGO_BIN_EXE_jetcell");
    let run = |words: &[&str]| {
        let mut command = Command::new(program);
        if rustix::process::geteuid().is_root() {
            command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
        }
        command.current_dir(cell.path("")).args(words).output()
    };
    if !run(&["--version"]).is_ok_and(|output| output.status.success()) {
        skip(TestRequirement::Root, format!("another user cannot run {program}, or setpriv is missing"));
        return;
    }
    let text = |words: &[&str]| {
        let output = run(words).unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };
    let (code, age) = text(&["backup", "--age", "volume"]);
    assert!(code == 0 && !age.contains("lost+found"), "{age}");
    let (code, list) = text(&["restore", "--list", "volume"]);
    assert!(code == 0 && list.contains("latest position"), "{list}");
    // Any other closed directory may be a backup.
    rights("volume/other", 0);
    let (code, age) = text(&["backup", "--age", "volume"]);
    assert_eq!((code, age.matches("not usable").count()), (1, 1), "{age}");
    let (code, list) = text(&["restore", "--list", "volume"]);
    assert!(code == 2 && list.trim_end().ends_with("specify the backup itself"), "{list}");
}

/// Changes one byte of the database in the backup.
fn damage(cell: &CellDirectory) {
    let path = cell.path("backup/SRUDB.dat");
    let mut bytes = fs::read(&path).unwrap();
    bytes[300_000] ^= 0xFF;
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_backup_that_a_check_found_bad_is_not_good() {
    let Some(cell) = backed_up() else { return };
    let intact = fs::read(cell.path("backup/SRUDB.dat")).unwrap();
    let age = ["backup", "--age", "backup", "--max-age", "1h"];
    damage(&cell);
    assert_eq!(run(&cell, &["check", "backup"]).0, 1);
    let (code, text) = run(&cell, &age);
    assert!(code == 1 && text.contains("a check found damage in SRUDB.dat"), "{text}");
    // A check of unverified data reads the bad range again.
    run(&cell, &["check", "--unverified", "backup"]);
    assert_eq!(run(&cell, &age).0, 1);
    fs::write(cell.path("backup/SRUDB.dat"), &intact).unwrap();
    assert_eq!(run(&cell, &["check", "backup"]).0, 0);
    assert_eq!(run(&cell, &age).0, 0);
    fs::write(cell.path("backup/SRUDB.dat"), &intact[..intact.len() - 4096]).unwrap();
    let (code, text) = run(&cell, &age);
    assert!(code == 1 && text.contains("bytes long, expected"), "{text}");
}

#[test]
fn a_proof_restores_the_backup_and_records_the_result() {
    let Some(cell) = backed_up() else { return };
    let (code, text) = run(&cell, &["backup", "--age", "."]);
    assert!(code == 0 && text.contains("last proved: never"), "{text}");
    assert_eq!(run(&cell, &["backup", "--from", "dirty", "--to", "next", "--incremental"]).0, 0);
    let (code, text) = run(&cell, &["backup", "prove", ".", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    let proof = &report["backups"][0];
    assert!(code == 0 && proof["path"] == "./next" && proof["good"] == true, "{text}");
    assert!(proof["databases"] == 1 && proof["pages"].as_u64() > Some(100), "{text}");
    let (code, text) = run(&cell, &["backup", "--age", ".", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && report["last_proved"]["path"] == "./next", "{text}");
    // The scratch directory was removed, and the record is not taken for a file of the backup.
    let entries = fs::read_dir(cell.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(entries.into_iter().all(|name| !name.to_string_lossy().starts_with("jetcell-prove")));
    let (code, text) = run(&cell, &["check", "next"]);
    assert!(code == 0 && !text.contains("warning"), "{text}");
    damage(&cell);
    let (code, text) = run(&cell, &["backup", "prove", "next"]);
    // The full backup that this backup continues is not in the directory.
    assert!(code == 1 && text.contains("no complete backup in next"), "{text}");
    let (code, text) = run(&cell, &["backup", "prove", "."]);
    assert!(code == 1 && text.contains("next: BAD") && text.contains("SRUDB.dat: at byte 0"), "{text}");
    let (code, text) = run(&cell, &["backup", "--age", "."]);
    assert!(
        code == 1 && text.contains("next: a proof failed") && text.contains("last proved: never"),
        "{text}"
    );
    assert!(cell.program_refused(&["backup", "prove", "nowhere"]).contains("nowhere"));
}

#[test]
fn a_restore_outside_its_window_is_refused_or_reported() {
    let Some(cell) = backed_up() else { return };
    let (code, text) = run(&cell, &["restore", "backup", "--list", "--json"]);
    let window: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && window["earliest"].is_string() && window["latest"].is_string(), "{text}");
    let (_, text) = run(&cell, &["restore", "backup", "--list"]);
    assert!(text.contains("earliest position: ") && text.contains("latest position: "), "{text}");
    let earliest = window["earliest"].as_str().unwrap();
    for until in ["1", "2001-01-01T00:00:00Z"] {
        let text = cell.program_refused(&["restore", "backup", "--to", "early", "--until", until]);
        assert!(text.contains(earliest) && text.contains("-553"), "{text}");
    }
    for (to, until) in [("late", "FFFF"), ("future", "2100-01-01T00:00:00Z")] {
        let restore = ["restore", "backup", "--to", to, "--until", until];
        for _ in 0..2 {
            let (code, text) = run(&cell, &restore);
            let last = format!("NOT REACHED: the logs end at {}", window["latest"].as_str().unwrap());
            assert!(code == 1 && text.contains(&last), "{text}");
        }
        checked(&cell, to);
    }
    let last = window["latest"].as_str().unwrap();
    assert_eq!(run(&cell, &["restore", "backup", "--to", "end", "--until", last]).0, 0);
}

#[test]
fn an_incremental_backup_continues_the_existing_backup() {
    let Some(cell) = backed_up() else { return };
    let (code, text) = run(&cell, &["backup", "--from", "dirty", "--to", "next", "--incremental", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 0 && report["parent"].is_string() && report["databases"][0].is_null(), "{text}");
    let (code, text) = run(&cell, &["restore", "next", "backup", "--to", "restored"]);
    assert_eq!(code, 0, "{text}");
    checked(&cell, "restored");
    let text = cell.program_refused(&["restore", "next", "--to", "other"]);
    assert!(text.contains("-560"), "{text}");
    let text =
        cell.program_refused(&["backup", "--from", "dirty", "--to", "x", "--incremental", "--base", "dirty"]);
    assert!(text.contains("-615"), "{text}");
}

/// Makes a snapshot of the set with an external command.
fn snapshot(cell: &CellDirectory, to: &str, command: &str) -> (i32, String) {
    let words =
        ["backup", "--from", "dirty", "--to", to, "--snapshot", "command", "--snapshot-command", command];
    run(cell, &words)
}

#[test]
fn a_snapshot_by_a_command_is_checked_recovered_and_restored() {
    let Some(cell) = backed_up() else { return };
    let before = fs::read(cell.path("dirty/SRUDB.dat")).unwrap();
    let (code, text) = snapshot(&cell, "snap", r#"cp -a "$JETCELL_SOURCE" "$JETCELL_SNAPSHOT" && echo done"#);
    assert!(code == 0 && !text.contains("done"), "{text}");
    assert!(fs::read(cell.path("dirty/SRUDB.dat")).unwrap() == before);
    let (code, text) = run(&cell, &["check", "snap"]);
    assert!(code == 0 && text.contains("verified: good"), "{text}");
    let (code, text) = run(&cell, &["recover", "snap", "--into", "recovered"]);
    assert_eq!(code, 0, "{text}");
    checked(&cell, "recovered");
    let (code, text) = run(&cell, &["restore", "snap", "--to", "restored"]);
    assert_eq!(code, 0, "{text}");
    checked(&cell, "restored");
    let incremental = ["backup", "--from", "dirty", "--to", "next", "--incremental", "--base", "snap"];
    assert_eq!(run(&cell, &incremental).0, 0);
    assert_eq!(run(&cell, &["restore", "snap", "next", "--to", "both"]).0, 0);
    checked(&cell, "both");
}

#[test]
fn a_snapshot_of_links_to_the_originals_is_refused_and_does_not_change_them() {
    let Some(cell) = backed_up() else { return };
    let before = fs::read(cell.path("dirty/SRUDB.dat")).unwrap();
    for (to, command) in [
        ("hard", r#"cp -al "$JETCELL_SOURCE" "$JETCELL_SNAPSHOT""#),
        (
            "soft",
            r#"mkdir "$JETCELL_SNAPSHOT" && ln -s "$(realpath "$JETCELL_SOURCE")"/* "$JETCELL_SNAPSHOT"/"#,
        ),
    ] {
        let (code, text) = snapshot(&cell, to, command);
        assert!(code == 2 && text.contains("SRUDB.dat: this"), "{to}: {text}");
        assert!(fs::read(cell.path("dirty/SRUDB.dat")).unwrap() == before, "{to}");
    }
}

#[test]
fn a_failed_snapshot_gives_no_backup_and_a_reason() {
    let Some(cell) = backed_up() else { return };
    for (command, expected) in [
        ("echo no space left >&2; exit 5", "no space left"),
        ("true", "does not contain this file"),
        (r#"cp -a dirty "$JETCELL_SNAPSHOT"; truncate -s 100000 "$JETCELL_SNAPSHOT"/SRUDB.dat"#, "SRUDB.dat"),
    ] {
        let (code, text) = snapshot(&cell, "snap", command);
        assert!(code == 2 && text.lines().count() == 1 && text.contains(expected), "{command}: {text}");
        assert!(!cell.path("snap/manifest.json").exists());
        if cell.path("snap").exists() {
            let text = cell.program_refused(&["restore", "snap", "--to", "x"]);
            assert!(text.contains("-615"), "{text}");
            fs::remove_dir_all(cell.path("snap")).unwrap();
        }
    }
    let slow = ["--snapshot", "command", "--snapshot-command", "sleep 60", "--snapshot-limit", "200ms"];
    let (code, text) = run(&cell, &[&["backup", "--from", "dirty", "--to", "snap"][..], &slow].concat());
    assert!(code == 2 && text.contains("timed out"), "{text}");
    for (words, expected) in [
        (&["--to", "x", "--snapshot", "command"][..], "--snapshot-command"),
        (&["--to", "x", "--snapshot", "reflink", "--snapshot-command", "true"], "--snapshot command"),
        (&["--to", "x", "--snapshot", "tape"], "tape"),
        (&["--to", "x", "--snapshot", "reflink", "--incremental"], "--incremental"),
        (&["--to", "backup", "--snapshot", "reflink"], "-504"),
        (&["--to", "backup", "--snapshot", "btrfs"], "-504"),
        (&["--to", "dirty/x", "--snapshot", "reflink"], "inside"),
    ] {
        let (code, text) = run(&cell, &[&["backup", "--from", "dirty"][..], words].concat());
        assert!(code == 2 && text.contains(expected), "{words:?}: {text}");
        assert!(!cell.path("x").exists());
    }
}

#[test]
fn bad_input_is_refused_and_nothing_changes() {
    let Some(cell) = backed_up() else { return };
    for (words, expected) in [
        (&["backup", "--from", "dirty", "--to", "backup", "--copy"][..], "-504"),
        (&["backup", "--from", "dirty", "--to", "dirty/inside"], "inside"),
        (&["backup", "--from", "nowhere", "--to", "x"], "nowhere"),
        (&["backup", "--from", "dirty", "--to", "x", "--rate", "fast"], "rate"),
        (&["restore", "dirty", "--to", "x"], "-615"),
        (&["restore", "backup", "--to", "dirty"], "--force"),
        (&["restore", "backup", "--to", "backup/x"], "inside"),
        (&["restore", "backup", "backup", "--to", "x"], "both contain databases"),
        (&["restore", "backup", "--to", "x", "--until", "1"], "-553"),
        (&["check", "--subset", "9/2", "backup"], "as a part of a backup"),
        (&["check", "--unverified", "dirty"], "--unverified"),
    ] {
        let text = cell.program_refused(words);
        assert!(text.contains(expected), "{words:?}: {text}");
    }
    cell.write("file", "not a directory");
    assert_eq!(run(&cell, &["backup", "--from", "dirty", "--to", "file"]).0, 2);
    // An interrupted backup.
    fs::rename(cell.path("backup/manifest.json"), cell.path("backup/manifest.partial.json")).unwrap();
    let text = cell.program_refused(&["restore", "backup", "--to", "x"]);
    assert!(text.contains("is incomplete") && text.contains("-615"), "{text}");
    assert_eq!(run(&cell, &["check", "backup"]).0, 2);
}

#[test]
fn a_modified_backup_is_detected_and_not_restored() {
    let Some(cell) = backed_up() else { return };
    let manifest = fs::read_to_string(cell.path("backup/manifest.json")).unwrap();
    cell.write("backup/manifest.json", manifest.replacen("\"zero\": ", "\"zero\": 1", 1));
    let text = cell.program_refused(&["restore", "backup", "--to", "x"]);
    assert!(text.contains("was changed"), "{text}");
    assert_eq!(run(&cell, &["check", "backup"]).0, 2);
    cell.write("backup/manifest.json", &manifest);
    let mut database = fs::read(cell.path("backup/SRUDB.dat")).unwrap();
    scramble(&mut database[1 << 20..][..200]);
    cell.write("backup/SRUDB.dat", &database);
    let (code, text) = run(&cell, &["check", "backup"]);
    assert!(code == 1 && text.contains("SRUDB.dat"), "{text}");
    let (code, text) = run(&cell, &["restore", "backup", "--to", "x"]);
    assert!(code == 2 && text.contains("content that was backed up"), "{text}");
    assert!(!cell.path("x").exists(), "half a restore is left");
}

#[test]
fn a_damaged_source_gives_no_backup() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    dirty_set(&cell, &corpus);
    let mut database = fs::read(cell.path("dirty/SRUDB.dat")).unwrap();
    scramble(&mut database[100 * 4096..][..200]);
    cell.write("dirty/SRUDB.dat", &database);
    let (code, text) = run(&cell, &["backup", "--from", "dirty", "--to", "backup"]);
    assert!(code == 2 && text.contains("bad pages: 99") && text.contains("-1018"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!cell.path("backup").exists() && fs::read(cell.path("dirty/SRUDB.dat")).unwrap() == database);
    // Remove a log that the database needs.
    fs::remove_file(cell.path("dirty/SRU.log")).unwrap();
    fs::remove_file(cell.path("dirty/SRUtmp.log")).unwrap();
    let text = cell.program_refused(&["backup", "--from", "dirty", "--to", "backup"]);
    assert!(text.contains("-543") || text.contains("-528"), "{text}");
}

/// Reading the manifest of a backup uses little more memory than the size of its text.
#[test]
fn a_large_manifest_is_read_in_bounded_memory() {
    const SIZE: usize = 100 << 20;
    let cell = CellDirectory::new();
    cell.make_dir("backup");
    let ranges = "0".repeat(SIZE);
    let manifest = serde_json::json!({
        "format": 1, "engine": "x", "id": "x", "kind": "full", "parent": null, "began_unix_ms": 0, "ended_unix_ms": 0,
        "log_signature": "", "base_name": "E00", "page_size": 4096, "generations": { "first": 1, "last": 1, "last_is_open": false },
        "databases": [{
            "file": "a.edb", "source": "/a.edb", "signature": "", "needs": null, "bytes": 4096, "usable": true,
            "pages": { "read": 1, "zero": 0, "read_again": 0, "corrected": 0, "torn": 0, "bad": 0 },
            "bad_pages": [], "ranges": ranges,
        }],
        "covers": [], "logs": [], "range_bytes": 4 << 20, "checksum": "",
    });
    cell.write("backup/manifest.json", manifest.to_string());
    let mut shell = std::process::Command::new("sh");
    // The limit suffices for the program itself and four times the manifest.
    shell.arg("-c").arg("ulimit -v 1000000 && exec \"$0\" check backup").arg(env!("CARGO_BIN_EXE_jetcell"));
    let output = shell.current_dir(cell.path("")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("its checksum is wrong"), "{:?} {stderr}", output.status);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
}

/// Returns the path of the newest surviving log, which has the name of the current log.
fn current_log(cell: &CellDirectory) -> std::path::PathBuf {
    let logs = fs::read_dir(cell.path("dirty")).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> =
        logs.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect();
    logs.sort_by_key(|path| path.file_name().unwrap().len());
    logs.remove(0)
}

#[test]
fn a_surviving_log_with_a_damaged_header_is_a_finding() {
    let Some(cell) = backed_up() else { return };
    let log = current_log(&cell);
    let mut bytes = fs::read(&log).unwrap();
    bytes[101] ^= 0xFF;
    fs::write(&log, bytes).unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    let (code, text) = run(&cell, &["restore", "backup", "--logs", "dirty", "--to", "restored"]);
    assert!(code == 1 && text.contains("DAMAGED LOG: ") && text.contains(name), "{text}");
    checked(&cell, "restored");
    let list = ["restore", "backup", "--logs", "dirty", "--list"];
    let (code, text) = run(&cell, &list);
    assert!(code == 1 && text.contains("DAMAGED LOG: ") && text.contains(name), "{text}");
    let (code, text) = run(&cell, &[&list[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 1 && report["damaged_logs"][0]["in_backup"] == false, "{text}");
}

#[test]
fn a_listing_reports_a_missing_and_a_damaged_log() {
    let Some(cell) = backed_up() else { return };
    let logs = fs::read_dir(cell.path("backup")).unwrap().map(|entry| entry.unwrap().path());
    let log = logs.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap();
    let bytes = fs::read(&log).unwrap();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 0xFF;
    fs::write(&log, damaged).unwrap();
    let (code, text) = run(&cell, &["restore", "backup", "--list"]);
    assert!(code == 1 && text.contains("PROBLEM: ") && text.contains("its content differs"), "{text}");
    fs::remove_file(&log).unwrap();
    let (code, text) = run(&cell, &["restore", "backup", "--list"]);
    assert!(
        code == 1 && text.contains("PROBLEM: ") && text.contains(log.file_name().unwrap().to_str().unwrap()),
        "{text}"
    );
    let (code, text) = run(&cell, &["restore", "backup", "--list", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(code == 1 && report["problems"][0].is_string(), "{text}");
}

#[test]
fn an_unreadable_proof_or_list_of_streams_gives_one_line() {
    let Some(cell) = backed_up() else { return };
    cell.make_dir("backups");
    fs::rename(cell.path("backup"), cell.path("backups/mail")).unwrap();
    let age = ["backup", "--age", "backups", "--max-age", "1h"];
    assert_eq!(run(&cell, &age).0, 0);
    for garbage in [&b"{"[..], b"[[[[", b"\xFF\xFE", b"{\"backups\":[\"..\"]}"] {
        for file in ["backups/mail/proved.json", "backups/streams.json"] {
            cell.write(file, garbage);
            for words in [&age[..], &["backup", "prove", "backups"]] {
                let (code, text) = run(&cell, words);
                let name = file.rsplit('/').next().unwrap();
                assert!(code == 1 && text.matches(name).count() == 1, "{words:?}: {text}");
                assert!(text.contains("mail"), "{words:?}: {text}");
                cell.write(file, garbage);
            }
            fs::remove_file(cell.path(file)).unwrap();
        }
    }
    assert_eq!(run(&cell, &age).0, 0);
}

#[test]
fn an_error_of_one_stream_does_not_end_the_backups_of_the_others() {
    let cell = CellDirectory::new();
    ["app1", "app2", "app3"].iter().for_each(|name| grow(&cell.path(name), 0..20));
    for entry in fs::read_dir(cell.path("app1")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "log") {
            let mut bytes = fs::read(&path).unwrap();
            scramble(&mut bytes[4200..4400]);
            fs::write(&path, bytes).unwrap();
        }
    }
    let words = ["backup", "--from", "app1", "--from", "app2", "--from", "app3", "--to", "set"];
    let output = cell.program(&words).output().unwrap();
    let [shown, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(2), "{shown}{errors}");
    assert!(errors.lines().count() == 1 && errors.contains("app1"), "{errors}");
    for name in ["app2", "app3"] {
        assert!(shown.contains(&format!("full backup in set/{name}")), "{shown}");
        assert!(cell.path(&format!("set/{name}/manifest.json")).exists());
    }
    assert!(!cell.path("set/app1/manifest.json").exists());
    let output = cell.program(&[&words[..], &["--json"]].concat()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{report}");
    assert_eq!(report["backups"].as_array().unwrap().len(), 2, "{report}");
    assert!(
        report["failures"][0]["path"] == "set/app1" && report["failures"][0]["why"].is_string(),
        "{report}"
    );
}
