//! Redo in the order of pages against redo in the order of the log; pages that it must read, and those that it leaves to
//! who reads them; changes that a crash cuts in two; sessions that share pages.

use std::path::Path;

use ese_format::checksum::seal_page;
use ese_format::log::record::LogRecord;
use ese_format::page::{Page, PageFlags, PageMut};
use ese_format::{LogPosition, LogTime, PageSize, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{RecoverySummary, open_log_with};
use crate::btree::tests::{Model, contents, create_tree, open, open_as, open_with, transaction};
use crate::btree::{Bookmark, Seek, Tree, TreeCursor};
use crate::cache::{Cache, CacheOptions, EvictionPolicy};
use crate::core::Core;
use crate::database::Database;
use crate::double_write;
use crate::instance::InstanceListener;
use crate::log::{LogNames, LogReader};
use crate::maintenance::cleanup;
use crate::transaction::ActiveTransaction;
use crate::{CreateOptions, Error, Instance, InstanceOptions};

const DATABASES: [&str; 2] = ["/db/one.edb", "/db/two.edb"];

/// A new database with an empty tree.
fn database(instance: &Instance, path: &str) -> (Arc<Database>, Arc<Tree>) {
    let create = CreateOptions { initial_pages: 256, extension_pages: 32 };
    let db = instance.create_database(Path::new(path), &create).unwrap();
    let tree = create_tree(instance, &db, PageFlags::empty());
    (db, tree)
}

/// The record with this key, as the session sees it.
fn at(tree: &Arc<Tree>, session: &ActiveTransaction, key: &[u8]) -> Bookmark {
    let mut cursor = TreeCursor::new(tree.clone());
    assert!(cursor.seek(&session.view(), key, Seek::Equal).unwrap());
    cursor.bookmark().unwrap().clone()
}

/// A disk on which a crash ended random work in two databases.
fn crashed(seed: u64, size: PageSize) -> SimVfs {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = SimVfs::new();
    let instance = open(&disk, size, 64).unwrap();
    let mut trees: Vec<_> =
        DATABASES.iter().map(|path| (database(&instance, path).1, Model::new())).collect();
    instance.checkpoint().unwrap();
    let core = instance.core().clone();
    let mut sessions: Vec<_> = (1..3).map(|procid| ActiveTransaction::new(core.clone(), procid)).collect();
    for round in 0..120 {
        let which = rng.random_range(0..2);
        let (tree, model) = &mut trees[which];
        let space = if round < 80 { 1500 } else { 100 };
        let session = &mut sessions[rng.random_range(0..2)];
        transaction(tree, session, model, &mut rng, space, size.bytes() / 3).unwrap();
        if round % 5 == 0 {
            cleanup::step(&core, 3).unwrap();
        }
        // Pages that recovery need not build are on the disk.
        if round == 60 {
            instance.step().unwrap();
            core.databases().iter().for_each(|db| core.cache.flush_file(db.file_id()).unwrap());
            instance.checkpoint().unwrap();
        }
    }
    // Two that do not end.
    for (session, (tree, model)) in sessions.iter_mut().zip(&trees) {
        session.begin().unwrap();
        for (key, _) in model.iter().step_by(7) {
            let bookmark = at(tree, session, key);
            match rng.random_bool(0.5) {
                true => tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap(),
                false => tree.replace(session.changes().unwrap(), &bookmark, b"uncommitted").unwrap(),
            }
        }
    }
    instance.flush().unwrap();
    match seed.is_multiple_of(3) {
        true => disk.process_kill(),
        false => disk.crash(seed, CrashOptions::default()),
    }
}

/// Recovers a copy of the disk with so much memory for the log; the pages then, without what depends on how often
/// they were written.
fn recovered(disk: &SimVfs, size: PageSize, memory: usize) -> (RecoverySummary, Vec<Vec<u8>>) {
    let disk = disk.clone_disk();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(64 * size.bytes(), size, vfs.clock()));
    let mut options = InstanceOptions::new(vfs.clone(), "/log".into(), cache.clone());
    options.threads = false;
    let core = Core::new(vfs, cache.clone(), options.version_store_bytes);
    let fresh = Signature::new(1, LogTime::NONE);
    let opened = open_log_with(
        &core,
        &options,
        fresh,
        Arc::new(InstanceListener::new(&core)),
        cache.grant_memory(0),
        memory,
    )
    .unwrap();
    assert_eq!((opened.summary.left_attached, core.databases().len()), (2, 2));
    core.databases().iter().for_each(|database| core.detach(database, LogTime::NONE).unwrap());
    let pages = DATABASES.iter().flat_map(|path| {
        let mut bytes = disk.contents(Path::new(path)).unwrap();
        bytes.drain(..2 * size.bytes());
        bytes.chunks(size.bytes()).map(<[u8]>::to_vec).collect::<Vec<_>>()
    });
    let masked = pages.map(|mut page| {
        page[..8].fill(0);
        if size.is_large() {
            page[40..64].fill(0);
        }
        let flags = u32::from_le_bytes(page[36..40].try_into().unwrap()) & !PageFlags::FLUSH_TYPE.bits();
        page[36..40].copy_from_slice(&flags.to_le_bytes());
        page
    });
    (opened.summary, masked.collect())
}

