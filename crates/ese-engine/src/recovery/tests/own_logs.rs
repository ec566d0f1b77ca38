//! A log that the engine wrote, redone by the rules for the logs of ESE on a copy of the database, gives the same pages.

use std::path::Path;

use ese_format::log::record::LogRecord;
use ese_format::{DbTime, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::SimVfs;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::redo_fixture::{Content, RedoFixture, SIZE, records_from};
use super::{DATABASES, database};
use crate::Instance;
use crate::btree::tests::{Model, open, transaction};
use crate::log::{LogNames, LogReader, StoredRecord};
use crate::maintenance::cleanup;
use crate::transaction::ActiveTransaction;

/// The pages of the database on disk, without the two headers.
fn pages(disk: &SimVfs, instance: &Instance) -> Vec<Vec<u8>> {
    instance.flush().unwrap();
    let core = instance.core();
    core.databases().iter().for_each(|db| core.cache.flush_file(db.file_id()).unwrap());
    let bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    bytes.chunks(SIZE.bytes()).skip(2).map(<[u8]>::to_vec).collect()
}

/// Random work in one database: its pages at three moments, and the log between the first and the last of them.
fn worked(seed: u64) -> ([Vec<Vec<u8>>; 3], Vec<StoredRecord>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = SimVfs::new();
    let instance = open(&disk, SIZE, 256).unwrap();
    let (_db, tree) = database(&instance, DATABASES[0]);
    let first = pages(&disk, &instance);
    let from = instance.core().log().tail();
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    let mut model = Model::new();
    let mut middle = Vec::new();
    for round in 0..150 {
        // Growth with splits, then deletion with merges.
        let space = if round < 90 { 2000 } else { 60 };
        transaction(&tree, &mut session, &mut model, &mut rng, space, SIZE.bytes() / 4).unwrap();
        if round % 4 == 0 {
            cleanup::step(instance.core(), 5).unwrap();
        }
        if round == 75 {
            middle = pages(&disk, &instance);
        }
    }
    let last = pages(&disk, &instance);
    let names = LogNames::new(Path::new("/log"), "E00");
    let log = LogReader::open(Arc::new(disk), names).unwrap().unwrap();
    let records = records_from(&log, LogPosition { offset: 0, ..from });
    let records = records.into_iter().filter(|record| record.start >= from).collect();
    ([first, middle, last], records)
}

fn assert_equal(fixture: &RedoFixture, expected: &[Vec<u8>], what: &str) {
    for (number, page) in (1..).zip(expected) {
        if page.iter().any(|byte| *byte != 0) {
            assert_eq!(Content::of(&fixture.page(number)), Content::of(page), "{what}, page {number}");
        }
    }
}

/// ESE's macros hold one split, with the record of its parent and its insert, or one merge.
fn assert_macros_of_ese(records: &[StoredRecord]) {
    let decoded: Vec<_> = records.iter().map(|record| LogRecord::decode(&record.bytes).unwrap().0).collect();
    let mut members: Option<String> = None;
    for record in &decoded {
        let name = match record {
            LogRecord::Split2(split) if split.new_page.is_none() => "parent ",
            LogRecord::Insert(insert) if insert.node.page.before == DbTime(u64::MAX) => "insert ",
            LogRecord::Split2(_) => "split ",
            LogRecord::Merge2(_) => "merge ",
            LogRecord::MacroBegin(_) => {
                assert!(members.replace(String::new()).is_none());
                continue;
            }
            LogRecord::MacroCommit(_) => {
                let members = members.take().unwrap();
                let known = ["parent split insert ", "parent split ", "split insert ", "split ", "merge "];
                assert!(known.contains(&members.as_str()), "{members}");
                continue;
            }
            _ => "other ",
        };
        match &mut members {
            Some(members) => members.push_str(name),
            None => assert_eq!(name, "other "),
        }
    }
}

#[test]
fn a_log_of_the_engine_gives_the_pages_of_the_engine() {
    let mut splits = 0;
    for seed in 0..4 {
        let ([first, middle, last], records) = worked(seed);
        assert_macros_of_ese(&records);
        splits += records
            .iter()
            .filter(|record| matches!(LogRecord::decode(&record.bytes).unwrap().0, LogRecord::Split2(_)))
            .count();
        let mut fixture = RedoFixture::on(&first.concat());
        fixture.replay_stored(records.clone()).unwrap();
        assert_equal(&fixture, &last, &format!("seed {seed}"));
        // The same with pages of different moments, as a crash leaves them.
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mixed: Vec<u8> = (0..first.len())
            .flat_map(|at| {
                let moment = [&first, &middle, &last][rng.random_range(0..3)];
                moment.get(at).unwrap_or(&first[at]).clone()
            })
            .collect();
        let mut fixture = RedoFixture::on(&mixed);
        fixture.replay_stored(records).unwrap();
        assert_equal(&fixture, &last, &format!("seed {seed}, mixed"));
    }
    assert!(splits > 50, "{splits}");
}
