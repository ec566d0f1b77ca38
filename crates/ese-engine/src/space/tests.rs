use std::collections::BTreeSet;
use std::path::Path;

use ese_format::page::PageFlags;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::SimVfs;

use super::{SpaceLock, SpaceTrees};
use crate::CreateOptions;
use crate::btree::tests::{create_tree, open};
use crate::pages::group;

/// The pages of a space tree of at most two levels, without its root.
fn pages_below_root(lock: &SpaceLock<'_>, root: PageNumber) -> BTreeSet<u32> {
    let mut pages = BTreeSet::new();
    group::run(lock.file, false, |group| {
        let page = group.page(root)?;
        pages = match page.is_leaf() {
            true => BTreeSet::new(),
            false => page.nodes().filter_map(|node| node.child()).map(PageNumber::get).collect(),
        };
        Ok(())
    })
    .unwrap();
    pages
}

fn owned(lock: &SpaceLock<'_>, trees: &SpaceTrees) -> BTreeSet<u32> {
    let extents = lock.owned_extents(trees).unwrap();
    extents.iter().flat_map(|extent| extent.first().get()..=extent.last.get()).collect()
}

/// Two trees grow in turns, so that no extent joins the one before it and the owned-extent trees are split. Each page that a tree
/// got since is in one of the extents that it was given, or in its owned-extent tree, and in no other place.
#[test]
fn a_split_of_the_owned_extents_takes_its_pages_from_the_new_extent() {
    const PAGES: u32 = 8;
    let instance = open(&SimVfs::new(), PageSize::KIB_4, 64).unwrap();
    let db = instance.create_database(Path::new("/db/space.edb"), &CreateOptions::default()).unwrap();
    let roots = [1, 2].map(|_| create_tree(&instance, &db, PageFlags::empty()).root);
    let lock = SpaceLock::new(&db.file);
    let trees = roots.map(|root| lock.trees(root).unwrap());
    let before = trees.each_ref().map(|trees| owned(&lock, trees));
    let mut given = [BTreeSet::new(), BTreeSet::new()];
    // A leaf of a page of 4 KiB has about 200 extents.
    for _ in 0..700 {
        for (root, given) in roots.iter().zip(&mut given) {
            let extent = lock.add_settled_extent(*root, PAGES).unwrap();
            for page in extent.first().get()..=extent.last.get() {
                assert!(given.insert(page), "page {page} was given twice");
            }
        }
    }
    for ((trees, given), before) in trees.iter().zip(&given).zip(&before) {
        let of_splits = pages_below_root(&lock, trees.owned.root);
        assert!(of_splits.len() >= 3, "the owned-extent tree has {} leaves", of_splits.len());
        assert!(of_splits.is_disjoint(given), "a page is given, and part of the space tree");
        let all: BTreeSet<u32> = before | &(given | &of_splits);
        assert_eq!(all, owned(&lock, trees));
    }
    let [first, second] = trees.each_ref().map(|trees| owned(&lock, trees));
    assert!(first.is_disjoint(&second));
}
