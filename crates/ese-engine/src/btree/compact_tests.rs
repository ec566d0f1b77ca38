//! Tests of leaf merges by online defragmentation: the resulting tree, snapshots, concurrent sessions, and recovery
//! after only some pages were written.

use std::collections::BTreeSet;
use std::path::Path;

use ese_format::log::record::LogRecord;
use ese_format::page::PageFlags;
use ese_format::{PageNumber, PageSize};
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, thread};
use jetcell_vfs::SimVfs;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::compact::{CompactionResult, CompactionRules};
use super::descend::DescentTarget;
use super::merge_tests::long_key;
use super::share_tests::{LeafContent, leaves, partial_merges, records};
use super::tests::{DB, TreeModel, check_structure, contents, create_tree, open, open_with, transaction};
use super::{SeekRelation, Tree, TreeCursor};
use crate::pages::merge::merge_type;
use crate::transaction::{ActiveTransaction, ReadView};
use crate::{Database, DatabaseOptions, Instance};

pub(super) const SIZE: PageSize = PageSize::KIB_4;

/// Processes all pairs of neighbouring leaves in a tree. Returns the number of pages removed from the tree and the
/// number of partial merges.
fn compact(instance: &Instance, tree: &Arc<Tree>, partial_merges: bool) -> (u32, usize) {
    let (mut position, mut freed, mut partly): (Option<Vec<u8>>, _, _) = (None, 0, 0);
    loop {
        let rules =
            CompactionRules { oldest: instance.core().transactions.oldest_snapshot(), partial_merges };
        let Some(done) = tree.lock_structure().compact_before(position.as_deref(), rules).unwrap() else {
            return (freed, partly);
        };
        let CompactionResult { position: next, .. } = &done;
        assert!(position.is_none() || *next < position, "the position must move left");
        freed += done.freed;
        partly += usize::from(done.partial);
        position = done.position;
    }
}

pub(super) fn new_tree(disk: &SimVfs, kind: PageFlags) -> (Arc<Instance>, Arc<Database>, Arc<Tree>) {
    let instance = open_with(disk, SIZE, 2000, false).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, kind);
    (instance, db, tree)
}

pub(super) fn insert(
    session: &mut ActiveTransaction,
    tree: &Arc<Tree>,
    numbers: impl Iterator<Item = u32>,
    len: usize,
) {
    session.begin().unwrap();
    for number in numbers {
        tree.insert(session.changes().unwrap(), &long_key(number), &vec![number as u8; len]).unwrap();
    }
    session.commit().unwrap();
}

pub(super) fn delete(session: &mut ActiveTransaction, tree: &Arc<Tree>, numbers: impl Iterator<Item = u32>) {
    session.begin().unwrap();
    for number in numbers {
        let mut cursor = TreeCursor::new(tree.clone());
        assert!(cursor.seek(&session.view(), &long_key(number), SeekRelation::Equal).unwrap());
        let bookmark = cursor.bookmark().unwrap().clone();
        tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
    }
    session.commit().unwrap();
}

pub(super) fn clean_up(instance: &Instance) {
    (0..4).for_each(|_| instance.step().unwrap());
}

#[test]
fn a_sparse_tree_of_four_levels_is_merged_across_parents() {
    for (kind, partial) in [
        (PageFlags::empty(), false),
        (PageFlags::empty(), true),
        (PageFlags::INDEX | PageFlags::NON_UNIQUE, false),
    ] {
        let disk = SimVfs::new();
        let (instance, _db, tree) = new_tree(&disk, kind);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        // A leaf has room for only a few records of 250 to 900 bytes each. An internal page has room for only a few
        // long separators.
        let len = if tree.is_unique() { 600 } else { 1 };
        insert(&mut session, &tree, 0..1600, len);
        let before = leaves(&tree).len();
        // Every leaf keeps some records. Cleanup therefore merges few leaves.
        delete(&mut session, &tree, (0..1600).filter(|number| number % 3 != 0));
        clean_up(&instance);
        let sparse = leaves(&tree).len();
        let expected = contents(&tree, &ReadView::latest());
        let (freed, partly) = compact(&instance, &tree, partial);
        check_structure(&tree);
        assert_eq!(contents(&tree, &ReadView::latest()), expected);
        let after = leaves(&tree).len();
        println!(
            "{kind:?}: {before} leaves, {sparse} sparse, {after} merged, {freed} pages freed, {partly} partly"
        );
        assert!(freed as usize >= sparse - after && after * 10 < sparse * 9, "{sparse} {after} {freed}");
        assert_eq!(partial, partly > 0);
        // A second pass has nothing to do.
        let (again, _) = compact(&instance, &tree, false);
        assert!(partial || again == 0, "{again}");
        instance.flush().unwrap();
        let across = records(&disk).iter().any(|record| match record {
            LogRecord::Merge2(merge) => {
                merge.merge_type == merge_type::FULL_RIGHT && !merge.separator.is_empty()
            }
            _ => false,
        });
        assert!(across, "no leaf was merged with a leaf of another parent");
    }
}

