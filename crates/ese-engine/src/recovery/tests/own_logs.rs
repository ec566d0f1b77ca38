//! Tests logs written by this engine. When they are redone by the rules for ESE's logs on a copy of the database, the
//! same pages must result.

use std::collections::BTreeMap;
use std::path::Path;

use ese_format::log::record::{LogRecord, MergeFlags};
use ese_format::{DbTime, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::redo_fixture::{PageContent, RedoFixture, SIZE, records_from};
use super::{DATABASES, database};
use crate::Instance;
use crate::btree::Tree;
use crate::btree::merge_tests::long_key;
use crate::btree::tests::{TreeModel, open, transaction};
use crate::log::{LogNames, LogReader, PositionedRecord};
use crate::maintenance::cleanup;
use crate::pages::merge::merge_type;
use crate::transaction::{ActiveTransaction, SYSTEM_PROCID};

/// Number of records in a tree of four levels.
const DEEP_RECORDS: u32 = 500;

/// Returns the pages of the database on disk, without the two headers.
fn pages(disk: &SimVfs, instance: &Instance) -> Vec<Vec<u8>> {
    instance.flush().unwrap();
    let core = instance.core();
    core.databases().iter().for_each(|db| core.cache.flush_file(db.file_id()).unwrap());
    let bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    bytes.chunks(SIZE.bytes()).skip(2).map(<[u8]>::to_vec).collect()
}

/// Makes random changes in one tree: first growth with splits, then deletions with merges. Calls `half` between the two
/// phases.
fn random_work(instance: &Instance, tree: &Arc<Tree>, rng: &mut ChaCha8Rng, half: &mut dyn FnMut()) {
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    let mut model = TreeModel::new();
    for round in 0..150 {
        let space = if round < 90 { 2000 } else { 60 };
        transaction(tree, &mut session, &mut model, rng, space, SIZE.bytes() / 4).unwrap();
        if round % 4 == 0 {
            cleanup::step(instance.core(), 5).unwrap();
        }
        if round == 75 {
            half();
        }
    }
}

/// Removes ranges of records from a four-level tree. Internal pages are removed together with their leaves. Calls
/// `half` midway.
fn range_deletes(instance: &Instance, tree: &Arc<Tree>, rng: &mut ChaCha8Rng, half: &mut dyn FnMut()) {
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    session.begin().unwrap();
    for number in 0..DEEP_RECORDS {
        tree.insert(session.changes().unwrap(), &long_key(number), &[number as u8; 2500]).unwrap();
    }
    session.commit().unwrap();
    let mut present = vec![true; DEEP_RECORDS as usize];
    for round in 0..12 {
        let first = rng.random_range(0..DEEP_RECORDS);
        let last = if round % 4 == 3 { DEEP_RECORDS } else { DEEP_RECORDS.min(first + 60) };
        session.begin().unwrap();
        for number in first..last {
            if std::mem::take(&mut present[number as usize]) {
                let bookmark = tree.bookmark(&long_key(number), &[]);
                tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
            }
        }
        session.commit().unwrap();
        for _ in 0..3 {
            instance.step().unwrap();
        }
        if round == 5 {
            half();
        }
    }
}

/// Returns the pages of a database before, during and after some work, and the log of that work.
fn worked(
    seed: u64,
    work: impl FnOnce(&Instance, &Arc<Tree>, &mut ChaCha8Rng, &mut dyn FnMut()),
) -> ([Vec<Vec<u8>>; 3], Vec<PositionedRecord>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = SimVfs::new();
    let instance = open(&disk, SIZE, 256).unwrap();
    let (_db, tree) = database(&instance, DATABASES[0]);
    let first = pages(&disk, &instance);
    let from = instance.core().log().tail();
    let mut middle = Vec::new();
    work(&instance, &tree, &mut rng, &mut || middle = pages(&disk, &instance));
    let last = pages(&disk, &instance);
    let names = LogNames::new(Path::new("/log"), FileStem::E00);
    let log = LogReader::open(Arc::new(disk), names).unwrap().unwrap();
    let records = records_from(&log, LogPosition { offset: 0, ..from });
    let records = records.into_iter().filter(|record| record.start >= from).collect();
    ([first, middle, last], records)
}

fn assert_equal(fixture: &RedoFixture, expected: &[Vec<u8>], what: &str) {
    for (number, page) in (1..).zip(expected) {
        if page.iter().any(|byte| *byte != 0) {
            assert_eq!(
                PageContent::from_bytes(&fixture.page(number)),
                PageContent::from_bytes(page),
                "{what}, page {number}"
            );
        }
    }
}

/// Checks that the macros have the form of ESE's macros. Each contains either one split, with the record of its
/// parent and its insert, or one merge, with the records of the pages above it.
fn assert_macros_of_ese(records: &[PositionedRecord]) {
    let decoded: Vec<_> = records.iter().map(|record| LogRecord::decode(&record.bytes).unwrap().0).collect();
    let mut members: Option<String> = None;
    for record in &decoded {
        let name = match record {
            LogRecord::Split2(split) if split.new_page.is_none() => "parent ",
            LogRecord::Insert(insert) if insert.node.page.before == DbTime(u64::MAX) => "insert ",
            LogRecord::Split2(_) => "split ",
            LogRecord::Merge2(merge) if merge.merge_type == merge_type::PATH => "path ",
            LogRecord::Merge2(_) => "merge ",
            LogRecord::MacroBegin(_) => {
                assert!(members.replace(String::new()).is_none());
                continue;
            }
            LogRecord::MacroCommit(_) => {
                let members = members.take().unwrap();
                let of_merge = members.strip_prefix("path ").map(|rest| rest.trim_start_matches("path "));
                let known = ["parent split insert ", "parent split ", "split insert ", "split "];
                assert!(known.contains(&members.as_str()) || of_merge == Some("merge "), "{members}");
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

/// Checks that all changes are in transactions. ESE redoes a change only after a Begin0 of its session, and skips
/// other changes.
fn assert_changes_are_in_transactions(records: &[PositionedRecord]) {
    let mut open = BTreeMap::new();
    let mut changes = 0;
    for stored in records {
        let (record, _) = LogRecord::decode(&stored.bytes).unwrap();
        let procid = match &record {
            LogRecord::Begin0(begin) => {
                open.insert(begin.procid, begin.begin0);
                continue;
            }
            LogRecord::Commit0(commit) => {
                assert!(open.remove(&commit.procid).is_some(), "{record:?} at {:?}", stored.start);
                continue;
            }
            LogRecord::MacroBegin(bracket) | LogRecord::MacroCommit(bracket) => bracket.procid,
            LogRecord::NewPage(new) => new.procid,
            LogRecord::Rollback(rollback) => {
                assert!(open.contains_key(&rollback.procid), "{record:?} at {:?}", stored.start);
                continue;
            }
            // The deletion of a node may already have been committed. ESE must not treat the record as part of the
            // session's next transaction.
            LogRecord::UndoInfo(info) => {
                let page = &info.node.page;
                let session = if open.get(&1) == Some(&page.begin0) { 1 } else { SYSTEM_PROCID };
                assert_eq!(page.procid, session, "{:?}", stored.start);
                continue;
            }
            _ => match record.page_change() {
                Some(change) => change.procid,
                None => continue,
            },
        };
        assert!(open.contains_key(&procid), "{record:?} at {:?}", stored.start);
        changes += 1;
    }
    assert!(changes > 1000, "{changes}");
}

/// Redoes the log of some work, first on the pages from before the work. Then redoes it on a mix of pages from
/// different times, as a crash would leave them. Returns the records.
fn assert_redo_gives_the_same_pages(
    seed: u64,
    work: impl FnOnce(&Instance, &Arc<Tree>, &mut ChaCha8Rng, &mut dyn FnMut()),
) -> Vec<LogRecord> {
    let ([mut first, middle, last], records) = worked(seed, work);
    first.resize(last.len(), vec![0; SIZE.bytes()]);
    assert_macros_of_ese(&records);
    assert_changes_are_in_transactions(&records);
    let mut fixture = RedoFixture::on(&first.concat());
    fixture.replay_stored(records.clone()).unwrap();
    assert_equal(&fixture, &last, &format!("seed {seed}"));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mixed: Vec<u8> = (0..first.len())
        .flat_map(|at| {
            let moment = [&first, &middle, &last][rng.random_range(0..3)];
            moment.get(at).unwrap_or(&first[at]).clone()
        })
        .collect();
    let mut fixture = RedoFixture::on(&mixed);
    fixture.replay_stored(records.clone()).unwrap();
    assert_equal(&fixture, &last, &format!("seed {seed}, mixed"));
    records.iter().map(|record| LogRecord::decode(&record.bytes).unwrap().0).collect()
}

/// Returns the number of merges of each type.
fn merges(records: &[LogRecord]) -> BTreeMap<u8, usize> {
    let mut merges = BTreeMap::new();
    for record in records {
        if let LogRecord::Merge2(merge) = record {
            *merges.entry(merge.merge_type).or_default() += 1;
        }
    }
    merges
}

#[test]
fn redo_of_an_engine_log_produces_the_engine_pages() {
    let (mut splits, mut found) = (0, BTreeMap::<u8, usize>::new());
    for seed in 0..4 {
        let records = assert_redo_gives_the_same_pages(seed, random_work);
        splits += records.iter().filter(|record| matches!(record, LogRecord::Split2(_))).count();
        for (kind, count) in merges(&records) {
            *found.entry(kind).or_default() += count;
        }
    }
    println!("{splits} splits, merges by type: {found:?}");
    assert!(splits > 50, "{splits}");
    use merge_type::{EMPTY_PAGE, FULL_RIGHT, PARTIAL_LEFT, PARTIAL_RIGHT, PATH};
    assert!(
        [PATH, EMPTY_PAGE, FULL_RIGHT, PARTIAL_RIGHT, PARTIAL_LEFT]
            .iter()
            .all(|kind| found.contains_key(kind))
    );
}

#[test]
fn redo_removes_internal_pages_together_with_their_leaves() {
    let (mut keys_changed, mut pages_emptied) = (0, 0);
    for seed in 0..3 {
        for record in assert_redo_gives_the_same_pages(seed, range_deletes) {
            if let LogRecord::Merge2(merge) = record
                && merge.merge_type == merge_type::PATH
            {
                keys_changed += usize::from(merge.flags == MergeFlags::KEY_CHANGE);
                pages_emptied += usize::from(merge.flags == MergeFlags::EMPTY_PAGE);
            }
        }
    }
    println!("{keys_changed} keys changed, {pages_emptied} internal pages emptied");
    assert!(keys_changed > 5 && pages_emptied > 5, "{keys_changed} {pages_emptied}");
}
