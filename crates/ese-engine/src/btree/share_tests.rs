//! Tests of node sharing between leaves: the resulting tree, the log records, and recovery after only some pages were
//! written.

use std::collections::BTreeSet;
use std::path::Path;

use ese_format::log::record::LogRecord;
use ese_format::page::{NodeFlags, PageFlags};
use ese_format::{LogPosition, PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Tree;
use super::descend::DescentTarget;
use super::tests::{DB, TreeModel, check_structure, contents, create_tree, open, open_with};
use crate::DatabaseOptions;
use crate::log::{LogNames, LogReader};
use crate::pages::merge::merge_type;
use crate::transaction::ActiveTransaction;
use crate::transaction::ReadView;

/// Returns all log records on a disk, in order.
pub(super) fn records(disk: &SimVfs) -> Vec<LogRecord> {
    let names = LogNames::new(Path::new("/log"), FileStem::E00);
    let reader = LogReader::open(Arc::new(disk.clone()), names).unwrap().unwrap();
    let mut records = Vec::new();
    let from = LogPosition { generation: reader.range().0, segment: 0, offset: 0 };
    let visit = |stored: crate::log::PositionedRecord| {
        records.push(LogRecord::decode(&stored.bytes).unwrap().0);
        Ok(())
    };
    reader.read_from(from, visit).unwrap();
    records
}

/// Returns how many times nodes moved to the right neighbour and to the left neighbour.
pub(super) fn partial_merges(disk: &SimVfs) -> [usize; 2] {
    let kinds: Vec<u8> = records(disk)
        .iter()
        .filter_map(|record| match record {
            LogRecord::Merge2(merge) => Some(merge.merge_type),
            _ => None,
        })
        .collect();
    [merge_type::PARTIAL_RIGHT, merge_type::PARTIAL_LEFT]
        .map(|wanted| kinds.iter().filter(|kind| **kind == wanted).count())
}

pub(crate) type LeafContent = (PageNumber, Vec<(Vec<u8>, Vec<u8>, NodeFlags)>);

/// Returns the leaves from left to right, each as a list of nodes (key, data and flags).
pub(crate) fn leaves(tree: &Arc<Tree>) -> Vec<LeafContent> {
    let mut at = tree.leaf_for_read(DescentTarget::First).unwrap();
    let mut leaves = Vec::new();
    loop {
        let page = tree.view(&at);
        let nodes = page
            .nodes()
            .map(|node| (node.key_to_vec(), node.data.to_vec(), node.flags - NodeFlags::COMPRESSED));
        leaves.push((at.key().page, nodes.collect()));
        let Some(next) = page.next() else { return leaves };
        drop(at);
        at = tree.pin(next).unwrap().read();
    }
}

fn key(number: u32) -> Vec<u8> {
    [b"key".as_slice(), &number.to_be_bytes()].concat()
}

#[test]
fn full_leaves_are_balanced_before_they_split() {
    for (seed, size, kind) in [
        (1, PageSize::KIB_4, PageFlags::empty()),
        (2, PageSize::KIB_8, PageFlags::INDEX | PageFlags::NON_UNIQUE),
        (3, PageSize::KIB_32, PageFlags::empty()),
    ] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimVfs::new();
        let instance = open(&disk, size, 400).unwrap();
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &db, kind);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        let mut model = TreeModel::new();
        let largest = if tree.is_unique() { size.bytes() / 16 } else { 24 };
        let mut insert = |session: &mut ActiveTransaction, number: u32, rng: &mut ChaCha8Rng| {
            let key = key(number);
            let data: Vec<u8> = (0..rng.random_range(1..largest)).map(|_| rng.random()).collect();
            let name = tree.bookmark(&key, &data);
            if tree.insert(session.changes().unwrap(), &key, &data).is_ok() {
                model.insert(name.into_bytes(), data);
            }
            if rng.random_bool(0.3) {
                let (name, _) = model.iter().nth(rng.random_range(0..model.len())).unwrap();
                let name = name.clone();
                let key_len = if tree.is_unique() { name.len() } else { 7 };
                let bookmark = tree.bookmark(&name[..key_len], &name[key_len..]);
                tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
                model.remove(&name);
            }
            model.len()
        };
        session.begin().unwrap();
        let count = 60 * size.bytes() / largest / 2;
        (0..count as u32).for_each(|number| {
            insert(&mut session, number << 16, &mut rng);
        });
        session.commit().unwrap();
        instance.flush().unwrap();
        assert_eq!(partial_merges(&disk), [0, 0], "inserts in key order must only append");
        for _ in 0..count / 50 {
            session.begin().unwrap();
            for _ in 0..100 {
                let number = rng.random_range(0..(count as u32) << 16);
                insert(&mut session, number, &mut rng);
            }
            session.commit().unwrap();
            instance.step().unwrap();
            check_structure(&tree);
        }
        assert_eq!(contents(&tree, &session.view()), model);
        instance.flush().unwrap();
        let [right, left] = partial_merges(&disk);
        let leaves = leaves(&tree);
        let full = |(_, nodes): &LeafContent| {
            nodes.iter().map(|node| node.0.len() + node.1.len() + 8).sum::<usize>()
        };
        let fill = leaves.iter().map(full).sum::<usize>() * 100 / (leaves.len() * size.bytes());
        println!(
            "{size:?}: {right} to the right, {left} to the left, {} leaves, {fill} % full",
            leaves.len()
        );
        assert!(right > 10 && left > 10, "{right} moves to the right, {left} to the left");
        assert!(fill > 68, "{fill} % full");
        drop((session, tree, db));
        instance.shutdown().unwrap();
    }
}