#[test]
fn nodes_visible_to_a_snapshot_are_not_merged() {
    let disk = SimVfs::new();
    let (instance, _db, tree) = new_tree(&disk, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    insert(&mut session, &tree, 0..400, 700);
    let mut reader = ActiveTransaction::new(instance.core().clone(), 2);
    reader.begin().unwrap();
    let seen = contents(&tree, &reader.view());
    delete(&mut session, &tree, (0..400).filter(|number| number % 4 != 0));
    clean_up(&instance);
    // The leaves look sparse, but their deleted nodes are still needed.
    let (freed, _) = compact(&instance, &tree, true);
    assert_eq!(freed, 0);
    assert_eq!(contents(&tree, &reader.view()), seen);
    reader.commit().unwrap();
    clean_up(&instance);
    compact(&instance, &tree, true);
    check_structure(&tree);
    assert_eq!(contents(&tree, &ReadView::latest()).len(), 100);
}

/// Merges leaves with different parents. Then the power fails after an arbitrary subset of the changed pages has been
/// written.
#[test]
fn cross_parent_merge_redo_works_from_any_written_pages() {
    let disk = SimVfs::new();
    let (instance, db, tree) = new_tree(&disk, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    insert(&mut session, &tree, 0..300, 1200);
    let parent = |number: u32| {
        let path = tree.path(DescentTarget::Key(&long_key(number))).unwrap();
        path[path.len() - 2]
    };
    let edge = (1..300).find(|number| parent(*number) != parent(number - 1)).unwrap();
    // Two records fill a leaf. One record is left on each side of the edge.
    delete(&mut session, &tree, [edge - 2, edge + 1].into_iter());
    clean_up(&instance);
    instance.checkpoint().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let older = disk.contents(Path::new(DB)).unwrap();
    let (before, model) = (leaves(&tree).len(), contents(&tree, &ReadView::latest()));
    let rules = CompactionRules { oldest: ReadView::latest().snapshot, partial_merges: false };
    let mut position = None;
    while leaves(&tree).len() == before {
        position =
            tree.lock_structure().compact_before(position.as_deref(), rules).unwrap().unwrap().position;
    }
    assert_redo_is_independent_of_the_written_pages(&disk, (&instance, &db, &tree), &older, &model);
}

/// Simulates a power failure after an arbitrary subset of the pages changed since `older` has been written.
pub(super) fn assert_redo_is_independent_of_the_written_pages(
    disk: &SimVfs,
    (instance, db, tree): (&Arc<Instance>, &Arc<Database>, &Arc<Tree>),
    older: &[u8],
    model: &TreeModel,
) {
    instance.flush().unwrap();
    check_structure(tree);
    let cut = disk.clone_disk();
    let expected = leaves(tree);
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let newer = disk.contents(Path::new(DB)).unwrap();
    let page = |at: usize| at * SIZE.bytes()..(at + 1) * SIZE.bytes();
    let pages = newer.len() / SIZE.bytes();
    let changed: Vec<usize> = (2..pages).filter(|&at| older.get(page(at)) != newer.get(page(at))).collect();
    assert!((4..12).contains(&changed.len()), "{changed:?}");
    let mut results = BTreeSet::new();
    for written in 0..1u32 << changed.len() {
        let disk = cut.clone_disk();
        for (_, &at) in changed.iter().enumerate().filter(|(bit, _)| written >> bit & 1 == 1) {
            disk.corrupt(Path::new(DB), (at * SIZE.bytes()) as u64, &newer[page(at)]).unwrap();
        }
        let instance = open_with(&disk, SIZE, 64, false).unwrap_or_else(|e| panic!("{written:b}: {e}"));
        let db = instance.attach(Path::new(DB), 256).unwrap();
        let tree = db.trees.tree_at(tree.root).unwrap();
        check_structure(&tree);
        assert_eq!(contents(&tree, &ReadView::latest()), *model, "{written:b}");
        let numbers =
            |leaves: &[LeafContent]| leaves.iter().map(|leaf| (leaf.0, leaf.1.len())).collect::<Vec<_>>();
        assert_eq!(numbers(&leaves(&tree)), numbers(&expected), "{written:b}");
        results.insert(format!("{:?}", leaves(&tree)));
        drop((tree, db));
        instance.shutdown().unwrap();
    }
    assert_eq!(results.len(), 1, "the recovered tree depends on the written pages");
}

/// A randomly changed tree still matches its model while leaves are merged between the changes.
#[test]
fn a_tree_changed_between_merges_matches_an_ordered_map() {
    for seed in 0..3 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = open(&disk, SIZE, 64).unwrap();
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &db, PageFlags::empty());
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        let (mut model, mut position, mut freed) = (TreeModel::new(), None, 0);
        for round in 0..400 {
            transaction(&tree, &mut session, &mut model, &mut rng, 1500, SIZE.bytes() / 3).unwrap();
            if round % 2 == 0 {
                instance.step().unwrap();
            }
            for _ in 0..rng.random_range(0..6) {
                let oldest = instance.core().transactions.oldest_snapshot();
                let rules = CompactionRules { oldest, partial_merges: seed == 1 };
                let done = tree.lock_structure().compact_before(position.as_deref(), rules).unwrap();
                freed += done.as_ref().map_or(0, |done| done.freed);
                position = done.and_then(|done| done.position);
            }
            if round % 20 == 0 {
                check_structure(&tree);
                assert_eq!(contents(&tree, &session.view()), model, "seed {seed}, round {round}");
            }
        }
        assert_eq!(contents(&tree, &session.view()), model, "seed {seed}");
        println!("seed {seed}: {freed} pages freed, {:?} partly", partial_merges(&disk));
        assert!(freed > 3, "{freed}");
    }
}

