//! Tests of `jetcell recover` on real logs of Windows, and on incomplete or damaged sets of files.

use std::fs;
use std::path::Path;

use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::LogHeader;
use serde_json::Value;
use testkit::corpus::Corpus;

use crate::cell::CellDirectory;

/// Generations of srum-server2022, with their file names in a stream.
const SERVER: [(&str, &str); 5] = [
    ("SRU00001.log", "a/SRU00001.log"),
    ("SRU00002.log", "b/SRUtmp.log"),
    ("SRU00003.log", "b/SRU00003.log"),
    ("SRU00004.log", "b/SRU00004.log"),
    ("SRU.log", "b/SRU.log"),
];
const DIRTY: [&str; 7] =
    ["SRU00059.log", "SRU0005A.log", "SRU0005B.log", "SRU.log", "SRUtmp.log", "SRU.chk", "SRUDB.dat"];

pub fn server_logs(cell: &CellDirectory, corpus: &Corpus) {
    cell.make_dir("logs");
    for (name, stored) in SERVER {
        cell.write(&format!("logs/{name}"), corpus.read(&format!("logsets/srum-server2022/{stored}")));
    }
}

pub fn dirty_set(cell: &CellDirectory, corpus: &Corpus) {
    cell.make_dir("dirty");
    for name in DIRTY {
        cell.write(&format!("dirty/{name}"), corpus.read(&format!("logsets/srum-win11-dirty/{name}")));
    }
}

/// Runs the command with `--json`. Returns its exit code and its report.
pub fn recovered(cell: &CellDirectory, words: &[&str]) -> (i32, Value) {
    let output = cell.program(&[&["recover", "--json"], words].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().unwrap();
    assert!(code < 2, "{text}");
    (code, serde_json::from_slice(&output.stdout).unwrap())
}

/// Changes bytes in a way that the checksum detects. ESE's checksum is linear and misses repeated patterns.
pub fn scramble(bytes: &mut [u8]) {
    bytes.iter_mut().zip(0u8..).for_each(|(byte, number)| *byte ^= number.wrapping_mul(37) | 1);
}

pub fn header(path: &Path) -> DatabaseHeader {
    DatabaseHeader::read_from_start(&fs::read(path).unwrap()[..8192]).unwrap().0
}

/// Checks a database. The only accepted findings are space that Windows lost: it logs an allocation in several steps,
/// and a log can end between them.
pub fn checked(cell: &CellDirectory, path: &str) -> String {
    let output = cell.program(&["check", "--structure", path]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let faults = text.lines().filter(|line| line.starts_with("error:") || line.starts_with("warning:"));
    let unknown: Vec<_> =
        faults.filter(|line| !line.contains(" leaked: owned, but neither used nor available")).collect();
    assert!(unknown.is_empty(), "{text}");
    text
}

#[test]
fn logs_alone_rebuild_the_database_at_any_time() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    let before = cell.listing();
    let (code, report) = recovered(&cell, &["logs", "--into", "b"]);
    assert_eq!(
        (code, &report["undone"], &report["lost"]),
        (0, &Value::from(0), &Value::from(Vec::<u32>::new()))
    );
    assert_eq!(
        (&report["records"]["Split2"], &report["generations"]["last"]),
        (&Value::from(41), &Value::from(5))
    );
    assert_eq!(report["databases"][0]["before"], "absent");
    assert_eq!(report["databases"][0]["after"], "clean");
    assert!(checked(&cell, "b").contains("12 tables, 620 rows"));
    for (until, into, rows) in [
        ("2:2:0", "a", "6 tables, 191 rows"),
        ("2023-10-18T02:55:00Z", "at-time", "6 tables, 191 rows"),
        ("4", "generation", "12 tables"),
    ] {
        recovered(&cell, &["logs", "--until", until, "--into", into]);
        assert_eq!(header(&cell.path(into).join("SRUDB.dat")).state, DatabaseState::CleanShutdown);
        let text = checked(&cell, into);
        assert!(text.contains(rows), "{until}: {text}");
    }
    // More logs can be replayed on a database that was left dirty.
    recovered(&cell, &["logs", "--until", "3", "--keep-dirty", "--into", "dirty"]);
    let database = cell.path("dirty/SRUDB.dat");
    assert_eq!(header(&database).state, DatabaseState::DirtyShutdown);
    let (_, report) = recovered(&cell, &["logs", "dirty/SRUDB.dat", "--into", "more"]);
    assert!(report["databases"][0]["before"].as_str().unwrap().starts_with("dirty"), "{report}");
    assert!(checked(&cell, "more").contains("12 tables, 620 rows"));
    // The original files were not changed.
    let evidence = |path: &&std::path::PathBuf| path.starts_with(cell.path("logs"));
    let after = cell.listing();
    assert!(before.keys().filter(evidence).all(|path| before[path] == after[path]));
}

#[test]
fn a_dirty_database_recovers_in_a_copy_and_in_place() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    dirty_set(&cell, &corpus);
    let original = fs::read(cell.path("dirty/SRUDB.dat")).unwrap();
    let dry = cell.program(&["recover", "--dry-run", "dirty"]).output().unwrap();
    let text = String::from_utf8(dry.stdout).unwrap();
    assert!(dry.status.success() && text.contains("would replay log generations 5C to 5C"), "{text}");
    // By default, the copy is next to the directory.
    let (code, report) = recovered(&cell, &["dirty"]);
    assert_eq!((code, report["databases"][0]["after"].as_str()), (0, Some("clean")));
    assert!(fs::read(cell.path("dirty/SRUDB.dat")).unwrap() == original);
    let copy = fs::read(cell.path("dirty-recovered/SRUDB.dat")).unwrap();
    assert!(copy[8192..] == original[8192..]);
    assert!(cell.path("dirty-recovered/SRU0005C.log").exists());
    checked(&cell, "dirty-recovered");
    let (code, report) = recovered(&cell, &["--in-place", "dirty"]);
    assert_eq!((code, report["databases"][0]["after"].as_str()), (0, Some("clean")));
    assert!(fs::read(cell.path("dirty/SRUDB.dat")).unwrap()[8192..] == original[8192..]);
    checked(&cell, "dirty");
    // Nothing remains to be done.
    let (code, report) = recovered(&cell, &["--in-place", "dirty"]);
    assert_eq!((code, report["undone"].as_u64()), (0, Some(0)));
}

