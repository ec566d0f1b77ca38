//! Tests that page-by-page replay gives the same result as record-by-record replay, and tests of pages that recovery
//! does not read.

use std::path::Path;

use ese_format::page::{Page, PageFlags};
use ese_format::{LogTime, PageSize, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{DATABASES, at, database};
use crate::btree::Tree;
use crate::btree::tests::{TreeModel, contents, open, open_as, open_with, transaction};
use crate::cache::{Cache, CacheOptions, EvictionPolicy};
use crate::core::Core;
use crate::instance::InstanceListener;
use crate::maintenance::cleanup;
use crate::recovery::{RecoverySummary, open_log_with};
use crate::transaction::ActiveTransaction;
use crate::{BackgroundThreads, Error, Instance, InstanceOptions};

/// Returns a disk after a crash during random work in two databases.
fn crashed(seed: u64, size: PageSize) -> SimVfs {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let disk = SimVfs::new();
    let instance = open(&disk, size, 64).unwrap();
    let mut trees: Vec<_> =
        DATABASES.iter().map(|path| (database(&instance, path).1, TreeModel::new())).collect();
    instance.checkpoint().unwrap();
    let core = instance.core().clone();
    let mut sessions: Vec<_> = (1..3).map(|procid| ActiveTransaction::new(core.clone(), procid)).collect();
    for round in 0..160 {
        let which = rng.random_range(0..2);
        let (tree, model) = &mut trees[which];
        let space = if round < 100 { 1500 } else { 100 };
        let session = &mut sessions[rng.random_range(0..2)];
        transaction(tree, session, model, &mut rng, space, size.bytes() / 3).unwrap();
        if round % 5 == 0 {
            cleanup::step(&core, 3).unwrap();
        }
        // Some pages are written to disk, so recovery need not change them.
        if round == 60 {
            instance.step().unwrap();
            core.databases().iter().for_each(|db| core.cache.flush_file(db.file_id()).unwrap());
            instance.checkpoint().unwrap();
        }
    }
    // Two transactions remain unfinished.
    for (session, (tree, model)) in sessions.iter_mut().zip(&trees) {
        session.begin().unwrap();
        for (key, _) in model.iter().step_by(7) {
            let bookmark = at(tree, session, key);
            if rng.random_bool(0.5) {
                tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
            } else {
                tree.replace(session.changes().unwrap(), &bookmark, b"uncommitted").unwrap();
            }
        }
    }
    instance.flush().unwrap();
    if seed.is_multiple_of(3) { disk.process_kill() } else { disk.crash(seed, CrashOptions::default()) }
}

/// Recovers a copy of the disk with `memory` bytes for the log. Returns the pages, excluding fields that depend on
/// how often they were written.
fn recovered(disk: &SimVfs, size: PageSize, memory: usize) -> (RecoverySummary, Vec<Vec<u8>>) {
    let disk = disk.clone_disk();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(64 * size.bytes(), size, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs.clone(), "/log".into(), cache.clone());
    options.background = BackgroundThreads::None;
    let core = Core::new(
        vfs,
        cache.clone(),
        options.version_store_bytes,
        crate::events::EventReporter::discarding(),
    );
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
fn every_window_size_recovers_the_same_bytes() {
    let mut deferred = 0;
    for seed in 0..12 {
        let size = [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_32][seed as usize % 3];
        let disk = crashed(seed, size);
        let (summary, expected) = recovered(&disk, size, 0);
        assert!(summary.applied > 100, "{summary:?}");
        for memory in [10_000, 100_000, usize::MAX] {
            let (other, pages) = recovered(&disk, size, memory);
            assert_eq!((other.records, other.rolled_back), (summary.records, summary.rolled_back));
            deferred += other.deferred;
            assert_eq!(pages.len(), expected.len());
            for (at, (page, expected)) in pages.iter().zip(&expected).enumerate() {
                assert!(page == expected, "seed {seed}, {memory} bytes, page {at} differs");
            }
        }
    }
    assert!(deferred > 300, "recovery read nearly every page: {deferred} changes deferred");
}

/// If recovery reads the page, it reports the lost write. If not, the first read of the page reports it, and the
/// checkpoint never advances past the page's changes.
#[test]
fn a_lost_write_is_reported_by_the_first_read_of_the_page() {
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
            #[allow(
                clippy::redundant_closure_for_method_calls,
                reason = "the method has no type that fits all lifetimes"
            )]
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
        panic!("a lost write was not reported")
    };
    let text = error.to_string();
    assert!(matches!(error, Error::PageTime { page, .. } if page == tree.root), "{text}");
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

/// The before-image of a change that undo reverts, and the key of a deleted node that cleanup removes, exist only on
/// the page. Recovery reads the page if it needs one of them; otherwise it defers the changes.
#[test]
fn recovery_reads_a_page_only_if_it_needs_information_from_it() {
    let size = PageSize::KIB_4;
    type TreeOperation = fn(&Arc<Tree>, &mut ActiveTransaction, &Instance);
    type Records = &'static [(&'static [u8], &'static [u8])];
    // Each case lists the operation to perform, the expected number of deferred changes, and the expected records after
    // recovery.
    let cases: [(&str, TreeOperation, u64, Records); 5] = [
        (
            "replaced, not committed",
            |tree, session, _| {
                let bookmark = at(tree, session, b"a");
                tree.replace(session.changes().unwrap(), &bookmark, b"new").unwrap();
            },
            0,
            &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")],
        ),
        (
            "deleted, not committed",
            |tree, session, _| {
                let bookmark = at(tree, session, b"a");
                tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
            },
            0,
            &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")],
        ),
        (
            "deleted, not cleaned up",
            |tree, session, _| {
                let bookmark = at(tree, session, b"b");
                tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
                tree.insert(session.changes().unwrap(), b"aa", b"4").unwrap();
                session.commit().unwrap();
            },
            0,
            &[(b"a", b"1"), (b"aa", b"4"), (b"c", b"3")],
        ),
        (
            "deleted and cleaned up behind an insert",
            |tree, session, instance| {
                let bookmark = at(tree, session, b"b");
                tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
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
                let bookmark = at(tree, session, b"c");
                tree.replace(session.changes().unwrap(), &bookmark, b"new").unwrap();
                session.commit().unwrap();
            },
            1,
            &[(b"a", b"1"), (b"b", b"2"), (b"c", b"new")],
        ),
    ];
    for (what, work, deferred, expected) in cases {
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
        assert_eq!(instance.recovery().deferred, deferred, "{what}");
        let db = &instance.core().databases()[0];
        let tree = db.trees.tree_at(tree.root).unwrap();
        let view = ActiveTransaction::new(instance.core().clone(), 1).view();
        let expected: TreeModel = expected.iter().map(|(key, data)| (key.to_vec(), data.to_vec())).collect();
        assert_eq!(contents(&tree, &view), expected, "{what}");
        let nodes = Page::new(&db.file.pin(tree.root).unwrap().read(), size).node_count();
        assert_eq!(nodes, expected.len(), "{what}");
    }
}
