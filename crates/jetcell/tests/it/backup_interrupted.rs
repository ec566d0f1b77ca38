//! Tests in which `jetcell backup` and `restore` are killed or stopped before they complete.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::corpus::Corpus;

use crate::cell::CellDirectory;
use crate::recover::{checked, dirty_set};
use crate::runs::wait_until;

/// Size of the database in bytes: six ranges. The space after its last page was never written.
const BYTES: u64 = 24 << 20;

fn large_set() -> Option<CellDirectory> {
    let corpus = Corpus::locate()?;
    let cell = CellDirectory::new();
    dirty_set(&cell, &corpus);
    let database = File::options().write(true).open(cell.path("dirty/SRUDB.dat")).unwrap();
    assert!(database.metadata().unwrap().len() < BYTES);
    database.set_len(BYTES).unwrap();
    Some(cell)
}

fn start(cell: &CellDirectory, words: &[&str]) -> Child {
    cell.program(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts a slow backup, and waits until a part of it is durable.
fn half_done(cell: &CellDirectory) -> Child {
    let child = start(cell, &["backup", "--from", "dirty", "--to", "backup", "--rate", "4MB/s"]);
    let partial = cell.path("backup/manifest.partial.json");
    let has_range = || {
        let text = fs::read_to_string(&partial).unwrap_or_default();
        let partial: Value = serde_json::from_str(&text).unwrap_or_default();
        partial["databases"][0]["ranges"].as_str().is_some_and(|ranges| !ranges.is_empty())
    };
    wait_until("progress of the backup", has_range);
    child
}

/// Checks that the child prints one line on stderr and exits with code 2.
#[track_caller]
fn stopped(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    text
}

fn partial_is_refused_and_continued(cell: &CellDirectory) {
    let text = String::from_utf8(cell.program(&["check", "backup"]).output().unwrap().stderr).unwrap();
    assert!(text.contains("interrupted and is incomplete") && text.contains("-615"), "{text}");
    let text = cell.program_refused(&["restore", "backup", "--to", "restored"]);
    assert!(text.contains("interrupted and is incomplete") && text.contains("-615"), "{text}");
    let output = cell.program(&["backup", "--from", "dirty", "--to", "backup", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [bytes, continued, copied] =
        ["bytes", "continued_bytes", "copied_bytes"].map(|name| report[name].as_u64().unwrap());
    assert!(continued >= 4 << 20 && continued + copied == bytes, "{report}");
    let output = cell.program(&["check", "backup"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let output = cell.program(&["restore", "backup", "--to", "restored"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    checked(cell, "restored");
}

/// Returns the number of bytes that a check of `backup` verified.
#[track_caller]
fn verified(cell: &CellDirectory, words: &[&str]) -> u64 {
    let output = cell.program(&[&["check", "--json", "backup"], words].concat()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    report["bytes"].as_u64().unwrap()
}

#[test]
fn backup_parts_are_verified_in_rotation_until_complete() {
    let Some(cell) = large_set() else { return };
    let began = Instant::now();
    let words = ["backup", "--from", "dirty", "--to", "backup", "--rate", "12MB/s", "--json"];
    let output = cell.program(&words).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bytes = report["bytes"].as_u64().unwrap();
    assert!(bytes >= BYTES, "{report}");
    assert!(began.elapsed() > Duration::from_secs(1), "24 MiB at 12 MB/s in {:?}", began.elapsed());

    let parts = ["1/3", "2/3", "3/3"].map(|part| verified(&cell, &["--subset", part]));
    assert_eq!(parts.iter().sum::<u64>(), bytes, "{parts:?}");
    assert!(parts.iter().all(|part| *part > bytes / 6), "{parts:?}");
    assert_eq!(verified(&cell, &["--unverified"]), 0, "all of it was verified");

    // A size selects the data that was verified least recently. A range that starts within the size is verified
    // completely.
    let size = verified(&cell, &["--subset", "5MiB"]);
    assert!((5 << 20..bytes / 2).contains(&size), "{size}");
}

#[test]
fn a_killed_backup_is_partial_and_resumes_with_the_remainder() {
    let Some(cell) = large_set() else { return };
    let source = cell.listing();
    let mut child = half_done(&cell);
    child.kill().unwrap();
    child.wait().unwrap();
    partial_is_refused_and_continued(&cell);
    for (path, state) in source.iter().filter(|(path, _)| path.extension().is_some()) {
        assert_eq!(cell.listing().get(path), Some(state), "{path:?}");
    }
}

#[test]
fn a_backup_that_is_stopped_by_a_signal_can_be_continued() {
    let Some(cell) = large_set() else { return };
    let child = half_done(&cell);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let text = stopped(child);
    assert!(
        text.contains("stopped; the copied data is retained, and the same command continues the backup"),
        "{text}"
    );
    partial_is_refused_and_continued(&cell);
}

#[test]
fn a_signalled_restore_leaves_a_new_directory_empty() {
    let Some(cell) = large_set() else { return };
    let output = cell.program(&["backup", "--from", "dirty", "--to", "backup"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let restore = ["restore", "backup", "--to", "restored", "--rate", "4MB/s"];
    for signal in [Signal::INT, Signal::TERM] {
        let child = start(&cell, &restore);
        wait_until("the restore", || cell.path("restored/SRUDB.dat").exists());
        kill_process(Pid::from_child(&child), signal).unwrap();
        let text = stopped(child);
        assert_eq!(text, "jetcell: stopped\n");
        assert!(!cell.path("restored").exists());
    }
    // After an interrupted restore over existing files, the message says that they are incomplete.
    cell.make_dir("over");
    fs::copy(cell.path("dirty/SRUDB.dat"), cell.path("over/SRUDB.dat")).unwrap();
    let over = ["restore", "backup", "--to", "over", "--force", "--rate", "1MB/s"];
    let child = start(&cell, &over);
    wait_until("the restore", || cell.path("over/restore.partial").exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let text = stopped(child);
    assert!(text.contains("over is incomplete: repeat the restore"), "{text}");
    let output = cell.program(&over[..5]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!cell.path("over/restore.partial").exists());
    checked(&cell, "over");
}

#[test]
fn unwritable_destinations_get_no_files() {
    let Some(cell) = large_set() else { return };
    // Writes beyond this size fail like those on a full disk.
    let program = env!("CARGO_BIN_EXE_jetcell");
    let limited = |words: &str| {
        let line = format!("ulimit -f 12288; exec {program} {words}");
        let mut command = std::process::Command::new("bash");
        command.current_dir(cell.path("")).args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let text = stopped(limited("backup --from dirty --to backup"));
    assert!(text.contains("backup/SRUDB.dat"), "{text}");
    assert!(!cell.path("backup").exists());
    for place in ["/proc/backup", "/sys/backup"] {
        let text = cell.program_refused(&["backup", "--from", "dirty", "--to", place]);
        assert!(text.contains(place), "{text}");
    }
    let output = cell.program(&["backup", "--from", "dirty", "--to", "backup"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = stopped(limited("restore backup --to restored"));
    assert!(text.contains("restored/SRUDB.dat"), "{text}");
    assert!(!cell.path("restored").exists());
}

#[test]
fn a_restore_does_not_overwrite_a_database_in_use() {
    let Some(cell) = large_set() else { return };
    let output = cell.program(&["backup", "--from", "dirty", "--to", "backup"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let files = RealVfs::new(RealOptions::default()).unwrap();
    let lock = files.lock(&cell.path("dirty/SRUDB.dat")).unwrap();
    let text = cell.program_refused(&["restore", "backup", "--to", "dirty", "--force"]);
    assert!(text.contains("SRUDB.dat") && text.contains("in use"), "{text}");
    let text = cell.program_refused(&["backup", "--from", "dirty", "--to", "next"]);
    assert!(text.contains("SRUDB.dat") && text.contains("in use"), "{text}");
    drop(lock);
    let text = cell.program_refused(&["restore", "backup", "--to", "backup", "--force"]);
    assert!(text.contains("inside"), "{text}");
    cell.write("backup/stray.txt", "x");
    let output = cell.program(&["check", "backup"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(0) && text.contains("stray.txt: not part of the backup"), "{text}");
}