#[test]
fn sessions_lose_no_records_during_leaf_merges() {
    assert_sessions_lose_nothing(|instance, tree| compact(instance, tree, true).0);
}

/// Calls `work` repeatedly while sessions change the leaves and cursors scan them in both directions. `work` returns
/// the amount of work done.
pub(super) fn assert_sessions_lose_nothing(work: impl Fn(&Instance, &Arc<Tree>) -> u32 + Sync) {
    const WRITERS: u32 = 3;
    let disk = SimVfs::new();
    let (instance, _db, tree) = new_tree(&disk, PageFlags::empty());
    let done = AtomicBool::new(false);
    // Each thread changes only the numbers with its own remainder. One remainder belongs to no thread, so those
    // numbers never change.
    let fixed = |number: &u32| number % (WRITERS + 1) == WRITERS;
    insert(&mut ActiveTransaction::new(instance.core().clone(), 9), &tree, (0..1200).filter(fixed), 400);
    let fixed_keys: Vec<Vec<u8>> = contents(&tree, &ReadView::latest()).into_keys().collect();
    let mut models = Vec::new();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (tree, instance) = (&tree, &instance);
                scope.spawn(move || {
                    let mut rng = ChaCha8Rng::seed_from_u64(writer.into());
                    let mut session = ActiveTransaction::new(instance.core().clone(), writer as u16 + 1);
                    let mut own: BTreeSet<u32> = BTreeSet::new();
                    for _ in 0..1500 {
                        let number = rng.random_range(0..300) * (WRITERS + 1) + writer;
                        if own.remove(&number) {
                            delete(&mut session, tree, std::iter::once(number));
                        } else {
                            insert(&mut session, tree, std::iter::once(number), 400);
                            own.insert(number);
                        }
                    }
                    own
                })
            })
            .collect();
        let working = scope.spawn(|| {
            let mut worked = 0;
            while !done.load(Ordering::Relaxed) {
                worked += work(&instance, &tree);
                instance.step().unwrap();
            }
            worked
        });
        let reading = scope.spawn(|| {
            let mut reader = ActiveTransaction::new(instance.core().clone(), 8);
            while !done.load(Ordering::Relaxed) {
                reader.begin().unwrap();
                let seen = contents(&tree, &reader.view());
                reader.commit().unwrap();
                assert!(fixed_keys.iter().all(|key| seen.contains_key(key)), "a scan misses a record");
            }
        });
        models.extend(writers.into_iter().map(|writer| writer.join().unwrap()));
        done.store(true, Ordering::Relaxed);
        reading.join().unwrap();
        assert!(working.join().unwrap() > 0);
    });
    check_structure(&tree);
    let expected: BTreeSet<Vec<u8>> = models.into_iter().flatten().map(long_key).chain(fixed_keys).collect();
    assert_eq!(contents(&tree, &ReadView::latest()).into_keys().collect::<BTreeSet<_>>(), expected);
}

/// A tree in a single extent has no space trees, and a merge would have to create them.
#[test]
fn small_trees_are_not_compacted() {
    let disk = SimVfs::new();
    let (instance, db, tree) = new_tree(&disk, PageFlags::empty());
    assert_eq!(compact(&instance, &tree, true), (0, 0));
    let system = db.trees.tree_at(PageNumber::fixed(1)).unwrap();
    assert_eq!(compact(&instance, &system, true), (0, 0));
}