/// Tests recovery from a power failure after two leaves with uncommitted changes have shared nodes. An arbitrary
/// subset of the changed pages is on disk.
fn written_pages(third: bool) {
    let size = PageSize::KIB_4;
    let disk = SimVfs::new();
    let instance = open_with(&disk, size, 64, false).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    let root = tree.root;
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    let mut model = TreeModel::new();
    session.begin().unwrap();
    for number in 0..80 {
        tree.insert(session.changes().unwrap(), &key(number * 100), &[7; 200]).unwrap();
        model.insert(key(number * 100), vec![7; 200]);
    }
    session.commit().unwrap();
    let before = leaves(&tree);
    let [first, second] = [&before[1].1, &before[2].1];
    if !third {
        session.begin().unwrap();
        for (key, ..) in &second[..second.len() / 2] {
            tree.flag_delete(session.changes().unwrap(), &tree.bookmark(key, &[])).unwrap();
            model.remove(key);
        }
        session.commit().unwrap();
    }
    (0..4).for_each(|_| instance.step().unwrap());
    instance.core().cache.flush_file(db.file_id()).unwrap();
    instance.checkpoint().unwrap();
    let older = disk.contents(Path::new(DB)).unwrap();

    // Uncommitted changes to nodes that move to the right, and to nodes that move to the left if there is a third
    // page.
    let mut open_one = ActiveTransaction::new(instance.core().clone(), 2);
    open_one.begin().unwrap();
    let bookmark = |key: &[u8]| tree.bookmark(key, &[]);
    tree.replace(open_one.changes().unwrap(), &bookmark(&first[first.len() - 1].0), &[1; 190]).unwrap();
    if third {
        // A split moves nodes flagged as deleted; a partial merge does not.
        tree.flag_delete(open_one.changes().unwrap(), &bookmark(&first[first.len() - 2].0)).unwrap();
        tree.replace(open_one.changes().unwrap(), &bookmark(&second[0].0), &[2; 150]).unwrap();
    }
    instance.flush().unwrap();
    let undo_before = records(&disk).iter().filter(|record| matches!(record, LogRecord::UndoInfo(_))).count();
    session.begin().unwrap();
    let between = [first[1].0.as_slice(), b"!"].concat();
    tree.insert(session.changes().unwrap(), &between, &[9; 200]).unwrap();
    model.insert(between, vec![9; 200]);
    session.commit().unwrap();
    instance.flush().unwrap();
    assert_eq!(partial_merges(&disk), if third { [0, 1] } else { [1, 0] });
    let logged = records(&disk);
    let undo = logged.iter().filter(|record| matches!(record, LogRecord::UndoInfo(_))).count() - undo_before;
    assert_eq!(undo, if third { 3 } else { 1 }, "the undo of moved nodes must be logged");
    check_structure(&tree);

    let cut = disk.clone_disk();
    assert!(cut.contents(Path::new(DB)).unwrap()[2 * size.bytes()..] == older[2 * size.bytes()..]);
    let expected = leaves(&tree);
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let newer = disk.contents(Path::new(DB)).unwrap();
    let page = |at: usize| at * size.bytes()..(at + 1) * size.bytes();
    let pages = newer.len() / size.bytes();
    let changed: Vec<usize> = (2..pages).filter(|&at| older.get(page(at)) != newer.get(page(at))).collect();
    println!("changed: {changed:?}");
    assert!((3..10).contains(&changed.len()));
    let mut results = BTreeSet::new();
    for written in 0..1u32 << changed.len() {
        let disk = cut.clone_disk();
        for (_, &at) in changed.iter().enumerate().filter(|(bit, _)| written >> bit & 1 == 1) {
            disk.corrupt(Path::new(DB), (at * size.bytes()) as u64, &newer[page(at)]).unwrap();
        }
        let instance = open_with(&disk, size, 64, false).unwrap_or_else(|e| panic!("{written:b}: {e}"));
        let db = instance.attach(Path::new(DB), 256).unwrap();
        let tree = db.trees.tree_at(root).unwrap();
        check_structure(&tree);
        assert_eq!(contents(&tree, &ReadView::latest()), model, "{written:b}");
        let found = leaves(&tree);
        let numbers =
            |leaves: &[LeafContent]| leaves.iter().map(|leaf| (leaf.0, leaf.1.len())).collect::<Vec<_>>();
        assert_eq!(numbers(&found), numbers(&expected), "{written:b}");
        results.insert(format!("{found:?}"));
        drop((tree, db));
        instance.shutdown().unwrap();
    }
    assert_eq!(results.len(), 1, "the recovered tree depends on the written pages");
}

