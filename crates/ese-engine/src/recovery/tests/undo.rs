//! Tests of undo: changes that are only partly on disk after a crash, and sessions that share pages.

use std::path::Path;

use ese_format::checksum::seal_page;
use ese_format::log::record::LogRecord;
use ese_format::page::PageMut;
use ese_format::{LogPosition, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FileStem, SimVfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{DATABASES, at, database};
use crate::btree::tests::{TreeModel, contents, open, open_with};
use crate::btree::{SeekRelation, TreeCursor};
use crate::log::{LogNames, LogReader};
use crate::transaction::ActiveTransaction;

/// Undoing a replace takes two records. After a crash, a page may have the first change but not the second. If redo
/// starts between the two records, it cannot repeat the second one.
#[test]
fn a_partially_undone_page_holds_the_checkpoint_before_the_undo() {
    let size = PageSize::KIB_4;
    let disk = SimVfs::new();
    let instance = open_with(&disk, size, 64, false).unwrap();
    let (db, tree) = database(&instance, DATABASES[0]);
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    session.begin().unwrap();
    tree.insert(session.changes().unwrap(), b"key", b"before").unwrap();
    session.commit().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    instance.checkpoint().unwrap();
    session.begin().unwrap();
    let key = at(&tree, &session, b"key");
    tree.replace(session.changes().unwrap(), &key, b"replaced").unwrap();
    session.rollback().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let disk = disk.process_kill();

    let mut undo = None;
    let reader =
        LogReader::open(Arc::new(disk.clone()), LogNames::new(Path::new("/log"), FileStem::E00)).unwrap();
    let read = reader.unwrap().read_from(LogPosition::new(1, 1, 0), |stored| {
        if let (LogRecord::Undo(record), _) = LogRecord::decode(&stored.bytes).unwrap() {
            undo = Some((stored.start, record.node.page));
        }
        Ok(())
    });
    read.unwrap();
    let (start, undo) = undo.unwrap();
    let mut bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    let page = &mut bytes[size.offset_of(undo.page) as usize..][..size.bytes()];
    PageMut::new(page, size).set_db_time(undo.before);
    seal_page(page, size, undo.page);
    disk.put(Path::new(DATABASES[0]), &bytes);

    let instance = open_with(&disk, size, 64, false).unwrap();
    assert_eq!(instance.recovery().applied, 1);
    assert!(instance.checkpoint().unwrap() < start);
    let instance = open_with(&disk.process_kill(), size, 64, false).unwrap();
    assert_eq!(instance.recovery().applied, 1);
}

/// An Undo record is redone as an undo even if it directly follows another session's replace on the same page.
#[test]
fn an_undo_after_a_replace_by_another_session_is_redone() {
    for delete in [false, true] {
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        let (db, tree) = database(&instance, DATABASES[0]);
        let [mut one, mut other] =
            [1, 2].map(|procid| ActiveTransaction::new(instance.core().clone(), procid));
        one.begin().unwrap();
        for key in [&b"replaced"[..], b"deleted"] {
            tree.insert(one.changes().unwrap(), key, b"old").unwrap();
        }
        one.commit().unwrap();
        instance.core().cache.flush_file(db.file_id()).unwrap();
        instance.checkpoint().unwrap();
        one.begin().unwrap();
        other.begin().unwrap();
        let deleted = at(&tree, &one, b"deleted");
        if delete {
            tree.flag_delete(one.changes().unwrap(), &deleted).unwrap();
        } else {
            tree.insert(one.changes().unwrap(), b"inserted", b"new").unwrap();
        }
        let replaced = at(&tree, &other, b"replaced");
        tree.replace(other.changes().unwrap(), &replaced, b"new").unwrap();
        one.rollback().unwrap();
        other.commit().unwrap();
        instance.flush().unwrap();

        let instance = open(&disk.process_kill(), PageSize::KIB_4, 64).unwrap();
        assert!(instance.recovery().applied >= 3, "{:?}", instance.recovery());
        let tree = instance.core().databases()[0].trees.tree_at(tree.root).unwrap();
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        let found = |key: &[u8]| {
            let mut cursor = TreeCursor::new(tree.clone());
            let found = cursor.seek(&session.view(), key, SeekRelation::Equal).unwrap();
            found.then(|| cursor.data().to_vec())
        };
        assert_eq!(found(b"inserted"), None, "deleted: {delete}");
        assert_eq!(found(b"deleted").as_deref(), Some(&b"old"[..]), "deleted: {delete}");
        assert_eq!(found(b"replaced").as_deref(), Some(&b"new"[..]), "deleted: {delete}");
    }
}

/// Sessions take turns changing neighbouring records, and roll back some transactions.
#[test]
fn transactions_that_share_pages_are_recovered() {
    let mut deferred = 0;
    for seed in 0..120 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        let (db, tree) = database(&instance, DATABASES[0]);
        let mut sessions =
            [0, 1, 2].map(|number| (ActiveTransaction::new(instance.core().clone(), number + 1), None));
        let mut committed = TreeModel::new();
        for _ in 0..rng.random_range(20..200) {
            let number = rng.random_range(0..3);
            let (session, changed) = &mut sessions[number];
            let changes: &mut TreeModel = match changed {
                Some(changes) => changes,
                None => {
                    session.begin().unwrap();
                    changed.insert(committed.clone())
                }
            };
            // Each session has its own keys, which alternate with those of the other sessions.
            let key = vec![rng.random_range(0..30) * 3 + number as u8];
            let data = vec![rng.random(); rng.random_range(1..200)];
            let mut cursor = TreeCursor::new(tree.clone());
            if !cursor.seek(&session.view(), &key, SeekRelation::Equal).unwrap() {
                assert_eq!(changes.insert(key.clone(), data.clone()), None, "seed {seed}");
                tree.insert(session.changes().unwrap(), &key, &data).unwrap();
            } else if rng.random_bool(0.4) {
                changes.remove(&key).unwrap();
                tree.flag_delete(session.changes().unwrap(), &cursor.bookmark().unwrap().clone()).unwrap();
            } else {
                changes.insert(key, data.clone()).unwrap();
                tree.replace(session.changes().unwrap(), &cursor.bookmark().unwrap().clone(), &data).unwrap();
            }
            match rng.random_range(0..10) {
                0..3 => {
                    session.commit().unwrap();
                    let is_own = |key: &Vec<u8>| usize::from(key[0]) % 3 == number;
                    let own_now = changed.take().unwrap().into_iter().filter(|(key, _)| is_own(key));
                    committed.retain(|key, _| !is_own(key));
                    committed.extend(own_now);
                }
                3..5 => {
                    session.rollback().unwrap();
                    *changed = None;
                }
                5 => instance.step().unwrap(),
                6 if rng.random_bool(0.6) => instance.core().cache.flush_file(db.file_id()).unwrap(),
                7 if rng.random_bool(0.6) => drop(instance.checkpoint().unwrap()),
                _ => {}
            }
        }
        instance.flush().unwrap();
        let end = |disk: &SimVfs, kill| {
            if kill { disk.process_kill() } else { disk.crash(seed, CrashOptions::default()) }
        };
        let mut disk = end(&disk, rng.random_bool(0.5));
        // Recovery itself also crashes.
        for _ in 0..rng.random_range(0..3) {
            disk.cut_power_after(rng.random_range(1..60));
            drop(open(&disk, PageSize::KIB_4, 64));
            disk = end(&disk, rng.random_bool(0.5));
        }
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        deferred += instance.recovery().deferred;
        let tree = instance.core().databases()[0].trees.tree_at(tree.root).unwrap();
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        assert!(contents(&tree, &session.view()) == committed, "seed {seed}");
    }
    assert!(deferred > 20, "recovery read nearly every page: {deferred} changes deferred");
}
