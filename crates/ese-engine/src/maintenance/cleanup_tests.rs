//! Tests of cleanup when the version store is nearly full, and when pages cannot be read.

use jetcell_sync::Mutex;
use jetcell_sync::atomic::{AtomicUsize, Ordering};
use std::path::Path;

use ese_format::PageSize;
use ese_format::page::PageFlags;
use jetcell_vfs::{SimVfs, Vfs};

use super::*;
use crate::btree::tests::create_tree;
use crate::cache::{Cache, CacheOptions};
use crate::session::tests::{RECORDS, TreeFixture};
use crate::transaction::ActiveTransaction;
use crate::{BackgroundThreads, DatabaseOptions, Instance, InstanceOptions};

const SESSIONS: u16 = 4;

/// Creates an instance with a tree and a version store of `bytes` bytes.
fn with_room_for(bytes: usize) -> (Arc<Instance>, Arc<Tree>) {
    let disk: Arc<dyn Vfs> = Arc::new(SimVfs::new());
    disk.create_directory(Path::new("/log")).unwrap();
    let cache = Cache::new(CacheOptions::new(256 << 12, PageSize::KIB_4, disk.clock()));
    let mut options = InstanceOptions::with_cache(disk, "/log".into(), cache);
    options.background = BackgroundThreads::None;
    options.version_store_bytes = bytes;
    let instance = Instance::open(options).unwrap();
    let db = instance.create_database(Path::new("/log/full.edb"), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    (instance, tree)
}

#[test]
fn a_session_waits_for_cleanup_if_the_version_store_is_full() {
    let (instance, tree) = with_room_for(4 << 10);
    let core = instance.core();
    // Only one short transaction runs at a time, so there is room whenever cleanup has finished.
    let turn = Mutex::new(());
    let at_work = AtomicUsize::new(usize::from(SESSIONS));
    jetcell_sync::thread::scope(|scope| {
        for number in 1..=SESSIONS {
            let (tree, turn, at_work) = (&tree, &turn, &at_work);
            scope.spawn(move || {
                let mut session = ActiveTransaction::new(core.clone(), number);
                let key = number.to_be_bytes();
                let outcome = (0..5000).try_for_each(|round| {
                    let _one = turn.lock();
                    session.begin()?;
                    let data = [round as u8; 300];
                    match round {
                        0 => tree.insert(session.changes()?, &key, &data)?,
                        _ => tree.replace(session.changes()?, &tree.bookmark(&key, &[]), &data)?,
                    }
                    session.commit().map(|_| ())
                });
                drop(session);
                at_work.fetch_sub(1, Ordering::Relaxed);
                outcome.unwrap();
            });
        }
        while at_work.load(Ordering::Relaxed) > 0 {
            step(core, usize::MAX).unwrap();
        }
    });
    drop(tree);
    instance.shutdown().unwrap();
}

/// Other transactions may not use the reserved space even after they have waited in vain for the oldest one. They leave
/// enough room for it.
#[test]
fn only_the_oldest_transaction_may_use_the_reserved_space() {
    let (instance, tree) = with_room_for(64 << 10);
    let [mut oldest, mut other] =
        [1, 2].map(|number| ActiveTransaction::new(instance.core().clone(), number));
    oldest.begin().unwrap();
    tree.insert(oldest.changes().unwrap(), b"first", b"data").unwrap();
    other.begin().unwrap();
    let mut fill = || {
        (0_u64..).find_map(|_| {
            let key = instance.core().versions.next_id().to_be_bytes();
            other.changes().and_then(|context| tree.insert(context, &key, b"data")).err()
        })
    };
    for _ in 0..2 {
        assert!(matches!(fill(), Some(Error::VersionStoreFull { .. })));
    }
    for key in [b"second", b"third "] {
        tree.insert(oldest.changes().unwrap(), key, b"data").unwrap();
    }
    oldest.commit().unwrap();
    drop((oldest, other, tree));
    instance.shutdown().unwrap();
}

#[test]
fn an_unreadable_page_does_not_stop_the_cleanup_of_other_transactions() {
    let fixture = TreeFixture::new();
    let core = fixture.instance.core();
    let step = || {
        fixture.instance.flush().unwrap();
        step(core, 256)
    };
    while !core.ended.is_empty() {
        step().unwrap();
    }
    let mut session = fixture.session(1);
    for record in [RECORDS - 1, 0] {
        session.begin().unwrap();
        fixture
            .tree
            .flag_delete(session.changes().unwrap(), &fixture.tree.bookmark(&record.to_be_bytes(), &[]))
            .unwrap();
        session.commit().unwrap();
    }
    drop(session);
    let page = fixture.leaf(&(RECORDS - 1).to_be_bytes());
    fixture.evict(page);
    fixture.invert(page);
    assert_eq!(core.ended.len(), 2);
    // The cleaned-up transaction's pin is released only when the log is durable.
    for _ in 0..2 {
        let error = step().unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
    assert_eq!(core.ended.len(), 1);
    // The version store has room, so the session does not get the error.
    let transaction = core.transactions.begin(1);
    make_room(core, &transaction).unwrap();
    core.transactions.end(&transaction);

    fixture.invert(page);
    while !core.ended.is_empty() {
        step().unwrap();
    }
    assert!(!fixture.has(&(RECORDS - 1).to_be_bytes()));
}
