//! Tests in which one transaction shrinks and grows nodes on nearly full pages.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use ese_format::PageSize;
use ese_format::page::PageFlags;
use jetcell_sync::mpsc::{RecvTimeoutError, channel};
use jetcell_sync::{Arc, thread};
use jetcell_vfs::SimVfs;

use super::Tree;
use super::share_tests::leaves;
use super::tests::{DB, TreeModel, check_structure, contents, create_tree, open};
use crate::transaction::ActiveTransaction;
use crate::transaction::ReadView;
use crate::{DatabaseOptions, Instance};

/// Number of the record that the tests change.
const LARGE: u32 = 100;
/// Length of that record's data in bytes. With this length, less than half a page stays free.
const LENGTH: usize = 3000;

/// A transaction step, with the resulting length of the record's data.
#[derive(Clone, Copy, Debug)]
enum RowChange {
    Replace(usize),
    Delete,
    Insert(usize),
}

use RowChange::{Delete, Insert, Replace};

/// Runs `work` in a thread and fails if it does not finish in time. After a timeout, the thread is not joined, so
/// other tests can continue.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (ended, end) = channel::<()>();
    let worker = thread::spawn(move || {
        work();
        drop(ended);
    });
    match end.recv_timeout(Duration::from_secs(20)) {
        Err(RecvTimeoutError::Timeout) => panic!("the work does not end"),
        _ => worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Creates a tree with the given committed records. Each record is given as its number and data length.
fn tree_of(records: &[(u32, usize)]) -> (Arc<Instance>, Arc<Tree>, TreeModel) {
    let instance = open(&SimVfs::new(), PageSize::KIB_4, 64).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    session.begin().unwrap();
    let mut model = TreeModel::new();
    for &(number, length) in records {
        let (key, data) = (number.to_be_bytes(), vec![number as u8; length]);
        tree.insert(session.changes().unwrap(), &key, &data).unwrap();
        model.insert(key.to_vec(), data);
    }
    session.commit().unwrap();
    (instance, tree, model)
}

fn perform(
    tree: &Arc<Tree>,
    session: &mut ActiveTransaction,
    number: u32,
    step: RowChange,
    model: &mut TreeModel,
) {
    let key = number.to_be_bytes();
    let bookmark = tree.bookmark(&key, &[]);
    // The data depends on its length, so all states differ.
    let data_of = |length: usize| vec![length as u8; length];
    match step {
        Replace(length) => tree.replace(session.changes().unwrap(), &bookmark, &data_of(length)).unwrap(),
        Insert(length) => tree.insert(session.changes().unwrap(), &key, &data_of(length)).unwrap(),
        Delete => tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap(),
    }
    match step {
        Replace(length) | Insert(length) => drop(model.insert(key.to_vec(), data_of(length))),
        Delete => drop(model.remove(&key[..])),
    }
}

/// Runs `steps` on the large record, which lies between the `small` records (200 bytes each). One run commits,
/// another rolls back.
fn shorter_and_longer(small: Range<u32>, steps: &'static [RowChange]) {
    for commits in [true, false] {
        let small = small.clone();
        in_time(move || {
            let before = small.clone().filter(|number| *number < LARGE).map(|number| (number, 200));
            let behind = small.filter(|number| *number > LARGE).map(|number| (number, 200));
            let records: Vec<_> = before.chain([(LARGE, LENGTH)]).chain(behind).collect();
            let (instance, tree, before) = tree_of(&records);
            let pages = leaves(&tree).len();
            let mut session = ActiveTransaction::new(instance.core().clone(), 1);
            let mut after = before.clone();
            session.begin().unwrap();
            for &step in steps {
                perform(&tree, &mut session, LARGE, step, &mut after);
                assert_eq!(contents(&tree, &session.view()), after, "{step:?}");
                assert_eq!(
                    contents(&tree, &ReadView::latest()),
                    before,
                    "{step:?} is visible before its commit"
                );
            }
            if commits {
                session.commit().map(drop).unwrap();
            } else {
                session.rollback().unwrap();
            }
            assert_eq!(contents(&tree, &session.view()), if commits { after } else { before });
            assert_eq!(
                leaves(&tree).len(),
                pages,
                "a page was split although the record had the room before"
            );
            check_structure(&tree);
            drop((session, tree));
            instance.shutdown().unwrap();
        });
    }
}

const ENDLESS: [&[RowChange]; 4] = [
    &[Replace(10), Replace(LENGTH)],
    &[Delete, Insert(10), Replace(LENGTH)],
    &[Replace(10), Delete, Insert(LENGTH)],
    &[Delete, Insert(10), Delete, Insert(LENGTH)],
];

#[test]
fn a_single_record_on_a_page_can_shrink_and_grow_in_one_transaction() {
    ENDLESS.into_iter().for_each(|steps| shorter_and_longer(0..0, steps));
}

#[test]
fn a_record_on_a_shared_page_resizes_without_a_split() {
    for steps in ENDLESS {
        shorter_and_longer(98..103, steps);
        shorter_and_longer(50..200, steps);
    }
}

#[test]
fn growing_a_record_preserves_undo_space_for_other_records() {
    in_time(|| {
        let (instance, tree, before) = tree_of(&[(1, 1500), (2, 1500)]);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        let mut after = before.clone();
        session.begin().unwrap();
        for (number, length, pages) in [(1, 10, 1), (2, 10, 1), (1, 1500, 1), (1, 2400, 1), (1, 2700, 2)] {
            perform(&tree, &mut session, number, Replace(length), &mut after);
            assert_eq!(leaves(&tree).len(), pages, "record {number} has {length} bytes");
        }
        assert_eq!(contents(&tree, &session.view()), after);
        session.rollback().unwrap();
        assert_eq!(contents(&tree, &session.view()), before);
        assert_eq!(leaves(&tree).len(), 2, "the rollback split a page");
        check_structure(&tree);
        drop((session, tree));
        instance.shutdown().unwrap();
    });
}
