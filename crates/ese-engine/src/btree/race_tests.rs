//! Interleavings of two threads, forced by latches that the test holds. The test cannot observe that a thread waits,
//! so it gives the thread time to start waiting. If the time is too short, the test can miss a bug but never reports
//! a false one.

use jetcell_sync::Arc;
use jetcell_sync::thread;
use std::path::Path;
use std::time::{Duration, Instant};

use ese_format::log::record::LogRecord;
use ese_format::page::{PageFlags, PageMut};
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::SimVfs;

use super::descend::DescentTarget;
use super::share_tests::records;
use super::tests::{DB, create_tree, open_with};
use super::{SeekRelation, Tree, TreeCursor};
use crate::cache::WriteLatch;
use crate::catalog::OBJIDS_ROOT;
use crate::database::Database;
use crate::space::SpaceLock;
use crate::transaction::ActiveTransaction;
use crate::transaction::ReadView;
use crate::{DatabaseOptions, Instance};

const SIZE: PageSize = PageSize::KIB_4;
/// Time that is long enough for a thread to start waiting.
const SHORT_WAIT: Duration = Duration::from_millis(50);
const TOO_LONG: Duration = Duration::from_secs(5);

struct RaceFixture {
    instance: Arc<Instance>,
    db: Arc<Database>,
    tree: Arc<Tree>,
    disk: SimVfs,
}

impl RaceFixture {
    fn new() -> RaceFixture {
        let disk = SimVfs::new();
        let instance = open_with(&disk, SIZE, 400, false).unwrap();
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &db, PageFlags::empty());
        RaceFixture { instance, db, tree, disk }
    }

    fn session(&self, number: u16) -> ActiveTransaction {
        ActiveTransaction::new(self.instance.core().clone(), number)
    }

    fn insert(&self, number: u16, keys: impl IntoIterator<Item = Vec<u8>>, data: &[u8]) {
        let mut session = self.session(number);
        session.begin().unwrap();
        keys.into_iter().for_each(|key| self.tree.insert(session.changes().unwrap(), &key, data).unwrap());
        session.commit().unwrap();
    }

    fn latch(&self, page: PageNumber) -> WriteLatch {
        self.db.file.pin(page).unwrap().write()
    }

    fn leaf(&self, target: DescentTarget<'_>) -> PageNumber {
        self.tree.leaf_for_read(target).unwrap().key().page
    }
}

/// Returns true if the page can be latched for writing within [`TOO_LONG`].
fn becomes_free(bench: &RaceFixture, page: PageNumber) -> bool {
    let pinned = bench.db.file.pin(page).unwrap();
    let end = Instant::now() + TOO_LONG;
    while Instant::now() < end {
        if pinned.try_write().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// By now, the latched page can be to the right of the leaf, or it can be the leaf's parent. Waiting for the leaf with
/// this page latched violates the latch order: another thread can hold the leaf's latch and wait for this page.
#[test]
fn a_backward_cursor_never_waits_leftward_with_a_latch_held() {
    let bench = RaceFixture::new();
    bench.insert(1, (0_u32..100).map(|key| key.to_be_bytes().to_vec()), &[7; 200]);
    let left = bench.leaf(DescentTarget::First);
    let latch = bench.latch(left);
    let right = bench.tree.view(&latch).next().unwrap();
    drop(latch);
    let first_of_right = {
        let latch = bench.latch(right);
        bench.tree.view(&latch).node(0).unwrap().key_to_vec()
    };
    let expected = (u32::from_be_bytes(first_of_right[..].try_into().unwrap()) - 1).to_be_bytes();
    thread::scope(|scope| {
        let mut cursor = TreeCursor::new(bench.tree.clone());
        assert!(cursor.seek(&ReadView::latest(), &first_of_right, SeekRelation::Equal).unwrap());
        let mut in_the_way = bench.latch(left);
        let reader = scope.spawn(move || {
            assert!(cursor.previous(&ReadView::latest()).unwrap());
            cursor.bookmark().unwrap().bytes().to_vec()
        });
        thread::sleep(SHORT_WAIT);
        let held = bench.latch(right);
        let before = in_the_way.to_vec();
        PageMut::new(&mut in_the_way, SIZE).set_next(None);
        drop(in_the_way);
        thread::sleep(SHORT_WAIT);
        let free = becomes_free(&bench, left);
        if free {
            bench.latch(left).copy_from_slice(&before);
        }
        drop(held);
        let found = reader.join();
        assert!(free, "the cursor waits for its leaf while it latches another one");
        assert_eq!(found.unwrap(), expected);
    });
}

/// If the dbtime were allocated before the latch, the change could lower the page's dbtime. Redo would then skip the
/// change.
#[test]
fn a_conversion_takes_its_dbtime_after_it_latches_the_root() {
    let mut bench = RaceFixture::new();
    let parent = SpaceLock::new(&bench.db.file).trees(PageNumber::fixed(1)).unwrap();
    // The tree has only one page.
    bench.tree = bench.db.trees.tree_at(OBJIDS_ROOT).unwrap();
    let bench = &bench;
    thread::scope(|scope| {
        let space = bench.db.file.pin(parent.available.root).unwrap().read();
        let keys = (0_u32..60).map(|key| key.to_be_bytes().to_vec());
        let writer = scope.spawn(|| bench.insert(1, keys, &[7; 300]));
        thread::sleep(SHORT_WAIT);
        let mut root = bench.latch(OBJIDS_ROOT);
        drop(space);
        thread::sleep(SHORT_WAIT);
        root.mark_dirty(bench.instance.core().log().tail());
        PageMut::new(&mut root, SIZE).set_db_time(bench.db.file.next_time());
        drop(root);
        writer.join().unwrap();
    });
    bench.instance.flush().unwrap();
    let records = records(&bench.disk);
    let conversion = records.iter().find_map(|record| match record {
        LogRecord::ConvertFdp2(conversion) => Some(conversion.change),
        _ => None,
    });
    let change = conversion.expect("60 records of 300 bytes do not fit one page");
    assert!(change.before < change.after, "{change:?}");
}

#[test]
fn leaf_lookup_reports_no_damage_during_a_concurrent_split() {
    let bench = RaceFixture::new();
    // There is one record per leaf, and one parent page does not have room for all leaves.
    bench.insert(1, (0_u32..700).map(|key| key.to_be_bytes().to_vec()), &[7; 2500]);
    let path = bench.tree.path(DescentTarget::First).unwrap();
    let [_, upper, _] = path[..] else { panic!("{} levels", path.len()) };
    let last_of_upper = {
        let latch = bench.latch(upper);
        let page = bench.tree.view(&latch);
        page.node(page.node_count() - 2).unwrap().key_to_vec()
    };
    thread::scope(|scope| {
        let mut latch = bench.latch(upper);
        let reader = scope.spawn(|| bench.tree.leaf_of(&last_of_upper));
        thread::sleep(SHORT_WAIT);
        let nodes = bench.tree.view(&latch).node_count();
        PageMut::new(&mut latch, SIZE).delete_nodes(1..nodes);
        drop(latch);
        reader.join().unwrap().unwrap();
    });
}