#[test]
fn any_window_brings_the_pages_to_the_same_bytes_as_one_record_at_a_time() {
    let mut kept = 0;
    for seed in 0..9 {
        let size = [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_32][seed as usize % 3];
        let disk = crashed(seed, size);
        let (summary, expected) = recovered(&disk, size, 0);
        assert!(summary.applied > 100, "{summary:?}");
        for memory in [10_000, 100_000, usize::MAX] {
            let (other, pages) = recovered(&disk, size, memory);
            assert_eq!((other.records, other.rolled_back), (summary.records, summary.rolled_back));
            kept += other.deferred;
            assert_eq!(pages.len(), expected.len());
            for (at, (page, expected)) in pages.iter().zip(&expected).enumerate() {
                assert!(page == expected, "seed {seed}, {memory} bytes, page {at} differs");
            }
        }
    }
    assert!(kept > 300, "hardly a page was not read: {kept} changes");
}

/// Recovery that reads every page names it. Of a page whose changes records alone tell it shows when somebody reads it, and
/// no checkpoint leaves behind what brings it forward.
#[test]
fn a_lost_write_is_found_by_who_reads_the_page_first() {
    let size = PageSize::KIB_4;
    let disk = SimVfs::new();
    let instance = open_with(&disk, size, 64, false).unwrap();
    let (db, tree) = database(&instance, DATABASES[0]);
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    let mut insert = |key: &[u8]| {
        session.begin().unwrap();
        tree.insert(session.changes().unwrap(), key, b"data").unwrap();
        session.commit().unwrap();
    };
    insert(b"one");
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let old = disk.contents(Path::new(DATABASES[0])).unwrap();
    insert(b"two");
    instance.step().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    instance.checkpoint().unwrap();
    insert(b"three");
    instance.flush().unwrap();

    let reopened = |disk: &SimVfs| {
        let instance = open_with(disk, size, 64, false).unwrap();
        assert_eq!((instance.recovery().applied, instance.recovery().deferred), (0, 1));
        let view = ActiveTransaction::new(instance.core().clone(), 1).view();
        let get = |key: &[u8]| {
            instance.core().databases()[0].trees.tree_at(tree.root)?.get(&view, key, |data| data.to_vec())
        };
        let found = [get(b"two"), get(b"three")];
        (instance, found)
    };
    let (_, found) = reopened(&disk.process_kill());
    assert_eq!(found.map(Result::unwrap), [Some(b"data".to_vec()), Some(b"data".to_vec())]);

    let mut disk = disk.process_kill();
    let mut bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    let page = size.offset_of(tree.root) as usize..size.offset_of(tree.root) as usize + size.bytes();
    bytes[page.clone()].copy_from_slice(&old[page]);
    disk.put(Path::new(DATABASES[0]), &bytes);
    let reads_all = CacheOptions {
        eviction: EvictionPolicy::WriteBack,
        ..CacheOptions::new(64 * size.bytes(), size, disk.clock())
    };
    let Err(error) = open_as(&disk.process_kill(), reads_all, false) else {
        panic!("a lost write went unnoticed")
    };
    let text = error.to_string();
    assert!(matches!(error, Error::Corrupt { page: Some(page), .. } if page == tree.root), "{text}");
    assert!(text.contains("older than the log expects") && text.contains("a write was lost"), "{text}");
    for _ in 0..2 {
        disk = disk.process_kill();
        let (instance, found) = reopened(&disk);
        for found in found {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("a write was lost"), "{error}");
        }
        assert!(instance.core().cache.flush_file(db.file_id()).is_err());
        instance.checkpoint().unwrap();
    }
}

