//! Tests of `jetcell recover` on sets without their first log, on logs that a power failure truncated, and on
//! databases that do not match the logs.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ese_format::Generation;
use ese_format::header::{DatabaseHeader, DatabaseState};
use serde_json::Value;
use testkit::corpus::Corpus;

use crate::cell::CellDirectory;
use crate::recover::{checked, dirty_set, header, recovered, scramble, server_logs};

const SEGMENT: usize = 4096;
const PAGE: usize = 4096;

/// Returns every file of a directory with its content.
fn contents(cell: &CellDirectory, directory: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(cell.path(directory)).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Checks that the command refuses a directory, both as a copy and in place, and changes nothing.
#[track_caller]
fn refused(cell: &CellDirectory, directory: &str, expected: &[&str]) {
    let before = contents(cell, directory);
    for words in [&["--into", "out"][..], &["--into", "out", "--json"], &["--in-place"]] {
        // A copy may have been created and removed again.
        let output = cell.program(&[&["recover", directory], words].concat()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(output.stdout.is_empty());
        assert!(expected.iter().all(|part| text.contains(part)), "{expected:?} in {text}");
        assert!(contents(cell, directory) == before, "{words:?}");
        assert!(!cell.path("out").exists());
    }
}

fn edit(cell: &CellDirectory, path: &str, change: impl Fn(&mut DatabaseHeader)) {
    let bytes = fs::read(cell.path(path)).unwrap();
    let (mut header, _) = DatabaseHeader::read_from_start(&bytes[..2 * PAGE]).unwrap();
    change(&mut header);
    let page = header.encode();
    cell.write(path, [&page[..], &page, &bytes[2 * PAGE..]].concat());
}

/// Truncates a log before this segment.
fn cut(cell: &CellDirectory, path: &str, segment: usize) {
    let mut bytes = fs::read(cell.path(path)).unwrap();
    bytes[segment * SEGMENT..].fill(0);
    cell.write(path, bytes);
}

#[test]
fn a_missing_first_required_log_is_refused() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    // Logs alone, without the one that creates the database.
    server_logs(&cell, &corpus);
    fs::remove_file(cell.path("logs/SRU00001.log")).unwrap();
    refused(&cell, "logs", &["logs/SRU00002.log", "JET_errAttachedDatabaseMismatch -1216"]);
    // A clean database, without the log in which it was shut down.
    cell.write("logs/SRUDB.dat", corpus.read("logsets/srum-server2022/a/SRUDB.dat"));
    fs::remove_file(cell.path("logs/SRU00002.log")).unwrap();
    refused(&cell, "logs", &["generation 2 ", "JET_errMissingLogFile -528"]);
    // A dirty database.
    dirty_set(&cell, &corpus);
    edit(&cell, "dirty/SRUDB.dat", |header| header.gen_min_required = Generation(0x5B));
    fs::remove_file(cell.path("dirty/SRU0005B.log")).unwrap();
    refused(&cell, "dirty", &["dirty/SRUDB.dat", "5B to 5C", "JET_errRequiredLogFilesMissing -543"]);
    let text = cell.program_refused(&["recover", "dirty", "--allow-loss", "--into", "out"]);
    assert!(text.contains("-543"), "{text}");
}

#[test]
fn a_log_truncated_by_a_power_cut_is_replayed() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    let whole = fs::read(cell.path("logs/SRU.log")).unwrap();
    // The last segment is torn, and its copy follows it.
    let mut torn = whole.clone();
    scramble(&mut torn[6 * SEGMENT + 20..][..200]);
    cell.write("logs/SRU.log", &torn);
    let before = contents(&cell, "logs");
    let (code, report) = recovered(&cell, &["logs", "--into", "copy"]);
    assert_eq!((code, report["position"].as_str()), (0, Some("00000005,0007,0028")), "{report}");
    assert!(checked(&cell, "copy/SRUDB.dat").contains("12 tables, 620 rows"));
    // The last segments were never written.
    for segment in [2, 3] {
        cell.write("logs/SRU.log", &whole);
        cut(&cell, "logs/SRU.log", segment);
        let into = format!("cut-{segment}");
        let (code, report) = recovered(&cell, &["logs", "--into", &into]);
        let end = format!("00000005,{segment:04X},0028");
        assert_eq!((code, report["position"].as_str()), (0, Some(end.as_str())), "{report}");
        assert_eq!(header(&cell.path(&into).join("SRUDB.dat")).state, DatabaseState::CleanShutdown);
        checked(&cell, &into);
    }
    cell.write("logs/SRU.log", &torn);
    assert!(contents(&cell, "logs") == before);
    // A torn segment without a copy.
    cell.write("logs/SRU.log", &whole);
    cut(&cell, "logs/SRU.log", 6);
    let mut bytes = fs::read(cell.path("logs/SRU.log")).unwrap();
    scramble(&mut bytes[5 * SEGMENT + 20..][..200]);
    cell.write("logs/SRU.log", bytes);
    refused(&cell, "logs", &["logs/SRU.log", "00000005,0005", "JET_errLogFileCorrupt -501"]);
}

