//! Redo in the order of pages against redo in the order of the log.

use std::path::Path;
use std::sync::Arc;

use ese_format::checksum::seal_page;
use ese_format::log::record::LogRecord;
use ese_format::page::{PageFlags, PageMut};
use ese_format::{LogPosition, LogTime, PageSize, Signature};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use vfs::{CrashOptions, SimVfs, Vfs};

use super::{RecoverySummary, open_log_with};
use crate::btree::tests::{Model, contents, create_tree, open, open_with, transaction};
use crate::btree::{Seek, TreeCursor};
use crate::cache::{Cache, CacheOptions};
use crate::core::Core;
use crate::log::{LogNames, LogReader};
use crate::session::ActiveTransaction;
use crate::{CreateOptions, InstanceOptions};

const DATABASES: [&str; 2] = ["/db/one.edb", "/db/two.edb"];

/// A disk on which a crash ended random work in two databases.
fn crashed(seed: u64, size: PageSize) -> SimVfs {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = SimVfs::new();
    let instance = open(&disk, size, 64).unwrap();
    let create = CreateOptions { initial_pages: 256, extension_pages: 32 };
    let mut trees: Vec<_> = DATABASES
        .iter()
        .map(|path| {
            let db = instance.create_database(Path::new(path), &create).unwrap();
            (create_tree(&instance, &db, PageFlags::empty()), Model::new())
        })
        .collect();
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
            core.cleanup.step(&core, 3).unwrap();
        }
    }
    // Two that do not end.
    for (session, (tree, model)) in sessions.iter_mut().zip(&trees) {
        session.begin().unwrap();
        for (key, _) in model.iter().step_by(7) {
            let mut cursor = TreeCursor::new(tree.clone());
            assert!(cursor.seek(&session.view(), key, Seek::Equal).unwrap());
            let bookmark = cursor.bookmark().unwrap().clone();
            match rng.random_bool(0.5) {
                true => tree.flag_delete(session, &bookmark).unwrap(),
                false => tree.replace(session, &bookmark, b"uncommitted").unwrap(),
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
    let opened = open_log_with(&core, &options, fresh, cache.lend(0), memory).unwrap();
    assert_eq!((opened.summary.left_attached, core.databases().len()), (2, 2));
    core.databases().iter().for_each(|database| database.detach(LogTime::NONE).unwrap());
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
    for seed in 0..9 {
        let size = [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_32][seed as usize % 3];
        let disk = crashed(seed, size);
        let (summary, expected) = recovered(&disk, size, 0);
        assert!(summary.applied > 100, "{summary:?}");
        for memory in [10_000, 100_000, usize::MAX] {
            let (other, pages) = recovered(&disk, size, memory);
            assert_eq!((other.records, other.rolled_back), (summary.records, summary.rolled_back));
            assert_eq!(pages.len(), expected.len());
            for (at, (page, expected)) in pages.iter().zip(&expected).enumerate() {
                assert!(page == expected, "seed {seed}, {memory} bytes, page {at} differs");
            }
        }
    }
}

/// An undo of a replace is two records. A crash of recovery may leave the page with the first and not the second, which
/// is of no use to a redo that begins between them.
#[test]
fn a_page_that_has_half_an_undo_holds_the_checkpoint_before_it() {
    let size = PageSize::KIB_4;
    let disk = SimVfs::new();
    let instance = open_with(&disk, size, 64, false).unwrap();
    let create = CreateOptions { initial_pages: 256, extension_pages: 32 };
    let db = instance.create_database(Path::new(DATABASES[0]), &create).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    session.begin().unwrap();
    tree.insert(&mut session, b"key", b"before").unwrap();
    session.commit().unwrap();
    instance.core().cache.flush_file(db.file_id).unwrap();
    instance.checkpoint().unwrap();
    session.begin().unwrap();
    let mut cursor = TreeCursor::new(tree.clone());
    assert!(cursor.seek(&session.view(), b"key", Seek::Equal).unwrap());
    tree.replace(&mut session, &cursor.bookmark().unwrap().clone(), b"replaced").unwrap();
    session.rollback().unwrap();
    instance.core().cache.flush_file(db.file_id).unwrap();
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
        let create = CreateOptions { initial_pages: 256, extension_pages: 32 };
        let db = instance.create_database(Path::new(DATABASES[0]), &create).unwrap();
        let tree = create_tree(&instance, &db, PageFlags::empty());
        let [mut one, mut other] =
            [1, 2].map(|procid| ActiveTransaction::new(instance.core().clone(), procid));
        let bookmark = |session: &ActiveTransaction, key: &[u8]| {
            let mut cursor = TreeCursor::new(tree.clone());
            let found = cursor.seek(&session.view(), key, Seek::Equal).unwrap();
            found.then(|| cursor.bookmark().unwrap().clone())
        };
        one.begin().unwrap();
        for key in [&b"replaced"[..], b"deleted"] {
            tree.insert(&mut one, key, b"old").unwrap();
        }
        one.commit().unwrap();
        instance.core().cache.flush_file(db.file_id).unwrap();
        instance.checkpoint().unwrap();
        one.begin().unwrap();
        other.begin().unwrap();
        let deleted = bookmark(&one, b"deleted").unwrap();
        match delete {
            true => tree.flag_delete(&mut one, &deleted).unwrap(),
            false => tree.insert(&mut one, b"inserted", b"new").unwrap(),
        }
        let replaced = bookmark(&other, b"replaced").unwrap();
        tree.replace(&mut other, &replaced, b"new").unwrap();
        one.rollback().unwrap();
        other.commit().unwrap();
        instance.flush().unwrap();

        let instance = open(&disk.process_kill(), PageSize::KIB_4, 64).unwrap();
        assert!(instance.recovery().applied >= 3, "{:?}", instance.recovery());
        let tree = instance.core().databases()[0].tree_at(tree.root).unwrap();
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
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        let create = CreateOptions { initial_pages: 256, extension_pages: 32 };
        let db = instance.create_database(Path::new(DATABASES[0]), &create).unwrap();
        let tree = create_tree(&instance, &db, PageFlags::empty());
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
                tree.insert(session, &key, &data).unwrap();
            } else if rng.random_bool(0.4) {
                changes.remove(&key).unwrap();
                tree.flag_delete(session, &cursor.bookmark().unwrap().clone()).unwrap();
            } else {
                changes.insert(key, data.clone()).unwrap();
                tree.replace(session, &cursor.bookmark().unwrap().clone(), &data).unwrap();
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
                6 if rng.random_bool(0.2) => instance.core().cache.flush_file(db.file_id).unwrap(),
                7 if rng.random_bool(0.2) => drop(instance.checkpoint().unwrap()),
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
        let tree = instance.core().databases()[0].tree_at(tree.root).unwrap();
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        assert!(contents(&tree, &session.view()) == committed, "seed {seed}");
    }
}
