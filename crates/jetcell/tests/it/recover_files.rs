//! Tests of how `jetcell recover` finds databases and logs, and of files that it cannot use.

use std::fs;

use ese_format::header::{DatabaseHeader, DatabaseState};
use testkit::corpus::Corpus;

use crate::cell::CellDirectory;
use crate::recover::{checked, dirty_set, header, recovered, scramble, server_logs};

/// Writes the logs after generation 1, with the clean database of generation 1 at this path.
fn server_set(cell: &CellDirectory, corpus: &Corpus, database: &str) {
    server_logs(cell, corpus);
    fs::remove_file(cell.path("logs/SRU00001.log")).unwrap();
    cell.write("logs/SRU00001.log", corpus.read("logsets/srum-server2022/a/SRU00001.log"));
    cell.write(database, corpus.read("logsets/srum-server2022/a/SRUDB.dat"));
}

#[test]
fn a_renamed_database_is_found_by_its_signature() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_set(&cell, &corpus, "logs/evidence01.bin");
    let (code, report) = recovered(&cell, &["logs", "--into", "out"]);
    assert_eq!((code, report["pages"]["changes"].as_u64()), (0, Some(1152)), "{report}");
    assert!(checked(&cell, "out/evidence01.bin").contains("12 tables, 620 rows"));
    // A dirty database, and a mapping.
    dirty_set(&cell, &corpus);
    fs::rename(cell.path("dirty/SRUDB.dat"), cell.path("renamed.dat")).unwrap();
    assert_eq!(recovered(&cell, &["dirty", "renamed.dat", "--into", "renamed"]).0, 0);
    assert_eq!(header(&cell.path("renamed/renamed.dat")).state, DatabaseState::CleanShutdown);
    let map = r"c:\windows\SYSTEM32\sru\SRUDB.dat=renamed.dat";
    assert_eq!(recovered(&cell, &["dirty", "--map", map, "--into", "mapped"]).0, 0);
    assert_eq!(header(&cell.path("mapped/renamed.dat")).state, DatabaseState::CleanShutdown);
    fs::rename(cell.path("renamed.dat"), cell.path("dirty/other.dat")).unwrap();
    assert_eq!(recovered(&cell, &["dirty", "--in-place"]).0, 0);
    assert_eq!(header(&cell.path("dirty/other.dat")).state, DatabaseState::CleanShutdown);
    assert!(!cell.path("dirty/SRU.lock").exists(), "{:?}", cell.listing());
}

/// A second database of the stream, which the logs do not attach, does not replace the missing one.
#[test]
fn a_database_that_is_not_among_the_files_is_named() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_set(&cell, &corpus, "logs/SRUDB.dat");
    let bytes = fs::read(cell.path("logs/SRUDB.dat")).unwrap();
    let (mut other, _) = DatabaseHeader::read_from_start(&bytes[..8192]).unwrap();
    other.signature.random ^= 1;
    let page = other.encode();
    cell.write("logs/SRUDB.dat", [&page[..], &page, &bytes[8192..]].concat());
    let words = ["recover", "logs", "--into", "out"];
    let text = cell.program_refused(&words);
    assert!(text.contains("SRUDB.dat: the logs change this database") && text.contains("-1216"), "{text}");
    assert_eq!(cell.program_refused(&["recover", "--dry-run", "logs"]), text);
    let (code, report) = recovered(&cell, &["logs", "--into", "out", "--allow-loss"]);
    assert_eq!(code, 1, "a database is missing: {report}");
    let (code, _) = recovered(&cell, &["logs", "--dry-run", "--allow-loss"]);
    assert_eq!(code, 1);
    let ignored = report["ignored"].as_array().unwrap();
    assert!(ignored.iter().any(|file| file["path"].as_str().unwrap().ends_with("SRUDB.dat")), "{report}");
}