#[test]
fn a_macro_truncated_at_the_log_end_is_not_replayed() {
    let Some(corpus) = Corpus::locate() else { return };
    // Splits extend from 3:5:F56 to 3:6:125 and from 3:6:5CB to 3:7:1A2, and one from the end of generation 2 to
    // 3:1:D7.
    for (newest, segment, macros) in [(3, 6, 1), (3, 7, 1), (3, 8, 0), (2, 16, 1)] {
        let cell = CellDirectory::new();
        server_logs(&cell, &corpus);
        for generation in newest + 1..5 {
            fs::remove_file(cell.path(&format!("logs/SRU0000{generation}.log"))).unwrap();
        }
        let name = format!("logs/SRU0000{newest}.log");
        fs::rename(cell.path(&name), cell.path("logs/SRU.log")).unwrap();
        cut(&cell, "logs/SRU.log", segment);
        let before = contents(&cell, "logs");
        let (code, report) = recovered(&cell, &["logs", "--into", "out"]);
        let context = format!("{newest}:{segment}: {report}");
        assert_eq!((code, report["incomplete_macros"].as_u64()), (0, Some(macros)), "{context}");
        assert_eq!(report["databases"][0]["after"], "clean", "{context}");
        checked(&cell, "out");
        let output = cell.program(&["recover", "logs", "--into", "text"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let stated = text.contains("macros truncated by the end of the log, not replayed: 1");
        assert_eq!(stated, macros == 1, "{text}");
        assert!(contents(&cell, "logs") == before, "{context}");
    }
}

#[test]
fn a_database_from_another_time_is_refused() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    fs::remove_file(cell.path("logs/SRU00001.log")).unwrap();
    cell.write("logs/SRUDB.dat", corpus.read("logsets/srum-server2022/a/SRUDB.dat"));
    edit(&cell, "logs/SRUDB.dat", |header| header.consistent_position.offset -= 8);
    let expected = ["SRUDB.dat: ", "00000002,0001,05FE", "older copy", "JET_errConsistentTimeMismatch -551"];
    refused(&cell, "logs", &expected);
}

/// Damages a page that redo reaches only after it has changed other pages.
#[test]
fn a_damaged_page_stops_recovery_before_any_change() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    fs::remove_file(cell.path("logs/SRU00001.log")).unwrap();
    let mut database = corpus.read("logsets/srum-server2022/a/SRUDB.dat");
    // The last page that the logs modify.
    let newer = corpus.read("logsets/srum-server2022/b/SRUDB.dat");
    let pages = database.len() / PAGE;
    let time = |bytes: &[u8], page: usize| bytes[page * PAGE + 8..][..8].to_vec();
    let used = |page: &usize| time(&database, *page) != [0; 8];
    let changed = (2..pages).rev().filter(used).find(|page| time(&database, *page) != time(&newer, *page));
    let page = changed.unwrap();
    scramble(&mut database[page * PAGE + 100..][..200]);
    cell.write("logs/SRUDB.dat", database);
    refused(&cell, "logs", &["SRUDB.dat", &format!("page {}", page - 1), "JET_errReadVerifyFailure -1018"]);
}

#[test]
fn in_place_recovery_spares_other_streams_and_files_in_use() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    cell.write("logs/SRUDB.dat", corpus.read("logsets/srum-server2022/a/SRUDB.dat"));
    let database = fs::File::open(cell.path("logs/SRUDB.dat")).unwrap();
    let before = contents(&cell, "logs");
    database.lock().unwrap();
    let text = cell.program_refused(&["recover", "logs", "--in-place"]);
    assert!(text.contains("SRUDB.dat is in use by another process"), "{text}");
    database.unlock().unwrap();
    assert!(contents(&cell, "logs") == before);
    // The newest remaining log must be renamed to SRU.log.
    cell.write("logs/SRU.log", corpus.read("logsets/srum-win11-dirty/SRU.log"));
    let before = contents(&cell, "logs");
    let text = cell.program_refused(&["recover", "logs", "--in-place", "--allow-loss"]);
    assert!(text.contains("SRU00004.log") && text.contains("another file has this name"), "{text}");
    assert!(contents(&cell, "logs") == before);
}

