//! `jetcell recover --dry-run` predicts the exit code and the error of the recovery.

use std::fs;

use ese_format::header::DatabaseHeader;
use testkit::corpus::Corpus;

use crate::cell::CellDirectory;
use crate::recover::{dirty_set, scramble, server_logs};

/// A change to the files, and the words of the command.
struct RecoveryCase {
    name: &'static str,
    words: &'static [&'static str],
    code: i32,
    change: fn(&CellDirectory),
}

const fn case(
    name: &'static str,
    words: &'static [&'static str],
    code: i32,
    change: fn(&CellDirectory),
) -> RecoveryCase {
    RecoveryCase { name, words, code, change }
}

fn no_change(_: &CellDirectory) {}

fn remove(cell: &CellDirectory, name: &str) {
    fs::remove_file(cell.path(name)).unwrap();
}

fn rename(cell: &CellDirectory, from: &str, to: &str) {
    fs::rename(cell.path(from), cell.path(to)).unwrap();
}

fn shorten_newest(cell: &CellDirectory) {
    let log = fs::read(cell.path("logs/SRU.log")).unwrap();
    cell.write("logs/SRU.log", &log[..40960]);
}

fn damage(cell: &CellDirectory, name: &str, at: usize) {
    let mut log = fs::read(cell.path(name)).unwrap();
    scramble(&mut log[at..at + 4]);
    cell.write(name, log);
}

/// Gives the database another signature, as if the logs did not belong to it.
fn replace_database(cell: &CellDirectory) {
    let bytes = fs::read(cell.path("logs/SRUDB.dat")).unwrap();
    let (mut header, _) = DatabaseHeader::read_from_start(&bytes[..8192]).unwrap();
    header.signature.random ^= 1;
    let page = header.encode();
    cell.write("logs/SRUDB.dat", [&page[..], &page, &bytes[8192..]].concat());
}

/// Cases with the clean database and the five logs of a server in `logs`.
const SERVER_CASES: &[RecoveryCase] = &[
    case("intact", &["logs", "--into", "out"], 0, no_change),
    case("position inside a record", &["logs", "--into", "out", "--until", "3:6:100"], 0, no_change),
    case("renamed database", &["logs", "--into", "out"], 0, |cell| {
        rename(cell, "logs/SRUDB.dat", "logs/evidence.bin");
    }),
    case("other database", &["logs", "--into", "out"], 2, replace_database),
    case("log length", &["logs", "--into", "out"], 2, shorten_newest),
    case("log length, accepted", &["logs", "--into", "out", "--allow-loss"], 1, shorten_newest),
    case("log length, in place", &["logs", "--in-place"], 2, shorten_newest),
    case("missing generation", &["logs", "--into", "out"], 2, |cell| remove(cell, "logs/SRU00003.log")),
    case("missing current log", &["logs", "--into", "out"], 2, |cell| remove(cell, "logs/SRU.log")),
    case("missing current log, in place", &["logs", "--in-place"], 2, |cell| remove(cell, "logs/SRU.log")),
    case("damaged log header", &["logs", "--into", "out"], 2, |cell| damage(cell, "logs/SRU00004.log", 100)),
    case("damaged log", &["logs", "--into", "out"], 2, |cell| {
        damage(cell, "logs/SRU00002.log", 6 * 4096 + 500);
    }),
    case("directory with files", &["logs", "--into", "out"], 2, |cell| {
        cell.make_dir("out");
        cell.write("out/notes.txt", "older");
    }),
    case("no directory", &["logs", "--into", "out"], 2, |cell| drop(cell.write("out", "a file"))),
    case("link without a target", &["logs", "--into", "out"], 2, |cell| {
        std::os::unix::fs::symlink("nowhere", cell.path("out")).unwrap();
    }),
    case("missing database, accepted", &["logs", "--into", "out", "--allow-loss"], 1, replace_database),
    case("several directories, in place", &["logs", "newest", "--in-place"], 2, |cell| {
        cell.make_dir("newest");
        rename(cell, "logs/SRU.log", "newest/SRU.log");
    }),
    case("position, in place", &["logs", "--in-place", "--until", "3:6:100"], 2, no_change),
    case("databases of one name", &["logs", "more", "--into", "out"], 2, |cell| {
        cell.make_dir("more");
        fs::copy(cell.path("logs/SRUDB.dat"), cell.path("more/SRUDB.dat")).unwrap();
    }),
    case("other file", &["notes", "--into", "out"], 2, |cell| {
        cell.make_dir("notes");
        cell.write("notes/w.db", [&b"SQLite format 3\0"[..], &[0; 8192]].concat());
    }),
];

/// Cases with a dirty database and its logs in `dirty`.
const DIRTY_CASES: &[RecoveryCase] = &[
    case("before the required range", &["dirty", "--into", "out", "--until", "5B"], 2, no_change),
    case("missing required log", &["dirty", "--into", "out"], 2, |cell| remove(cell, "dirty/SRU.log")),
    case("missing required log, in place", &["dirty", "--in-place", "--allow-loss"], 2, |cell| {
        remove(cell, "dirty/SRU.log");
    }),
];

/// Runs the command with and without `--dry-run`. Returns the error.
#[track_caller]
fn predicted(cell: &CellDirectory, RecoveryCase { name, words, code, .. }: &RecoveryCase) -> String {
    let run = |more: &[&str]| {
        let output = cell.program(&[&["recover"], *words, more].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let before = cell.listing();
    let dry = run(&["--dry-run"]);
    assert_eq!(cell.listing(), before, "{name}: the dry run changed something");
    let real = run(&[]);
    assert_eq!(dry, real, "{name}");
    assert_eq!(real.0, Some(*code), "{name}: {}", real.1);
    assert_eq!(real.1.lines().count(), usize::from(*code == 2), "{name}: {}", real.1);
    real.1
}

#[test]
fn a_dry_run_predicts_the_exit_code_and_the_error() {
    let Some(corpus) = Corpus::locate() else { return };
    let database = corpus.read("logsets/srum-server2022/a/SRUDB.dat");
    for case in SERVER_CASES {
        let cell = CellDirectory::new();
        server_logs(&cell, &corpus);
        cell.write("logs/SRUDB.dat", &database);
        (case.change)(&cell);
        predicted(&cell, case);
    }
    for case in DIRTY_CASES {
        let cell = CellDirectory::new();
        dirty_set(&cell, &corpus);
        (case.change)(&cell);
        predicted(&cell, case);
    }
}

#[test]
fn a_dry_run_predicts_that_files_are_in_use_or_in_the_way() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    server_logs(&cell, &corpus);
    let path = cell.write("logs/SRUDB.dat", corpus.read("logsets/srum-server2022/a/SRUDB.dat"));
    let database = fs::File::open(path).unwrap();
    database.lock().unwrap();
    let text = predicted(&cell, &case("in use", &["logs", "--in-place"], 2, no_change));
    assert!(text.contains("SRUDB.dat is in use by another process"), "{text}");
    database.unlock().unwrap();
    // The newest remaining log must be renamed to SRU.log.
    cell.write("logs/SRU.log", corpus.read("logsets/srum-win11-dirty/SRU.log"));
    let words = &["logs", "--in-place", "--allow-loss"];
    let text = predicted(&cell, &case("name taken", words, 2, no_change));
    assert!(text.contains("another file has this name"), "{text}");
}