#[test]
fn logs_are_found_near_the_database() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_set(&cell, &corpus, "logs/SRUDB.dat");
    for (place, file) in [("logs", "logs/SRUDB.dat"), ("set/Logs", "set"), ("set/Logs", "set/SRUDB.dat")] {
        if place != "logs" && !cell.path("set").exists() {
            cell.make_dir("set");
            fs::rename(cell.path("logs/SRUDB.dat"), cell.path("set/SRUDB.dat")).unwrap();
            fs::rename(cell.path("logs"), cell.path("set/Logs")).unwrap();
        }
        let (code, report) = recovered(&cell, &["--dry-run", file]);
        assert_eq!((code, report["generations"]["last"].as_u64()), (0, Some(5)), "{file}: {report}");
    }
}

#[test]
fn a_log_of_the_wrong_length_ends_the_replay_if_loss_is_accepted() {
    let Some(corpus) = Corpus::locate() else { return };
    for len in [40960, 100] {
        let cell = CellDirectory::new();
        server_set(&cell, &corpus, "logs/SRUDB.dat");
        let log = fs::read(cell.path("logs/SRU.log")).unwrap();
        cell.write("logs/SRU.log", &log[..len]);
        let text = cell.program_refused(&["recover", "logs", "--into", "out"]);
        let expected = if len == 100 { "-5" } else { "JET_errLogFileSizeMismatch -541" };
        assert!(text.contains(expected) && text.contains("--allow-loss"), "{text}");
        let (code, report) = recovered(&cell, &["logs", "--into", "out", "--allow-loss"]);
        let lost = report["lost"][0]["first"].as_u64();
        assert_eq!((code, report["generations"]["last"].as_u64(), lost), (1, Some(4), Some(5)), "{report}");
        checked(&cell, "out");
    }
}

#[test]
fn a_damaged_log_header_is_named() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_set(&cell, &corpus, "logs/SRUDB.dat");
    let mut log = fs::read(cell.path("logs/SRU00004.log")).unwrap();
    scramble(&mut log[100..104]);
    cell.write("logs/SRU00004.log", log);
    let text = cell.program_refused(&["recover", "logs", "--into", "out"]);
    let expected = ["SRU00004.log", "log header checksum", "JET_errLogFileCorrupt -501"];
    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
}

/// A file of Windows 7 has sectors of 512 bytes and another checksum.
#[test]
fn logs_of_windows_7_are_named() {
    let cell = CellDirectory::new();
    let mut log = vec![0; 16384];
    log[8..12].copy_from_slice(&[0, 2, 1, 0]);
    log[32..40].copy_from_slice(&[7, 0, 0, 0, 0x78, 0x0E, 0, 0]);
    cell.make_dir("old");
    cell.write("old/edb00001.log", log);
    let text = cell.program_refused(&["recover", "old", "--dry-run"]);
    let expected = ["edb00001.log", "7.3704 (Windows 7", "JET_errBadLogVersion -514"];
    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
}

/// The page has not changed since an earlier generation, but the header says that later generations were replayed.
#[test]
fn a_lost_write_is_named() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_set(&cell, &corpus, "logs/SRUDB.dat");
    assert_eq!(recovered(&cell, &["logs", "--until", "3", "--keep-dirty", "--into", "part"]).0, 0);
    let (before, mut after) =
        (fs::read(cell.path("logs/SRUDB.dat")).unwrap(), fs::read(cell.path("part/SRUDB.dat")).unwrap());
    let page = 30 * 4096..31 * 4096;
    after[page.clone()].copy_from_slice(&before[page]);
    for name in ["SRU00001.log", "SRU00002.log"] {
        fs::remove_file(cell.path(&format!("logs/{name}"))).unwrap();
    }
    cell.write("logs/SRUDB.dat", after);
    // Only redo finds this, after the files were copied.
    let output = cell.program(&["recover", "logs", "--into", "out"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("JET_errDbTimeTooOld -566"), "{text}");
    assert!(!cell.path("out").exists());
}