/// Kills a recovery that was allowed to discard logs after it has renamed them.
#[test]
fn logs_discarded_by_an_interrupted_recovery_are_remembered() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    recovered(&cell, &["logs", "--until", "3", "--keep-dirty", "--into", "copy"]);
    cell.write("logs/SRUDB.dat", fs::read(cell.path("copy/SRUDB.dat")).unwrap());
    for (from, to) in
        [("SRU00004.log", "SRU00004.log.lost"), ("SRU.log", "SRU.log.lost"), ("SRU00003.log", "SRU.log")]
    {
        fs::rename(cell.path(&format!("logs/{from}")), cell.path(&format!("logs/{to}"))).unwrap();
    }
    refused(&cell, "logs", &["4 to 5", "JET_errCommittedLogFilesMissing -582", "--allow-loss"]);
    let (code, report) = recovered(&cell, &["--in-place", "--allow-loss", "logs"]);
    assert_eq!((code, &report["lost"][0]["first"], &report["lost"][0]["last"]), (1, &4.into(), &5.into()));
    assert_eq!(header(&cell.path("logs/SRUDB.dat")).state, DatabaseState::CleanShutdown);
    // The database is clean now, and no further logs are lost.
    assert_eq!(recovered(&cell, &["--in-place", "logs"]).0, 0);
}

#[test]
fn logs_with_committed_transactions_may_be_discarded() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    dirty_set(&cell, &corpus);
    edit(&cell, "dirty/SRUDB.dat", |header| header.gen_max_committed = Generation(0x5E));
    let expected = ["dirty/SRUDB.dat", "5D to 5E", "JET_errCommittedLogFilesMissing -582", "--allow-loss"];
    refused(&cell, "dirty", &expected);
    let before = contents(&cell, "dirty");
    let (code, report) = recovered(&cell, &["dirty", "--allow-loss", "--into", "json"]);
    let lost: Value = serde_json::json!([{ "first": 0x5D, "last": 0x5E, "why": "missing" }]);
    assert_eq!((code, &report["lost"]), (1, &lost));
    assert_eq!(report["databases"][0]["after"], "clean");
    checked(&cell, "json");
    let output = cell.program(&["recover", "dirty", "--allow-loss", "--into", "text"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("LOST: log generations 5D to 5E: missing"), "{text}");
    assert!(contents(&cell, "dirty") == before);
}

/// Kills the command at many points and restarts it until it completes.
#[test]
fn a_killed_in_place_recovery_resumes() {
    let Some(corpus) = Corpus::locate() else { return };
    let undisturbed = CellDirectory::new();
    server_logs(&undisturbed, &corpus);
    undisturbed.write("logs/SRUDB.dat", corpus.read("logsets/srum-server2022/a/SRUDB.dat"));
    let started = Instant::now();
    recovered(&undisturbed, &["--in-place", "logs"]);
    let whole = started.elapsed();
    let expected = checked(&undisturbed, "logs");
    let mut killed = 0;
    for moment in 1..=12u32 {
        let cell = CellDirectory::new();
        server_logs(&cell, &corpus);
        cell.write("logs/SRUDB.dat", corpus.read("logsets/srum-server2022/a/SRUDB.dat"));
        let mut child = cell.program(&["recover", "--in-place", "logs"]);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep((whole * moment / 12).min(Duration::from_millis(500)));
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        let (code, report) = recovered(&cell, &["--in-place", "logs"]);
        assert_eq!((code, report["lost"].as_array().map(Vec::len)), (0, Some(0)), "moment {moment}");
        assert_eq!(header(&cell.path("logs/SRUDB.dat")).state, DatabaseState::CleanShutdown);
        let tables = |text: &str| text.lines().find(|line| line.contains(" tables, ")).map(str::to_string);
        assert_eq!(tables(&checked(&cell, "logs")), tables(&expected), "moment {moment}");
    }
    assert!(killed > 3, "{killed}");
}