#[test]
fn a_log_stream_keeps_newer_file_extensions() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    dirty_set(&cell, &corpus);
    let names = || {
        let entries = fs::read_dir(cell.path("dirty")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    for path in names() {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("log") => fs::rename(&path, path.with_extension("jtx")).unwrap(),
            Some("chk") => fs::rename(&path, path.with_extension("jcp")).unwrap(),
            _ => {}
        }
    }
    let before = fs::read(cell.path("dirty/SRU.jcp")).unwrap();
    let (code, report) = recovered(&cell, &["--in-place", "dirty"]);
    assert_eq!((code, report["databases"][0]["after"].as_str()), (0, Some("clean")));
    let is_older =
        |path: &std::path::PathBuf| path.extension().is_some_and(|found| found == "log" || found == "chk");
    assert!(!names().iter().any(is_older), "{:?}", names());
    assert!(cell.path("dirty/SRU.jtx").exists() && fs::read(cell.path("dirty/SRU.jcp")).unwrap() != before);
    checked(&cell, "dirty");
    assert_eq!(recovered(&cell, &["dirty", "--into", "copy"]).0, 0);
    assert!(cell.path("copy/SRU.jtx").exists());
}

#[test]
fn invalid_log_sets_are_named_and_nothing_is_changed() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    dirty_set(&cell, &corpus);
    let edit = |path: &str, change: &dyn Fn(&mut LogHeader)| {
        let bytes = fs::read(cell.path(path)).unwrap();
        let mut header = LogHeader::decode(&bytes).unwrap();
        change(&mut header);
        cell.write(path, [&header.encode()[..], &bytes[4096..]].concat());
    };
    let refused = |words: &[&str], expected: &[&str]| {
        let text = cell.program_refused(&[&["recover", "--into", "out"], words].concat());
        assert!(expected.iter().all(|part| text.contains(part)), "{expected:?} in {text}");
        let json = cell.program_refused(&[&["recover", "--dry-run"], words].concat());
        assert_eq!(text, json);
    };
    let with = |path: &str, change: &dyn Fn(), words: &[&str], expected: &[&str]| {
        let good = fs::read(cell.path(path)).unwrap();
        change();
        refused(words, expected);
        cell.write(path, good);
    };
    let remove = |path: &'static str| move |cell: &CellDirectory| fs::remove_file(cell.path(path)).unwrap();
    // Missing logs: one in the middle, the newest one, and one that the database needs.
    with(
        "logs/SRU00003.log",
        &|| remove("logs/SRU00003.log")(&cell),
        &["logs"],
        &["generation 3 ", "JET_errMissingLogFile -528"],
    );
    with(
        "logs/SRU.log",
        &|| remove("logs/SRU.log")(&cell),
        &["logs"],
        &["generation 5 ", "JET_errMissingLogFile -528"],
    );
    with(
        "dirty/SRU.log",
        &|| remove("dirty/SRU.log")(&cell),
        &["dirty"],
        &["dirty/SRUDB.dat", "5C to 5C", "JET_errRequiredLogFilesMissing -543"],
    );
    // A log of another stream, of another history, and with other content.
    with(
        "logs/SRU00003.log",
        &|| edit("logs/SRU00003.log", &|header| header.signature.random ^= 1),
        &["logs"],
        &["logs/SRU00003.log", "00000003,0000", "JET_errBadLogSignature -530"],
    );
    with(
        "logs/SRU00004.log",
        &|| edit("logs/SRU00004.log", &|header| header.previous_created.0[0] ^= 1),
        &["logs"],
        &["logs/SRU00004.log", "00000004,0000", "JET_errInvalidLogSequence -515"],
    );
    with(
        "logs/SRU00004.log",
        &|| edit("logs/SRU00004.log", &|header| header.previous_checksum ^= 1),
        &["logs"],
        &["logs/SRU00004.log", "JET_errLogChecksumMismatch -590"],
    );
    // Damage in the middle of a log, and a truncated file.
    let damage = |path: &str, at: usize| {
        let mut bytes = fs::read(cell.path(path)).unwrap();
        scramble(&mut bytes[at..at + 64]);
        cell.write(path, bytes);
    };
    with(
        "logs/SRU00002.log",
        &|| damage("logs/SRU00002.log", 6 * 4096 + 500),
        &["logs"],
        &["logs/SRU00002.log", "00000002,0006", "JET_errLogFileCorrupt -501"],
    );
    with(
        "logs/SRU00002.log",
        &|| {
            drop(
                cell.write("logs/SRU00002.log", &fs::read(cell.path("logs/SRU00002.log")).unwrap()[..40960]),
            );
        },
        &["logs"],
        &["logs/SRU00002.log", "JET_err"],
    );
    cell.make_dir("alone");
    fs::copy(cell.path("dirty/SRUDB.dat"), cell.path("alone/SRUDB.dat")).unwrap();
    refused(&["alone/SRUDB.dat"], &["the directory of the database does not contain logs"]);
    // The logs are intact again.
    assert_eq!(recovered(&cell, &["logs", "--into", "out"]).0, 0);
}

