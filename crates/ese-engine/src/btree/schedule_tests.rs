//! Runs tree operations under many thread schedules. In some of them, a page changes after it is checked and before it
//! is latched.

use std::path::Path;

use ese_format::PageSize;
use ese_format::page::PageFlags;
use jetcell_sync::{Arc, thread};
use jetcell_vfs::SimVfs;

use super::tests::{DB, contents, create_tree, open_with};
use super::{SeekRelation, Tree, TreeCursor};
use crate::database::Database;
use crate::maintenance::cleanup;
use crate::schedule_tests::explore;
use crate::transaction::{ActiveTransaction, ReadView};
use crate::{DatabaseOptions, Error, Instance, Result};

struct Fixture {
    instance: Arc<Instance>,
    _database: Arc<Database>,
    tree: Arc<Tree>,
}

impl Fixture {
    fn new() -> Fixture {
        let instance = open_with(&SimVfs::new(), PageSize::KIB_4, 100, false).unwrap();
        let database = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &database, PageFlags::empty());
        Fixture { instance, _database: database, tree }
    }

    fn change(&self, number: u16, change: impl Fn(&mut ActiveTransaction) -> Result<()>) {
        let mut session = ActiveTransaction::new(self.instance.core().clone(), number);
        loop {
            session.begin().unwrap();
            match change(&mut session) {
                Ok(()) => break,
                Err(Error::WriteConflict) => session.rollback().unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
        session.commit().unwrap();
    }

    fn insert(&self, number: u16, keys: std::ops::Range<u32>, len: usize) {
        for key in keys {
            self.change(number, |session| {
                self.tree.insert(session.changes()?, &key.to_be_bytes(), &vec![7; len])
            });
        }
    }

    fn delete(&self, number: u16, keys: std::ops::Range<u32>) {
        for key in keys {
            let bookmark = self.tree.bookmark(&key.to_be_bytes(), &[]);
            self.change(number, |session| self.tree.flag_delete(session.changes()?, &bookmark));
        }
    }

    fn clean(&self) {
        let core = self.instance.core();
        cleanup::step(core, usize::MAX).unwrap();
    }

    fn keys(&self) -> Vec<u32> {
        self.keys_of(&ReadView::latest())
    }

    /// Returns all keys and checks that both directions read the same keys.
    fn keys_of(&self, view: &ReadView) -> Vec<u32> {
        let keys = contents(&self.tree, view).into_keys();
        keys.map(|key| u32::from_be_bytes(key[..].try_into().unwrap())).collect()
    }
}

#[test]
fn an_insert_of_a_deleted_key_survives_concurrent_cleanup() {
    explore(|| {
        let fixture = Arc::new(Fixture::new());
        fixture.insert(1, 0..3, 20);
        fixture.delete(1, 1..2);
        let cleaner = thread::spawn({
            let fixture = fixture.clone();
            move || fixture.clean()
        });
        fixture.insert(1, 1..2, 20);
        cleaner.join().unwrap();
        fixture.clean();
        assert_eq!(fixture.keys(), [0, 1, 2]);
    });
}

#[test]
fn an_insert_into_an_empty_leaf_survives_concurrent_cleanup() {
    explore(|| {
        let fixture = Arc::new(Fixture::new());
        // The records are so large that a leaf holds little more than one. Each deleted record therefore leaves an
        // empty leaf.
        fixture.insert(1, 0..4, 2500);
        fixture.delete(1, 1..3);
        let cleaner = thread::spawn({
            let fixture = fixture.clone();
            move || fixture.clean()
        });
        let reader = thread::spawn({
            let tree = fixture.tree.clone();
            move || {
                let mut cursor = TreeCursor::new(tree);
                assert!(cursor.last(&ReadView::latest()).unwrap());
                assert_eq!(cursor.bookmark().unwrap().bytes(), 3_u32.to_be_bytes());
                while cursor.previous(&ReadView::latest()).unwrap() {}
                assert!(cursor.seek(&ReadView::latest(), &0_u32.to_be_bytes(), SeekRelation::Equal).unwrap());
            }
        });
        fixture.insert(1, 2..3, 100);
        cleaner.join().unwrap();
        reader.join().unwrap();
        fixture.clean();
        assert_eq!(fixture.keys(), [0, 2, 3]);
    });
}

#[test]
fn scans_see_every_old_record_during_leaf_splits() {
    explore(|| {
        let fixture = Arc::new(Fixture::new());
        fixture.insert(1, 0..6, 1000);
        let reader = thread::spawn({
            let fixture = fixture.clone();
            move || {
                let mut session = ActiveTransaction::new(fixture.instance.core().clone(), 2);
                session.begin().unwrap();
                let keys = fixture.keys_of(&session.view());
                assert!((0..6).all(|key| keys.contains(&key)), "{keys:?}");
            }
        });
        fixture.insert(1, 6..8, 1500);
        reader.join().unwrap();
        assert_eq!(fixture.keys(), [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}