#[test]
fn redo_of_leaf_balancing_works_from_any_written_pages() {
    written_pages(false);
}

#[test]
fn three_way_split_redo_works_from_any_written_pages() {
    written_pages(true);
}

/// ESE does not move nodes flagged as deleted to a neighbour, so they must stay on their page.
#[test]
fn leaves_with_deleted_nodes_are_split_and_not_balanced() {
    let disk = SimVfs::new();
    let instance = open_with(&disk, PageSize::KIB_4, 64, false).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    session.begin().unwrap();
    for number in 0..80 {
        tree.insert(session.changes().unwrap(), &key(number * 100), &[7; 200]).unwrap();
    }
    session.commit().unwrap();
    // All records are visible in the oldest snapshot.
    let mut reader = ActiveTransaction::new(instance.core().clone(), 2);
    reader.begin().unwrap();
    let expected = contents(&tree, &reader.view());
    let mut count = expected.len() + 60;
    session.begin().unwrap();
    for (_, nodes) in leaves(&tree) {
        for (key, ..) in nodes.iter().skip(1).step_by(2) {
            tree.flag_delete(session.changes().unwrap(), &tree.bookmark(key, &[])).unwrap();
            count -= 1;
        }
    }
    session.commit().unwrap();
    session.begin().unwrap();
    for number in 0..60 {
        tree.insert(session.changes().unwrap(), &key(number * 100 + 50), &[9; 200]).unwrap();
    }
    session.commit().unwrap();
    instance.step().unwrap();
    instance.flush().unwrap();
    assert_eq!(partial_merges(&disk), [0, 0]);
    check_structure(&tree);
    assert_eq!(contents(&tree, &reader.view()), expected);
    reader.commit().unwrap();
    (0..4).for_each(|_| instance.step().unwrap());
    check_structure(&tree);
    assert_eq!(contents(&tree, &session.view()).len(), count);
}
