//! Tests that remove records from four-level trees, and tests that insert records which cleanup is about to remove.

use std::path::Path;
use std::time::Duration;

use ese_format::page::{PageFlags, node_space};
use ese_format::{PageNumber, PageSize};
use jetcell_sync::{Arc, thread};
use jetcell_vfs::SimVfs;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::descend::DescentTarget;
use super::tests::{DB, TreeModel, check_structure, contents, create_tree, open_with};
use super::{SeekRelation, Tree, TreeCursor};
use crate::transaction::ActiveTransaction;
use crate::transaction::ReadView;
use crate::{DatabaseOptions, Instance};

const SIZE: PageSize = PageSize::KIB_4;
/// Time that is long enough for a thread to reach the lock on which it blocks. If it is too short, the test can miss
/// a bug but never reports a false one.
const TIME_TO_REACH_THE_LOCK: Duration = Duration::from_millis(50);
/// Number of keys that share all bytes except the last one. The separators between such keys are as long as the keys.
const GROUP: u32 = 8;
const KEYS: u32 = 800;

struct Fixture {
    instance: Arc<Instance>,
    tree: Arc<Tree>,
    model: TreeModel,
}

/// Returns a key of 250 bytes. An internal page has room for about 17 separators, because most separators are as long
/// as a key and keys of different groups share no prefix.
pub(crate) fn long_key(number: u32) -> Vec<u8> {
    let group = number / GROUP;
    let mut key = group.to_be_bytes().to_vec();
    key.extend((0..245_u32).map(|at| (group.wrapping_mul(31) ^ at.wrapping_mul(7)) as u8));
    key.push((number % GROUP) as u8);
    key
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with_kind(PageFlags::empty())
    }

    fn with_kind(kind: PageFlags) -> Fixture {
        let instance = open_with(&SimVfs::new(), SIZE, 600, false).unwrap();
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &db, kind);
        Fixture { instance, tree, model: TreeModel::new() }
    }

    fn session(&self, number: u16) -> ActiveTransaction {
        ActiveTransaction::new(self.instance.core().clone(), number)
    }

    /// Inserts a record for each number that does not have one.
    fn insert(&mut self, numbers: impl Iterator<Item = u32>, len: usize) {
        let mut session = self.session(1);
        session.begin().unwrap();
        for number in numbers {
            let (key, data) = (long_key(number), vec![number as u8; len]);
            if !self.model.contains_key(&key) {
                self.tree.insert(session.changes().unwrap(), &key, &data).unwrap();
                self.model.insert(key, data);
            }
        }
        session.commit().unwrap();
    }

    /// Flags the records with these numbers as deleted. Cleanup removes them later.
    fn delete(&mut self, numbers: impl Iterator<Item = u32>) {
        let mut session = self.session(1);
        session.begin().unwrap();
        for key in numbers.map(long_key) {
            if self.model.remove(&key).is_some() {
                self.flag_deleted(&mut session, &key);
            }
        }
        session.commit().unwrap();
    }

    fn flag_deleted(&self, session: &mut ActiveTransaction, key: &[u8]) {
        let mut cursor = TreeCursor::new(self.tree.clone());
        assert!(cursor.seek(&session.view(), key, SeekRelation::Equal).unwrap());
        let bookmark = cursor.bookmark().unwrap().clone();
        self.tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
    }

    fn clean_up(&self) {
        for _ in 0..3 {
            self.instance.step().unwrap();
        }
    }

    fn levels(&self) -> usize {
        self.tree.path(DescentTarget::First).unwrap().len()
    }

    fn check(&self) {
        check_structure(&self.tree);
        assert_eq!(contents(&self.tree, &ReadView::latest()), self.model);
        for key in self.model.keys() {
            let mut cursor = TreeCursor::new(self.tree.clone());
            assert!(
                cursor.seek(&ReadView::latest(), key, SeekRelation::Equal).unwrap(),
                "a seek does not find a record"
            );
        }
    }

    /// Returns the internal pages of the level above the leaves, left to right.
    fn parents_of_leaves(&self) -> Vec<PageNumber> {
        let mut parents: Vec<PageNumber> = Vec::new();
        for number in 0..KEYS {
            let path = self.tree.path(DescentTarget::Key(&long_key(number))).unwrap();
            let parent = path[path.len() - 2];
            if parents.last() != Some(&parent) {
                parents.push(parent);
            }
        }
        parents
    }

    /// Returns the separators of an internal page, with their children.
    fn entries(&self, page: PageNumber) -> Vec<(Vec<u8>, PageNumber)> {
        let latch = self.tree.pin(page).unwrap().into_read();
        let page = self.tree.view(&latch);
        page.nodes().map(|node| (node.key_to_vec(), node.child().unwrap())).collect()
    }

    fn free_bytes(&self, page: PageNumber) -> usize {
        let latch = self.tree.pin(page).unwrap().into_read();
        self.tree.view(&latch).free_bytes()
    }
}

