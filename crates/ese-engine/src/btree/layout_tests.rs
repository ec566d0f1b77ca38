//! Tests of moving leaves to consecutive pages: the resulting tree, snapshots and open transactions, concurrent
//! sessions, and recovery after only some pages were written.

use std::path::Path;

use ese_format::log::record::LogRecord;
use ese_format::page::PageFlags;
use jetcell_sync::Arc;
use jetcell_vfs::SimVfs;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Tree;
use super::compact::CompactionRules;
use super::compact_tests::{
    SIZE, assert_redo_is_independent_of_the_written_pages, assert_sessions_lose_nothing, clean_up, delete,
    insert, new_tree,
};
use super::layout::{LeafLayout, LeafRuns, run_leaves};
use super::share_tests::{LeafContent, leaves, records};
use super::tests::{DB, TreeModel, check_structure, contents, create_tree, open, transaction};
use crate::transaction::{ActiveTransaction, ReadView};
use crate::{DatabaseOptions, Instance};

/// Lays out all leaves of a tree. Returns the number of moves.
fn lay_out(instance: &Instance, tree: &Arc<Tree>) -> u32 {
    let (mut position, mut moved) = (Some(Vec::new()), 0);
    while let Some(key) = position {
        let rules =
            CompactionRules { oldest: instance.core().transactions.oldest_snapshot(), partial_merges: false };
        let Some(done) = LeafLayout::new(tree).lay_out(&key, rules).unwrap() else { break };
        assert!(done.failure.is_none(), "{:?}", done.failure);
        assert!(done.position.as_ref().is_none_or(|next| *next > key), "the position must move right");
        moved += u32::from(done.moved);
        position = done.position;
    }
    moved
}

fn runs(tree: &Tree) -> LeafRuns {
    LeafLayout::new(tree).leaf_runs(|| false).unwrap()
}

fn shuffled(numbers: std::ops::Range<u32>, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    numbers
}

#[test]
fn scattered_leaves_in_a_four_level_tree_become_contiguous() {
    for kind in [PageFlags::empty(), PageFlags::INDEX | PageFlags::NON_UNIQUE] {
        let disk = SimVfs::new();
        let (instance, _db, tree) = new_tree(&disk, kind);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        let len = if tree.is_unique() { 600 } else { 1 };
        insert(&mut session, &tree, shuffled(0..3000, 1).into_iter(), len);
        clean_up(&instance);
        let (before, expected) = (runs(&tree), contents(&tree, &ReadView::latest()));
        assert_eq!(before.leaves, leaves(&tree).len() as u64);
        let moved = lay_out(&instance, &tree);
        check_structure(&tree);
        assert_eq!(contents(&tree, &ReadView::latest()), expected);
        let after = runs(&tree);
        println!("{kind:?}: {before:?}, {moved} moved, {after:?}");
        let follows = |leaves: &[LeafContent]| {
            leaves.windows(2).filter(|pair| pair[0].0.plus(1) != pair[1].0).count() as u64 + 1
        };
        assert_eq!(after.runs, follows(&leaves(&tree)));
        assert!(before.are_scattered(run_leaves(&tree)) && !after.are_scattered(run_leaves(&tree)));
        assert!(before.runs * 10 > before.leaves * 7 && after.runs <= 8, "{before:?} {after:?}");
        // A second pass has nothing to do.
        assert_eq!(lay_out(&instance, &tree), 0);
        instance.flush().unwrap();
        let logged = records(&disk).iter().filter(|record| matches!(record, LogRecord::PageMove(_))).count();
        assert_eq!(logged as u32, moved);
    }
}