/// What a change has hidden that is to be taken back, and the key of a deleted node that is to be removed, only the page
/// tells: recovery reads it. Else it keeps the changes for the page.
#[test]
fn a_page_that_has_something_to_tell_is_read() {
    let size = PageSize::KIB_4;
    type Work = fn(&Arc<Tree>, &mut ActiveTransaction, &Instance);
    type Records = &'static [(&'static [u8], &'static [u8])];
    // What is done, how many changes are kept, and what is there after recovery.
    let cases: [(&str, Work, u64, Records); 5] = [
        (
            "replaced, not committed",
            |tree, session, _| {
                let bookmark = at(tree, session, b"a");
                tree.replace(session.changes().unwrap(), &bookmark, b"new").unwrap()
            },
            0,
            &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")],
        ),
        (
            "deleted, not committed",
            |tree, session, _| {
                let bookmark = at(tree, session, b"a");
                tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap()
            },
            0,
            &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")],
        ),
        (
            "deleted, not cleaned up",
            |tree, session, _| {
                {
                    let bookmark = at(tree, session, b"b");
                    tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap()
                };
                tree.insert(session.changes().unwrap(), b"aa", b"4").unwrap();
                session.commit().unwrap();
            },
            0,
            &[(b"a", b"1"), (b"aa", b"4"), (b"c", b"3")],
        ),
        (
            "deleted and cleaned up behind an insert",
            |tree, session, instance| {
                {
                    let bookmark = at(tree, session, b"b");
                    tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap()
                };
                tree.insert(session.changes().unwrap(), b"aa", b"4").unwrap();
                session.commit().unwrap();
                instance.step().unwrap();
            },
            3,
            &[(b"a", b"1"), (b"aa", b"4"), (b"c", b"3")],
        ),
        (
            "replaced",
            |tree, session, _| {
                {
                    let bookmark = at(tree, session, b"c");
                    tree.replace(session.changes().unwrap(), &bookmark, b"new").unwrap()
                };
                session.commit().unwrap();
            },
            1,
            &[(b"a", b"1"), (b"b", b"2"), (b"c", b"new")],
        ),
    ];
    for (what, work, kept, expected) in cases {
        let disk = SimVfs::new();
        let instance = open(&disk, size, 64).unwrap();
        let (db, tree) = database(&instance, DATABASES[0]);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        for (key, data) in [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")] {
            tree.insert(session.changes().unwrap(), key, data).unwrap();
        }
        session.commit().unwrap();
        instance.step().unwrap();
        instance.core().cache.flush_file(db.file_id()).unwrap();
        instance.checkpoint().unwrap();
        session.begin().unwrap();
        work(&tree, &mut session, &instance);
        instance.flush().unwrap();

        let instance = open(&disk.process_kill(), size, 64).unwrap();
        assert_eq!(instance.recovery().deferred, kept, "{what}");
        let db = &instance.core().databases()[0];
        let tree = db.trees.tree_at(tree.root).unwrap();
        let view = ActiveTransaction::new(instance.core().clone(), 1).view();
        let expected: Model = expected.iter().map(|(key, data)| (key.to_vec(), data.to_vec())).collect();
        assert_eq!(contents(&tree, &view), expected, "{what}");
        let nodes = Page::new(&db.file.pin(tree.root).unwrap().read(), size).node_count();
        assert_eq!(nodes, expected.len(), "{what}");
    }
}

