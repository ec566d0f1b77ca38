//! Tests the redo of logs written by Windows. The results are compared with the databases that Windows wrote along with
//! these logs.
//!
//! The tests need the corpus and are skipped without it.

use std::path::Path;

use ese_format::LogPosition;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs, Vfs};
use testkit::corpus::Corpus;

use super::redo_fixture::{PageContent, RedoFixture, SIZE, records_from};
use crate::log::{LogNames, LogReader, PositionedRecord};

/// Returns the records of some log files, in order. Each file is given by its path in the corpus and its name in the
/// log directory.
fn records(corpus: &Corpus, set: &str, files: &[(&str, &str)], from: LogPosition) -> Vec<PositionedRecord> {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/log")).unwrap();
    for (file, name) in files {
        disk.put(&Path::new("/log").join(name), &corpus.read(&format!("logsets/{set}/{file}")));
    }
    let log =
        LogReader::open(Arc::new(disk), LogNames::new(Path::new("/log"), FileStem::new("SRU").unwrap()))
            .unwrap()
            .unwrap();
    records_from(&log, from)
}

/// Compares all pages with a snapshot. Returns the number of pages in use.
fn assert_equal(fixture: &RedoFixture, snapshot: &[u8]) -> usize {
    let mut used = 0;
    for (index, page) in snapshot.chunks(SIZE.bytes()).enumerate().skip(2) {
        let number = index as u32 - 1;
        if page.iter().any(|byte| *byte != 0) {
            used += 1;
            assert_eq!(
                PageContent::from_bytes(&fixture.page(number)),
                PageContent::from_bytes(page),
                "page {number}"
            );
        } else {
            assert!(!fixture.has_page(number), "page {number} is in use");
        }
    }
    used
}

/// Returns all records of srum-server2022.
pub(super) fn server2022(corpus: &Corpus, from: LogPosition) -> Vec<PositionedRecord> {
    let files = [
        ("a/SRU00001.log", "SRU00001.log"),
        ("b/SRUtmp.log", "SRU00002.log"),
        ("b/SRU00003.log", "SRU00003.log"),
        ("b/SRU00004.log", "SRU00004.log"),
        ("b/SRU.log", "SRU.log"),
    ];
    records(corpus, "srum-server2022", &files, from)
}

#[test]
fn a_windows_database_is_rebuilt_from_logs() {
    let Some(corpus) = Corpus::locate() else { return };
    let set = "srum-server2022";
    let first = ("a/SRU00001.log", "SRU00001.log");
    let mut fixture = RedoFixture::new(200);
    let start = LogPosition::new(1, 1, 0);
    fixture.replay_stored(records(&corpus, set, &[first, ("a/SRU.log", "SRU.log")], start)).unwrap();
    assert_eq!(assert_equal(&fixture, &corpus.read(&format!("logsets/{set}/a/SRUDB.dat"))), 30);

    let all = server2022(&corpus, start);
    let snapshot = corpus.read(&format!("logsets/{set}/b/SRUDB.dat"));
    // Continues from the first snapshot. The page times show which changes the pages already have.
    fixture.replay_stored(all.clone()).unwrap();
    assert_eq!(assert_equal(&fixture, &snapshot), 73);
    let mut fixture = RedoFixture::new(200);
    fixture.replay_stored(all).unwrap();
    assert_eq!(assert_equal(&fixture, &snapshot), 73);
}

#[test]
fn changes_already_on_pages_are_not_redone() {
    let Some(corpus) = Corpus::locate() else { return };
    let set = "srum-win11-dirty";
    let files = [("SRU00059.log", "SRU00059.log"), ("SRU0005A.log", "SRU0005A.log")];
    let files = files.into_iter().chain([("SRU0005B.log", "SRU0005B.log"), ("SRU.log", "SRU.log")]);
    let files: Vec<_> = files.collect();
    let database = corpus.read(&format!("logsets/{set}/SRUDB.dat"));
    let mut fixture = RedoFixture::on(&database[2 * SIZE.bytes()..]);
    let records = records(&corpus, set, &files, LogPosition::new(0x59, 1, 0));
    assert!(records.len() > 1500, "{}", records.len());
    fixture.replay_stored(records).unwrap();
    assert_eq!(fixture.applied(), 0);
    assert!(assert_equal(&fixture, &database) > 400);
}
