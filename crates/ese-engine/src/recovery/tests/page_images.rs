//! Tests of torn-page protection images that recovery must not use, or must remove.

use std::path::Path;

use ese_format::PageSize;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};

use super::{DATABASES, database};
use crate::Instance;
use crate::btree::tests::{TreeModel, contents, open, open_with};
use crate::storage::double_write;
use crate::transaction::ActiveTransaction;

/// An operator restores an older, clean copy of a database and removes the logs, but not the page images. The images
/// belong to an abandoned history, and are newer than the first changes after the restore.
#[test]
fn page_images_from_an_abandoned_history_are_not_restored() {
    let size = PageSize::KIB_4;
    let path = Path::new(DATABASES[0]);
    let disk = SimVfs::new();
    let instance = open(&disk, size, 64).unwrap();
    let (_, tree) = database(&instance, DATABASES[0]);
    let root = tree.root;
    let insert_and_flush = |instance: &Instance, key: &[u8], data: &[u8]| {
        let db = instance.core().databases()[0].clone();
        let tree = db.trees.tree_at(root).unwrap();
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        tree.insert(session.changes().unwrap(), key, data).unwrap();
        session.commit().unwrap();
        instance.core().cache.flush_file(db.file_id()).unwrap();
    };
    insert_and_flush(&instance, b"first", b"old");
    drop(tree);
    instance.shutdown().unwrap();
    drop(instance);
    let copy = disk.contents(path).unwrap();

    let instance = open(&disk, size, 64).unwrap();
    instance.attach(path, 32).unwrap();
    for number in 0..9u8 {
        insert_and_flush(&instance, &[number], b"abandoned");
    }
    let abandoned = disk.process_kill();
    abandoned.put(path, &copy);
    for name in abandoned.list(Path::new("/log")).unwrap() {
        abandoned.remove(&name).unwrap();
    }

    let no_name =
        CrashOptions { lose_name: 1.0, lose_write: 0.0, tear_write: 0.0, ..CrashOptions::default() };
    let no_name = CrashOptions { all_or_nothing: 0.0, lose_length: 0.0, ..no_name };
    for protect in [true, false] {
        let disk = abandoned.process_kill();
        let instance = open_with(&disk, size, 64, protect).unwrap();
        instance.attach(path, 32).unwrap();
        insert_and_flush(&instance, b"second", b"new");
        let instance = open_with(&disk.crash(1, no_name), size, 64, protect).unwrap();
        let tree = instance.core().databases()[0].trees.tree_at(root).unwrap();
        let view = ActiveTransaction::new(instance.core().clone(), 1).view();
        let expected = [(&b"first"[..], &b"old"[..]), (b"second", b"new")];
        let expected: TreeModel = expected.map(|(key, data)| (key.to_vec(), data.to_vec())).into();
        assert_eq!(contents(&tree, &view), expected, "protection {protect}");
        assert_eq!(instance.recovery().torn_pages, 0, "protection {protect}");
    }
}

/// If page protection is off, page images are no longer updated. Once the torn pages have been restored, the images
/// are useless.
#[test]
fn recovery_without_page_protection_leaves_no_page_images() {
    let size = PageSize::KIB_4;
    let disk = SimVfs::new();
    let instance = open(&disk, size, 64).unwrap();
    let (db, tree) = database(&instance, DATABASES[0]);
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    session.begin().unwrap();
    tree.insert(session.changes().unwrap(), b"key", b"data").unwrap();
    session.commit().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let disk = disk.process_kill();
    let torn = size.offset_of(tree.root) + size.bytes() as u64 / 2;
    disk.corrupt(Path::new(DATABASES[0]), torn, &[0xAA; 512]).unwrap();

    for cut in 1..60 {
        let disk = disk.process_kill();
        disk.cut_power_after(cut);
        let _ = open_with(&disk, size, 64, false);
        let disk = disk.crash(cut, CrashOptions::default());
        let instance = open_with(&disk, size, 64, false).unwrap();
        let side = double_write::path_of(Path::new(DATABASES[0]));
        let lost = CrashOptions { lose_name: 1.0, ..CrashOptions::default() };
        assert!(!disk.crash(1, lost).exists(&side).unwrap(), "cut {cut}");
        let tree = instance.core().databases()[0].trees.tree_at(tree.root).unwrap();
        let view = ActiveTransaction::new(instance.core().clone(), 1).view();
        assert_eq!(contents(&tree, &view), [(b"key".to_vec(), b"data".to_vec())].into(), "cut {cut}");
    }
}