/// Snapshots find their data on the new pages, and an open transaction can still be rolled back.
#[test]
fn snapshots_and_rollbacks_work_after_leaves_move_to_new_pages() {
    let disk = SimVfs::new();
    let (instance, _db, tree) = new_tree(&disk, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    insert(&mut session, &tree, shuffled(0..1200, 2).into_iter(), 700);
    let mut reader = ActiveTransaction::new(instance.core().clone(), 2);
    reader.begin().unwrap();
    let seen = contents(&tree, &reader.view());
    delete(&mut session, &tree, (0..1200).filter(|number| number % 4 == 0));
    let expected = contents(&tree, &ReadView::latest());
    let mut open = ActiveTransaction::new(instance.core().clone(), 3);
    open.begin().unwrap();
    for number in (0..1200).filter(|number| number % 4 == 1) {
        let bookmark = tree.bookmark_of_key(super::merge_tests::long_key(number));
        tree.replace(open.changes().unwrap(), &bookmark, &[9; 650]).unwrap();
    }
    clean_up(&instance);
    // The cursor is positioned on a page that will move.
    let mut cursor = super::TreeCursor::new(tree.clone());
    assert!(cursor.first(&reader.view()).unwrap());
    let moved = lay_out(&instance, &tree);
    assert!(moved > 200, "{moved}");
    check_structure(&tree);
    let mut rest = 1;
    while cursor.next(&reader.view()).unwrap() {
        rest += 1;
    }
    assert_eq!(rest, 1200);
    assert_eq!(contents(&tree, &reader.view()), seen);
    assert_eq!(contents(&tree, &ReadView::latest()), expected);
    open.rollback().unwrap();
    reader.commit().unwrap();
    clean_up(&instance);
    assert_eq!(contents(&tree, &ReadView::latest()), expected);
    check_structure(&tree);
}

#[test]
fn redo_of_a_page_move_works_from_any_written_pages() {
    let disk = SimVfs::new();
    let (instance, db, tree) = new_tree(&disk, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    insert(&mut session, &tree, shuffled(0..300, 3).into_iter(), 1200);
    clean_up(&instance);
    let rules = CompactionRules { oldest: ReadView::latest().snapshot, partial_merges: false };
    let mut key = Vec::new();
    let mut move_next = || loop {
        let done = LeafLayout::new(&tree).lay_out(&key, rules).unwrap().unwrap();
        key = done.position.unwrap();
        if done.moved {
            return;
        }
    };
    // The first move allocates more space for the tree.
    move_next();
    instance.checkpoint().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let older = disk.contents(Path::new(DB)).unwrap();
    let model = contents(&tree, &ReadView::latest());
    move_next();
    assert_redo_is_independent_of_the_written_pages(&disk, (&instance, &db, &tree), &older, &model);
}

#[test]
fn a_tree_changed_between_moves_matches_an_ordered_map() {
    for seed in 0..3 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = open(&disk, SIZE, 64).unwrap();
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &db, PageFlags::empty());
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        let (mut model, mut key, mut moved) = (TreeModel::new(), Vec::new(), 0);
        for round in 0..400 {
            transaction(&tree, &mut session, &mut model, &mut rng, 1500, SIZE.bytes() / 3).unwrap();
            if round % 2 == 0 {
                instance.step().unwrap();
            }
            for _ in 0..rng.random_range(0..6) {
                let oldest = instance.core().transactions.oldest_snapshot();
                let rules = CompactionRules { oldest, partial_merges: seed == 1 };
                let done = LeafLayout::new(&tree).lay_out(&key, rules).unwrap();
                moved += u32::from(done.as_ref().is_some_and(|done| done.moved));
                key = done.and_then(|done| done.position).unwrap_or_default();
            }
            if round % 20 == 0 {
                check_structure(&tree);
                assert_eq!(contents(&tree, &session.view()), model, "seed {seed}, round {round}");
            }
        }
        assert_eq!(contents(&tree, &session.view()), model, "seed {seed}");
        assert!(moved > 10, "{moved}");
    }
}

#[test]
fn sessions_lose_no_records_during_leaf_moves() {
    assert_sessions_lose_nothing(lay_out);
}
