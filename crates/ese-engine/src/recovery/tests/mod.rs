//! Tests of recovery: page-by-page replay, pages that recovery does not read, undo, and page images.

mod damaged_records;
mod merges;
mod own_logs;
mod page_images;
mod page_replay;
mod redo_fixture;
mod single_records;
mod splits;
mod undo;
mod windows_logs;

use std::path::Path;

use ese_format::page::PageFlags;
use jetcell_sync::Arc;

use crate::btree::tests::create_tree;
use crate::btree::{Bookmark, SeekRelation, Tree, TreeCursor};
use crate::database::Database;
use crate::transaction::ActiveTransaction;
use crate::{DatabaseOptions, Instance};

const DATABASES: [&str; 2] = ["/db/one.edb", "/db/two.edb"];

/// Creates a database with an empty tree.
fn database(instance: &Instance, path: &str) -> (Arc<Database>, Arc<Tree>) {
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
    let db = instance.create_database(Path::new(path), &create).unwrap();
    let tree = create_tree(instance, &db, PageFlags::empty());
    (db, tree)
}

/// Returns the record with this key, as seen by the session.
fn at(tree: &Arc<Tree>, session: &ActiveTransaction, key: &[u8]) -> Bookmark {
    let mut cursor = TreeCursor::new(tree.clone());
    assert!(cursor.seek(&session.view(), key, SeekRelation::Equal).unwrap());
    cursor.bookmark().unwrap().clone()
}