#[test]
fn range_deletes_keep_a_tree_of_four_levels_valid() {
    for seed in 0..3 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut fixture = Fixture::new();
        // One record in each leaf.
        fixture.insert(0..KEYS, 2500);
        assert!(fixture.levels() >= 4, "{} levels", fixture.levels());
        let mut fewest = u32::MAX;
        for _ in 0..25 {
            for _ in 0..rng.random_range(1..5) {
                let first = rng.random_range(0..KEYS);
                let last = (first + rng.random_range(1..200)).min(KEYS);
                fixture.delete(first..last);
                fixture.clean_up();
                check_structure(&fixture.tree);
            }
            fewest = fewest.min(fixture.model.len() as u32);
            let first = rng.random_range(0..KEYS);
            let len = rng.random_range(300..2500);
            let step = rng.random_range(1..4);
            fixture.insert((first..(first + 300).min(KEYS)).step_by(step), len);
            fixture.clean_up();
            fixture.check();
        }
        assert!(fewest < KEYS / 2, "the deletes leave {fewest} of {KEYS} records");
        fixture.delete(0..KEYS);
        fixture.clean_up();
        fixture.check();
        assert_eq!(fixture.levels(), 1, "an empty tree has one page");
        fixture.instance.shutdown().unwrap();
    }
}

#[test]
fn an_internal_split_repeats_the_separator_in_non_unique_trees() {
    let mut fixture = Fixture::with_kind(PageFlags::INDEX | PageFlags::NON_UNIQUE);
    fixture.insert((0..6 * KEYS).map(|number| number * 37 % (6 * KEYS)), 4);
    assert!(fixture.levels() >= 3, "{} levels", fixture.levels());
    check_structure(&fixture.tree);
}

/// The range of a removed internal page passes to the page on its right. At the right edge of the tree, it passes to
/// the page on the left.
#[test]
fn internal_pages_are_removed_from_right_to_left() {
    let mut fixture = Fixture::new();
    fixture.insert(0..KEYS, 2500);
    let parents = fixture.parents_of_leaves();
    let mut removed = 0;
    for pair in parents.windows(2).rev() {
        let below: Vec<u32> = (0..KEYS)
            .filter(|number| fixture.model.contains_key(&long_key(*number)))
            .filter(|number| {
                let path = fixture.tree.path(DescentTarget::Key(&long_key(*number))).unwrap();
                path[path.len() - 2] == pair[1]
            })
            .collect();
        removed += usize::from(!below.is_empty());
        fixture.delete(below.into_iter());
        fixture.clean_up();
        check_structure(&fixture.tree);
        // Refills the page on the left for the next round.
        let free: Vec<u32> =
            (0..KEYS).filter(|number| !fixture.model.contains_key(&long_key(*number))).collect();
        let few = free.len() / 3;
        fixture.insert(free.into_iter().take(few), 2500);
    }
    assert!(removed > 10, "{removed} internal pages");
    fixture.check();
}

/// After the last leaf of an internal page is removed, the page above gets the preceding separator. If the page above
/// has no room for it, that page is split first.
#[test]
fn a_full_page_is_split_before_it_gets_a_longer_separator() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut fixture = Fixture::new();
    let last = 900 * GROUP;
    // A separator between two groups is only as long as a group number. A separator within a group is as long as a
    // key.
    fixture.insert((0..last).filter(|_| rng.random_bool(0.3)), 2500);
    assert_eq!(fixture.levels(), 4);
    let numbers_below = |separator: &[u8]| {
        (0..last).collect::<Vec<_>>().partition_point(|number| long_key(*number)[..] < *separator) as u32
    };
    let mut full = 0;
    for _ in 0..10 {
        fixture.insert((0..last).filter(|_| rng.random_bool(0.05)), 2500);
        let root = fixture.tree.path(DescentTarget::First).unwrap()[0];
        let uppers = fixture.entries(root).into_iter().map(|(_, upper)| upper);
        for (upper, parent) in uppers
            .flat_map(|upper| fixture.entries(upper).into_iter().map(move |entry| (upper, entry.1)))
            .collect::<Vec<_>>()
        {
            let above = fixture.entries(upper);
            let Some((key, _)) = above.iter().find(|(_, child)| *child == parent) else { continue };
            let below = fixture.entries(parent);
            let [.., (before, _), (end, _)] = &below[..] else { continue };
            assert_eq!(key, end);
            let room = fixture.free_bytes(upper) + node_space(end.len(), false, 4);
            if end.is_empty() || room >= node_space(before.len(), false, 4) {
                continue;
            }
            full += 1;
            fixture.delete(numbers_below(before)..numbers_below(end));
            fixture.clean_up();
            check_structure(&fixture.tree);
            assert_eq!(fixture.entries(parent), below[..below.len() - 1], "the last leaf remains");
            assert!(fixture.entries(upper).len() < above.len(), "the page above was not split");
        }
    }
    assert!(full >= 3, "{full} full pages");
    fixture.check();
}

