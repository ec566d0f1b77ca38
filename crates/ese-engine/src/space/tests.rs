use std::collections::BTreeSet;
use std::path::Path;

use ese_format::page::PageFlags;
use ese_format::space::Extent;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::SimVfs;

use super::{SpaceLock, SpaceTrees, extents};
use crate::DatabaseOptions;
use crate::btree::tests::{create_tree, open};
use crate::pages::group;

/// Returns the pages of a space tree of at most two levels, without its root.
fn pages_below_root(lock: &SpaceLock<'_>, root: PageNumber) -> BTreeSet<u32> {
    let mut pages = BTreeSet::new();
    group::run(lock.file, false, |group| {
        let page = group.page(root)?;
        pages = if page.is_leaf() {
            BTreeSet::new()
        } else {
            page.nodes().filter_map(|node| node.child()).map(PageNumber::get).collect()
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

/// Two trees grow alternately. As a result, no extent is adjacent to its tree's previous extent, and the owned-extent
/// trees are split. Each new page of a tree is either in one of the extents that the tree received or in its
/// owned-extent tree, and nowhere else.
#[test]
fn an_owned_extents_split_takes_pages_from_the_new_extent() {
    const PAGES: u32 = 8;
    let instance = open(&SimVfs::new(), PageSize::KIB_4, 64).unwrap();
    let db = instance.create_database(Path::new("/db/space.edb"), &DatabaseOptions::default()).unwrap();
    let roots = [1, 2].map(|_| create_tree(&instance, &db, PageFlags::empty()).root);
    let lock = SpaceLock::new(&db.file);
    let trees = roots.map(|root| lock.trees(root).unwrap());
    let before = trees.each_ref().map(|trees| owned(&lock, trees));
    let mut given = [BTreeSet::new(), BTreeSet::new()];
    // With 4 KiB pages, a leaf holds about 200 extents.
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

/// Fragments the start of an available extent: every second page becomes a separate available extent, and the pages
/// in between are in use. Returns the rest of the extent.
fn fragment(lock: &SpaceLock<'_>, trees: &SpaceTrees, mut whole: Extent, pieces: u32) -> Extent {
    const AT_A_TIME: u32 = 50;
    for _ in 0..pieces / AT_A_TIME {
        let first = whole.first();
        group::run(lock.file, false, |group| {
            let found = extents::at(group, &trees.available, whole)?;
            extents::resize(group, &trees.available, &found, whole.count - 2 * AT_A_TIME)?;
            let mut in_use = (0..AT_A_TIME).map(|piece| first.plus(2 * piece + 1));
            let mut spare = |_: &mut _| Ok(in_use.next().unwrap());
            for piece in 0..AT_A_TIME {
                let extent = Extent::starting_at(first.plus(2 * piece), 1);
                extents::insert(group, &trees.available, extent, &mut spare)?;
            }
            Ok(())
        })
        .unwrap();
        whole.count -= 2 * AT_A_TIME;
    }
    whole
}

/// A search visits more leaves than the cache has frames. Each leaf is read once.
#[test]
fn a_search_through_many_extents_pins_few_pages() {
    const FRAMES: usize = 48;
    let instance = open(&SimVfs::new(), PageSize::KIB_4, FRAMES).unwrap();
    let db = instance.create_database(Path::new("/db/space.edb"), &DatabaseOptions::default()).unwrap();
    let root = create_tree(&instance, &db, PageFlags::empty()).root;
    let lock = SpaceLock::new(&db.file);
    let trees = lock.trees(root).unwrap();
    let whole = lock.prepare_extent(&trees, 32_000).unwrap();
    let rest = fragment(&lock, &trees, whole, 15_000);
    let leaves = pages_below_root(&lock, trees.available.root).len();
    assert!(leaves > FRAMES + FRAMES / 4, "{leaves} leaves");
    let before = db.file.cache.counters().faults;
    assert_eq!(lock.prepare_extent(&trees, 2).unwrap(), rest);
    let read = db.file.cache.counters().faults - before;
    assert!(read <= leaves as u64 + 4, "{read} pages are read to pass {leaves} leaves");
    // Both the extent that the search found and the very first extent can be allocated.
    lock.prepare(root, 15_001).unwrap();
    let (first, taken) = group::run(lock.file, false, |group| {
        let first = lock.take_page(group, &trees)?;
        Ok((first, lock.take_first_of_extent(group, &trees, rest.first())?))
    })
    .unwrap();
    assert!(taken && first < rest.first(), "{first}");
    let rest = Extent { count: rest.count - 1, ..rest };
    assert_eq!(lock.prepare_extent(&trees, 2).unwrap(), rest);
}