/// An undo of a replace is two records. A crash of recovery may leave the page with the first and not the second, which
/// is of no use to a redo that begins between them.
#[test]
fn a_page_that_has_half_an_undo_holds_the_checkpoint_before_it() {
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
    let reader = LogReader::open(Arc::new(disk.clone()), LogNames::new(Path::new("/log"), "E00")).unwrap();
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

/// An undo that comes right behind somebody else's replace on the same page is still an undo.
#[test]
fn an_undo_behind_anothers_replace_is_redone() {
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
        match delete {
            true => tree.flag_delete(one.changes().unwrap(), &deleted).unwrap(),
            false => tree.insert(one.changes().unwrap(), b"inserted", b"new").unwrap(),
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
            let found = cursor.seek(&session.view(), key, Seek::Equal).unwrap();
            found.then(|| cursor.data().to_vec())
        };
        assert_eq!(found(b"inserted"), None, "deleted: {delete}");
        assert_eq!(found(b"deleted").as_deref(), Some(&b"old"[..]), "deleted: {delete}");
        assert_eq!(found(b"replaced").as_deref(), Some(&b"new"[..]), "deleted: {delete}");
    }
}

/// Sessions that change neighbouring records by turns, and take some of it back.
#[test]
fn transactions_that_share_pages_are_recovered_as_they_ended() {
    let mut kept = 0;
    for seed in 0..120 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        let (db, tree) = database(&instance, DATABASES[0]);
        let mut sessions =
            [0, 1, 2].map(|number| (ActiveTransaction::new(instance.core().clone(), number + 1), None));
        let mut committed = Model::new();
        for _ in 0..rng.random_range(20..200) {
            let number = rng.random_range(0..3);
            let (session, changed) = &mut sessions[number];
            let changes: &mut Model = match changed {
                Some(changes) => changes,
                None => {
                    session.begin().unwrap();
                    changed.insert(committed.clone())
                }
            };
            // Each has keys of its own, beside those of the others.
            let key = vec![rng.random_range(0..30) * 3 + number as u8];
            let data = vec![rng.random(); rng.random_range(1..200)];
            let mut cursor = TreeCursor::new(tree.clone());
            if !cursor.seek(&session.view(), &key, Seek::Equal).unwrap() {
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
                    let own = |key: &Vec<u8>| usize::from(key[0]) % 3 == number;
                    let own_now = changed.take().unwrap().into_iter().filter(|(key, _)| own(key));
                    committed.retain(|key, _| !own(key));
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
        let end = |disk: &SimVfs, kill| match kill {
            true => disk.process_kill(),
            false => disk.crash(seed, CrashOptions::default()),
        };
        let mut disk = end(&disk, rng.random_bool(0.5));
        // Recovery is cut off, too.
        for _ in 0..rng.random_range(0..3) {
            disk.stop_after(rng.random_range(1..60));
            drop(open(&disk, PageSize::KIB_4, 64));
            disk = end(&disk, rng.random_bool(0.5));
        }
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        kept += instance.recovery().deferred;
        let tree = instance.core().databases()[0].trees.tree_at(tree.root).unwrap();
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        assert!(contents(&tree, &session.view()) == committed, "seed {seed}");
    }
    assert!(kept > 20, "hardly a page was not read: {kept} changes");
}

/// An operator puts an older, clean copy of a database back, moves the logs away, and forgets the page images: these are of
/// times that never were, and later than what the database goes on to.
#[test]
fn images_of_an_abandoned_past_are_not_restored() {
    let size = PageSize::KIB_4;
    let path = Path::new(DATABASES[0]);
    let disk = SimVfs::new();
    let instance = open(&disk, size, 64).unwrap();
    let (_, tree) = database(&instance, DATABASES[0]);
    let root = tree.root;
    let put = |instance: &Instance, key: &[u8], data: &[u8]| {
        let db = instance.core().databases()[0].clone();
        let tree = db.trees.tree_at(root).unwrap();
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        tree.insert(session.changes().unwrap(), key, data).unwrap();
        session.commit().unwrap();
        instance.core().cache.flush_file(db.file_id()).unwrap();
    };
    put(&instance, b"first", b"old");
    drop(tree);
    instance.shutdown().unwrap();
    drop(instance);
    let copy = disk.contents(path).unwrap();

    let instance = open(&disk, size, 64).unwrap();
    instance.attach(path, 32).unwrap();
    for number in 0..9u8 {
        put(&instance, &[number], b"abandoned");
    }
    let abandoned = disk.process_kill();
    abandoned.put(path, &copy);
    for name in abandoned.list(Path::new("/log")).unwrap() {
        abandoned.remove(&name).unwrap();
    }

    let no_name =
        CrashOptions { lose_name: 1.0, lose_write: 0.0, tear_write: 0.0, ..CrashOptions::default() };
    let no_name = CrashOptions { all_or_nothing: 0.0, lose_length: 0.0, ..no_name };
    for protect in [true, false] {
        let disk = abandoned.process_kill();
        let instance = open_with(&disk, size, 64, protect).unwrap();
        instance.attach(path, 32).unwrap();
        put(&instance, b"second", b"new");
        let instance = open_with(&disk.crash(1, no_name), size, 64, protect).unwrap();
        let tree = instance.core().databases()[0].trees.tree_at(root).unwrap();
        let view = ActiveTransaction::new(instance.core().clone(), 1).view();
        let expected = [(&b"first"[..], &b"old"[..]), (b"second", b"new")];
        let expected: Model = expected.map(|(key, data)| (key.to_vec(), data.to_vec())).into();
        assert_eq!(contents(&tree, &view), expected, "protection {protect}");
        assert_eq!(instance.recovery().torn_pages, 0, "protection {protect}");
    }
}

/// Images that are not kept up are of no use once the torn pages are mended.
#[test]
fn recovery_without_protection_leaves_no_images() {
    let size = PageSize::KIB_4;
    let disk = SimVfs::new();
    let instance = open(&disk, size, 64).unwrap();
    let (db, tree) = database(&instance, DATABASES[0]);
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    session.begin().unwrap();
    tree.insert(session.changes().unwrap(), b"key", b"data").unwrap();
    session.commit().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let disk = disk.process_kill();
    let torn = size.offset_of(tree.root) + size.bytes() as u64 / 2;
    disk.corrupt(Path::new(DATABASES[0]), torn, &[0xAA; 512]).unwrap();

    for cut in 1..60 {
        let disk = disk.process_kill();
        disk.stop_after(cut);
        let _ = open_with(&disk, size, 64, false);
        let disk = disk.crash(cut, CrashOptions::default());
        let instance = open_with(&disk, size, 64, false).unwrap();
        let side = double_write::path_of(Path::new(DATABASES[0]));
        let lost = CrashOptions { lose_name: 1.0, ..CrashOptions::default() };
        assert!(!disk.crash(1, lost).exists(&side).unwrap(), "cut {cut}");
        let tree = instance.core().databases()[0].trees.tree_at(tree.root).unwrap();
        let view = ActiveTransaction::new(instance.core().clone(), 1).view();
        assert_eq!(contents(&tree, &view), [(b"key".to_vec(), b"data".to_vec())].into(), "cut {cut}");
    }
}