/// A merge does not reserve room for the data that the rollback of a running transaction restores.
#[test]
fn a_rollback_makes_room_on_a_concurrently_merged_page() {
    let mut fixture = Fixture::new();
    let neighbour = GROUP;
    fixture.insert([2, 4, 6, 10, 12].into_iter(), 2500);
    fixture.insert([neighbour].into_iter(), 1500);
    fixture.insert([7].into_iter(), 10);
    fixture.delete([7].into_iter());
    let mut session = fixture.session(2);
    session.begin().unwrap();
    let shrinking = fixture.tree.bookmark(&long_key(6), &[]);
    fixture.tree.replace(session.changes().unwrap(), &shrinking, &[6; 10]).unwrap();
    let leaves = |fixture: &Fixture| {
        [6, neighbour].map(|number| fixture.tree.path(DescentTarget::Key(&long_key(number))).unwrap().pop())
    };
    assert_ne!(leaves(&fixture)[0], leaves(&fixture)[1]);
    fixture.clean_up();
    assert_eq!(leaves(&fixture)[0], leaves(&fixture)[1], "the leaves were not merged");
    session.rollback().unwrap();
    assert_ne!(leaves(&fixture)[0], leaves(&fixture)[1]);
    fixture.check();
}

/// Runs `meanwhile` while cleanup waits for the structure lock of the tree. At that point, cleanup has found that the
/// only record of a leaf is dead and has released the latch of the leaf.
fn while_cleanup_waits(fixture: &Fixture, dead: &[u8], meanwhile: impl FnOnce()) {
    let mut session = fixture.session(1);
    session.begin().unwrap();
    fixture.flag_deleted(&mut session, dead);
    session.commit().unwrap();
    thread::scope(|scope| {
        let structure = fixture.tree.lock_structure();
        let cleanup = scope.spawn(|| fixture.instance.step().unwrap());
        thread::sleep(TIME_TO_REACH_THE_LOCK);
        meanwhile();
        drop(structure);
        cleanup.join().unwrap();
    });
}

#[test]
fn a_record_inserted_while_cleanup_waits_is_kept() {
    let mut fixture = Fixture::new();
    fixture.insert(0..20, 2500);
    let key = long_key(7);
    while_cleanup_waits(&fixture, &key, || {
        let mut session = fixture.session(2);
        session.begin().unwrap();
        fixture.tree.insert(session.changes().unwrap(), &key, &[9; 2500]).unwrap();
        session.commit().unwrap();
    });
    fixture.model.insert(key, vec![9; 2500]);
    fixture.clean_up();
    fixture.check();
}

#[test]
fn a_delete_made_while_cleanup_waits_can_be_rolled_back() {
    let mut fixture = Fixture::new();
    fixture.insert(0..20, 2500);
    let key = long_key(7);
    let mut deleter = fixture.session(3);
    while_cleanup_waits(&fixture, &key, || {
        let mut session = fixture.session(2);
        session.begin().unwrap();
        fixture.tree.insert(session.changes().unwrap(), &key, &[9; 2500]).unwrap();
        session.commit().unwrap();
        deleter.begin().unwrap();
        fixture.flag_deleted(&mut deleter, &key);
    });
    deleter.rollback().unwrap();
    fixture.model.insert(key, vec![9; 2500]);
    fixture.clean_up();
    fixture.check();
}

#[test]
fn cleanup_keeps_a_record_until_no_snapshot_sees_it() {
    let mut fixture = Fixture::new();
    fixture.insert(0..20, 2500);
    let (key, mut reader) = (long_key(7), fixture.session(4));
    while_cleanup_waits(&fixture, &key, || {
        let mut session = fixture.session(2);
        session.begin().unwrap();
        fixture.tree.insert(session.changes().unwrap(), &key, &[9; 2500]).unwrap();
        session.commit().unwrap();
        reader.begin().unwrap();
        session.begin().unwrap();
        fixture.flag_deleted(&mut session, &key);
        session.commit().unwrap();
    });
    let mut cursor = TreeCursor::new(fixture.tree.clone());
    assert!(cursor.seek(&reader.view(), &key, SeekRelation::Equal).unwrap(), "the snapshot lost its record");
    assert_eq!(cursor.data(), [9; 2500]);
    drop(cursor);
    reader.commit().unwrap();
    fixture.model.remove(&key);
    fixture.clean_up();
    fixture.check();
}
