//! Files of other programs, compressed files, and databases inside other files.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::samples;

use crate::cell::CellDirectory;

/// Names of files, how they begin, and the name of their format.
const FILES: [(&str, &[u8], &str); 5] = [
    ("w.db", b"SQLite format 3\0\x10", "an SQLite database (Windows 11 keeps its search index in it)"),
    ("a.mdb", b"\0\x01\0\0Standard Jet DB\0\0", "an Access database (Jet 3)"),
    ("packed.edb", b"\x1f\x8b\x08\0", "a gzip file"),
    ("archive.edb", b"PK\x03\x04", "a ZIP archive"),
    ("zeros.edb", b"", "a file that begins with zeros"),
];

#[test]
fn every_command_names_the_format_of_another_file() {
    let (cell, started) = (CellDirectory::new(), Instant::now());
    let failed = |words: &[&str], expected: &str| {
        let output = cell.program(words).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
    };
    for (name, start, format) in FILES {
        cell.write(name, [start, &[0; 8192]].concat());
        let is_not = format!("{name}: the file is not an ESE database");
        failed(&["check", name], &format!("{is_not}, log, checkpoint or flush map but {format}"));
        failed(&["dump", "header", name], &format!("{is_not}, log, checkpoint or flush map but {format}"));
        failed(&["dump", "pages", name], &format!("{name}: the file is {format}"));
        failed(&["export", name, "--format", "csv", "--output", "out"], &format!("{is_not} but {format}"));
        failed(&["recover", name, "--dry-run"], &format!("{is_not} or log but {format}"));
    }
    failed(&["maintain", "w.db"], "an SQLite database");
    cell.write("E00.log", samples::read(samples::ENGINE_LOG));
    failed(
        &["export", "E00.log", "--format", "csv", "--output", "out"],
        "E00.log: the file is not an ESE database but an ESE log file",
    );
    failed(&["dump", "pages", "E00.log"], "E00.log: the file is an ESE log file, not an ESE database");
    assert!(!cell.path("out").exists());
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Returns the output of a command that succeeds.
#[track_caller]
fn succeeded(cell: &CellDirectory, words: &[&str]) -> Vec<u8> {
    let output = cell.program(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Returns the number of pages and the contents of the trees that a check found.
fn summary(cell: &CellDirectory, words: &[&str]) -> (Value, Value) {
    let text = String::from_utf8(succeeded(cell, &[&["check", "--structure", "--json"], words].concat()));
    let text = text.unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = lines.find(|line| line["type"] == "summary").expect(&text);
    assert_eq!(found["verdict"], "sound", "{found}");
    (found["pages"].clone(), found["structure"].clone())
}

const EXPORT: [&str; 6] = ["--table", "Things", "--format", "csv", "--output", "-"];

#[test]
fn a_database_inside_an_image_is_read() {
    let cell = CellDirectory::new();
    let database = samples::read("engine-4k.edb");
    cell.write("plain.edb", &database);
    // Not aligned to a sector, and followed by other bytes.
    let at = (1 << 20) + 513;
    cell.write("disk.img", [&vec![0x5a; at][..], &database, &[7; 10_000]].concat());
    let (offset, length) = (at.to_string(), database.len().to_string());
    let range = ["--offset", &offset, "--length", &length, "disk.img"];
    assert_eq!(summary(&cell, &range), summary(&cell, &["plain.edb"]));
    let exported = succeeded(&cell, &[&["export"], &range[..], &EXPORT].concat());
    assert!(exported.len() > 1000);
    assert!(exported == succeeded(&cell, &[&["export", "plain.edb"], &EXPORT[..]].concat()));
    let dumped = |words: &[&str]| {
        let text = succeeded(&cell, &[&["dump", "pages", "--page", "1-6"], words].concat());
        String::from_utf8(text).unwrap().replace("disk.img", "plain.edb")
    };
    assert_eq!(dumped(&range), dumped(&["plain.edb"]));
    let beyond = [&["export", "--offset", "1GiB", "disk.img"], &EXPORT[..]].concat();
    let text = cell.program_refused(&beyond);
    assert!(text.contains("disk.img") && text.contains("does not contain the range"), "{text}");
    let text = cell.program_refused(&["check", "--offset", &offset, "disk.img", "plain.edb"]);
    assert!(text.contains("start of a single database"), "{text}");
}

#[test]
fn gzip_files_are_read() {
    let cell = CellDirectory::new();
    let database = samples::read("engine-4k.edb");
    let packed = |bytes: &[u8]| {
        let mut packed = Vec::new();
        let mut encoder = flate2::read::GzEncoder::new(bytes, flate2::Compression::fast());
        encoder.read_to_end(&mut packed).unwrap();
        packed
    };
    cell.write("plain.edb", &database);
    cell.write("plain.edb.gz", packed(&database));
    assert_eq!(summary(&cell, &["plain.edb.gz"]), summary(&cell, &["plain.edb"]));
    let exported = |name: &str| succeeded(&cell, &[&["export", name], &EXPORT[..]].concat());
    assert!(exported("plain.edb.gz") == exported("plain.edb"));
    cell.write("dirty.edb.gz", packed(&samples::read("dirty.edb")));
    let output = cell.program(&["check", "dirty.edb.gz"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("decompress the files with gunzip, then run jetcell recover"), "{text}");
}

/// Returns a database whose header names a later format update.
fn newer() -> Vec<u8> {
    let mut bytes = samples::read("engine-4k.edb");
    let header = ese_format::header::DatabaseHeader::decode(&bytes).unwrap();
    let page = ese_format::header::DatabaseHeader { update: 301, ..header }.encode();
    bytes[..page.len()].copy_from_slice(&page);
    bytes[page.len()..2 * page.len()].copy_from_slice(&page);
    bytes
}

#[test]
fn a_later_format_update_is_named() {
    let cell = CellDirectory::new();
    cell.write("newer.edb", newer());
    let text = |words: &[&str]| String::from_utf8(succeeded(&cell, words)).unwrap();
    let checked = text(&["check", "--structure", "newer.edb"]);
    assert!(checked.contains("format update 301 is newer than 300, the newest known one"), "{checked}");
    let dumped = text(&["dump", "header", "newer.edb"]);
    assert!(dumped.contains("the update is newer than 300, the newest known one"), "{dumped}");
    cell.write("known.edb", samples::read("engine-4k.edb"));
    assert!(!text(&["check", "known.edb"]).contains("newer than"));
    assert!(!text(&["dump", "header", "known.edb"]).contains("newer than"));
}