#[test]
fn loss_is_accepted_only_if_the_databases_are_consistent_without_the_logs() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    let mut bytes = fs::read(cell.path("logs/SRU00004.log")).unwrap();
    scramble(&mut bytes[5 * 4096 + 100..][..64]);
    cell.write("logs/SRU00004.log", bytes);
    let (code, report) = recovered(&cell, &["logs", "--allow-loss", "--into", "damaged"]);
    assert_eq!(
        (code, report["lost"][0]["first"].as_u64(), report["lost"][0]["last"].as_u64()),
        (1, Some(4), Some(5))
    );
    assert_eq!(header(&cell.path("damaged/SRUDB.dat")).state, DatabaseState::CleanShutdown);
    checked(&cell, "damaged");
    fs::remove_file(cell.path("logs/SRU.log")).unwrap();
    fs::remove_file(cell.path("logs/SRU00004.log")).unwrap();
    let (code, report) = recovered(&cell, &["logs", "--allow-loss", "--into", "lost"]);
    assert_eq!((code, report["lost"][0]["first"].as_u64()), (1, Some(4)));
    // An unfinished transaction was rolled back, and the stream continues.
    assert_eq!(report["undone"].as_u64(), Some(1));
    checked(&cell, "lost");
    dirty_set(&cell, &corpus);
    fs::remove_file(cell.path("dirty/SRU.log")).unwrap();
    let text = cell.program_refused(&["recover", "dirty", "--allow-loss", "--into", "out"]);
    assert!(text.contains("-543"), "{text}");
}
