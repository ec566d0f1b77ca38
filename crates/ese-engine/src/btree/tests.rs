//! Compares trees with an ordered map: random changes, rollbacks and power cuts, on a simulated disk.

use std::collections::BTreeMap;
use std::path::Path;

use ese_format::page::{Page, PageFlags};
use ese_format::{PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{SeekRelation, Tree, TreeCursor};
use crate::cache::{Cache, CacheOptions};
use crate::database::Database;
use crate::transaction::ActiveTransaction;
use crate::transaction::ReadView;
use crate::{BackgroundThreads, DatabaseOptions, Error, Instance, InstanceOptions, TornPageProtection};

pub(crate) const DB: &str = "/db/test.edb";
pub(crate) type TreeModel = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn open(vfs: &SimVfs, size: PageSize, pages: usize) -> crate::Result<Arc<Instance>> {
    open_with(vfs, size, pages, true)
}

pub(crate) fn open_with(
    vfs: &SimVfs,
    size: PageSize,
    pages: usize,
    protect: bool,
) -> crate::Result<Arc<Instance>> {
    open_as(vfs, CacheOptions::new(pages * size.bytes(), size, vfs.clock()), protect)
}

pub(crate) fn open_as(vfs: &SimVfs, cache: CacheOptions, protect: bool) -> crate::Result<Arc<Instance>> {
    let disk: Arc<dyn Vfs> = Arc::new(vfs.clone());
    for directory in ["/db", "/log"] {
        disk.create_directory(Path::new(directory)).unwrap();
    }
    let mut options = InstanceOptions::with_cache(disk, "/log".into(), Cache::new(cache));
    options.background = BackgroundThreads::None;
    options.log.file_size = 128 << 10;
    options.checkpoint.depth = 256 << 10;
    options.seed = Some(7);
    if !protect {
        options.torn_page_protection = TornPageProtection::Off;
    }
    Instance::open(options)
}

pub(crate) fn create_tree(instance: &Instance, db: &Arc<Database>, kind: PageFlags) -> Arc<Tree> {
    let mut session = ActiveTransaction::new(instance.core().clone(), 900);
    session.begin().unwrap();
    let tree = db.trees.create_tree(session.changes().unwrap(), PageNumber::fixed(1), kind, 3).unwrap();
    session.commit().unwrap();
    tree
}

pub(crate) fn contents(tree: &Arc<Tree>, view: &ReadView) -> TreeModel {
    let mut cursor = TreeCursor::new(tree.clone());
    let mut all = TreeModel::new();
    let mut found = cursor.first(view).unwrap();
    while found {
        let bookmark = cursor.bookmark().unwrap();
        let fresh = all.insert(bookmark.bytes().to_vec(), cursor.data().to_vec()).is_none();
        assert!(fresh, "a scan returned a key twice");
        found = cursor.next(view).unwrap();
    }
    let mut back = Vec::new();
    let mut found = cursor.last(view).unwrap();
    while found {
        back.push(cursor.bookmark().unwrap().bytes().to_vec());
        found = cursor.previous(view).unwrap();
    }
    back.reverse();
    assert_eq!(
        back,
        all.keys().cloned().collect::<Vec<_>>(),
        "the backward scan differs from the forward scan"
    );
    all
}

fn random_key(rng: &mut ChaCha8Rng, space: u32) -> Vec<u8> {
    let n = rng.random_range(0..space);
    let mut key = b"prefix".to_vec();
    key.extend_from_slice(&n.to_be_bytes());
    if n % 3 == 0 {
        key.extend(std::iter::repeat_n(b'x', (n % 40) as usize));
    }
    key
}

fn random_data(rng: &mut ChaCha8Rng, largest: usize) -> Vec<u8> {
    let len = if rng.random_bool(0.1) { rng.random_range(0..largest) } else { rng.random_range(0..200) };
    (0..len + 1).map(|_| rng.random()).collect()
}

/// Runs one random transaction on the tree and on the model. Returns true if it committed.
pub(crate) fn transaction(
    tree: &Arc<Tree>,
    session: &mut ActiveTransaction,
    model: &mut TreeModel,
    rng: &mut ChaCha8Rng,
    space: u32,
    largest: usize,
) -> crate::Result<bool> {
    let before = model.clone();
    session.begin()?;
    let mut nested: Vec<TreeModel> = Vec::new();
    for _ in 0..rng.random_range(1..24) {
        let key = random_key(rng, space);
        let data = random_data(rng, largest);
        match rng.random_range(0..100) {
            0..45 => match session.changes().and_then(|context| tree.insert(context, &key, &data)) {
                Ok(()) => assert!(model.insert(key, data).is_none()),
                Err(Error::KeyDuplicate) => assert!(model.contains_key(&key)),
                Err(error) => return Err(error),
            },
            45..80 => {
                let mut cursor = TreeCursor::new(tree.clone());
                let found = cursor.seek(&session.view(), &key, SeekRelation::GreaterOrEqual)?;
                let expected = model.range(key..).next().map(|(k, v)| (k.clone(), v.clone()));
                assert_eq!(found, expected.is_some());
                if let Some((key, value)) = expected {
                    assert_eq!(cursor.data(), value);
                    let bookmark = cursor.bookmark().unwrap().clone();
                    if rng.random_bool(0.6) {
                        tree.flag_delete(session.changes()?, &bookmark)?;
                        model.remove(&key);
                    } else {
                        tree.replace(session.changes()?, &bookmark, &data)?;
                        model.insert(key, data);
                    }
                }
            }
            80..90 if nested.len() < 4 => {
                session.begin()?;
                nested.push(model.clone());
            }
            90..96 => {
                if let Some(saved) = nested.pop() {
                    session.rollback()?;
                    *model = saved;
                }
            }
            _ => {
                if nested.pop().is_some() {
                    session.commit()?;
                }
            }
        }
    }
    while nested.pop().is_some() {
        session.commit()?;
    }
    if rng.random_bool(0.2) {
        session.rollback()?;
        *model = before;
        return Ok(false);
    }
    session.commit()?;
    Ok(true)
}

pub(super) fn check_structure(tree: &Arc<Tree>) {
    fn walk(tree: &Tree, page: PageNumber, low: &[u8], high: Option<&[u8]>, leaves: &mut Vec<PageNumber>) {
        let latch = tree.pin(page).unwrap().read();
        let view: Page<'_> = tree.view(&latch);
        assert_eq!(ese_format::page::validate(&latch, tree.file.page_size), Ok(()), "{page:?}");
        assert_eq!(view.tree(), tree.id);
        let mut from = low.to_vec();
        for (line, node) in view.nodes().enumerate() {
            let key = tree.identity().order_key(&node);
            if view.is_leaf() {
                assert!(key >= from && high.is_none_or(|high| key.as_slice() < high), "{page:?} line {line}");
                from = key;
                continue;
            }
            let last = line + 1 == view.node_count();
            let to = if node.key_len() == 0 { None } else { Some(node.key_to_vec()) };
            assert!(
                !last || to.as_deref() == high,
                "{page:?}: last entry must repeat the parent's separator"
            );
            walk(tree, node.child().unwrap(), &from, to.as_deref(), leaves);
            from = to.unwrap_or_default();
        }
        if view.is_leaf() {
            assert!(page == tree.root || view.node_count() > 0, "{page:?} is empty");
            leaves.push(page);
        }
    }
    let mut leaves = Vec::new();
    walk(tree, tree.root, &[], None, &mut leaves);
    for pair in leaves.windows(2) {
        let latch = tree.pin(pair[0]).unwrap().read();
        assert_eq!(tree.view(&latch).next(), Some(pair[1]));
        let latch = tree.pin(pair[1]).unwrap().read();
        assert_eq!(tree.view(&latch).prev(), Some(pair[0]));
    }
}

fn model_run(seed: u64, size: PageSize, kind: PageFlags, rounds: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let instance = open(&SimVfs::new(), size, 64).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, kind);
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    let mut model = TreeModel::new();
    for round in 0..rounds {
        // The tree first grows, which causes splits, and later shrinks, which causes merges.
        let space = if round < rounds / 2 { 4000 } else { 300 };
        transaction(&tree, &mut session, &mut model, &mut rng, space, size.bytes() / 3).unwrap();
        if round % 7 == 0 {
            instance.step().unwrap();
        }
        if round % 50 == 0 {
            check_structure(&tree);
            assert_eq!(contents(&tree, &session.view()), model);
        }
    }
    // Once all records have been deleted, all pages must be freed.
    session.begin().unwrap();
    for key in model.keys() {
        let mut cursor = TreeCursor::new(tree.clone());
        assert!(cursor.seek(&session.view(), key, SeekRelation::Equal).unwrap());
        let bookmark = cursor.bookmark().unwrap().clone();
        tree.flag_delete(session.changes().unwrap(), &bookmark).unwrap();
    }
    session.commit().unwrap();
    for _ in 0..4 {
        instance.step().unwrap();
    }
    check_structure(&tree);
    let latch = tree.pin(tree.root).unwrap().read();
    let root = tree.view(&latch);
    let waiting = instance.core().ended.len();
    assert!(root.is_leaf() && root.node_count() == 0, "{} nodes, {waiting} waiting", root.node_count());
    drop(latch);
    instance.shutdown().unwrap();
}

#[test]
fn a_tree_matches_an_ordered_map() {
    for (seed, size) in
        [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32].into_iter().enumerate()
    {
        model_run(seed as u64, size, PageFlags::empty(), 400);
    }
}

#[test]
fn sequential_inserts_find_the_rightmost_leaf_after_the_tree_resizes() {
    let instance = open(&SimVfs::new(), PageSize::KIB_4, 64).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let trees = [0, 1].map(|_| create_tree(&instance, &db, PageFlags::empty()));
    let mut models = [TreeModel::new(), TreeModel::new()];
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    for round in 0..24 {
        // One tree uses the pages that the other one freed.
        let (tree, model) = (&trees[round % 2], &mut models[round % 2]);
        let last = model.keys().last().map_or(0, |key| u32::from_be_bytes(key[..].try_into().unwrap()));
        session.begin().unwrap();
        let between = last.saturating_sub(31);
        for number in (1..60).map(|step| last + 2 * step).chain([between]) {
            let (key, data) = (number.to_be_bytes().to_vec(), vec![round as u8; 200]);
            match session.changes().and_then(|context| tree.insert(context, &key, &data)) {
                Err(Error::KeyDuplicate) => assert!(model.contains_key(&key)),
                inserted => assert!(inserted.is_ok() && model.insert(key, data).is_none()),
            }
        }
        assert!(
            tree.append_leaf.load(jetcell_sync::atomic::Ordering::Relaxed) == 0,
            "an insert out of order must reset the append leaf"
        );
        session.commit().unwrap();
        assert_eq!(contents(tree, &session.view()), *model);
        session.begin().unwrap();
        for key in model.keys().rev().take(50).cloned().collect::<Vec<_>>() {
            tree.flag_delete(session.changes().unwrap(), &tree.bookmark(&key, &[])).unwrap();
            model.remove(&key);
        }
        session.commit().unwrap();
        (0..3).for_each(|_| instance.step().unwrap());
        check_structure(tree);
        assert_eq!(contents(tree, &session.view()), *model);
    }
    instance.shutdown().unwrap();
}

#[test]
fn power_cuts_lose_no_durable_commit() {
    let first: u64 = std::env::var("JETCELL_SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("JETCELL_SIM_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(60);
    let mut shared = [0, 0];
    for seed in first..first + count {
        if std::env::var_os("JETCELL_TRACE").is_some() {
            eprintln!("seed {seed}");
        }
        let [right, left] = crash_run(seed);
        shared = [shared[0] + right, shared[1] + left];
    }
    println!("nodes moved to the right {} times, to the left {} times", shared[0], shared[1]);
    assert!(count < 60 || shared.into_iter().all(|times| times > 100), "{shared:?}: too few moves of nodes");
}

/// Runs one crash test. Returns how many times nodes moved to the right neighbour and to the left neighbour.
fn crash_run(seed: u64) -> [usize; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut disk = SimVfs::new();
    let size = [PageSize::KIB_4, PageSize::KIB_8][seed as usize % 2];
    let root;
    {
        let instance = open(&disk, size, 48).unwrap();
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        root = create_tree(&instance, &db, PageFlags::empty()).root;
        instance.shutdown().unwrap();
    }
    let mut durable = TreeModel::new();
    for life in 0..4 {
        let context = format!("seed {seed}, life {life}");
        let opened = (|| {
            let instance = open(&disk, size, 48)?;
            let db = instance.attach(Path::new(DB), 256)?;
            Ok::<_, Error>((instance, db))
        })();
        let (instance, db) = opened.unwrap_or_else(|e| panic!("{context}: recovery failed: {e}"));
        let tree = db.trees.tree_at(root).unwrap();
        check_structure(&tree);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        assert_eq!(contents(&tree, &session.view()), durable, "{context}");
        // The last state known to be durable, and the state after each later commit.
        let mut states = vec![durable.clone()];
        let mut durable_at = 0;
        let mut model = durable.clone();
        disk.cut_power_after(disk.operations() + rng.random_range(1..400));
        for _ in 0..400 {
            match transaction(&tree, &mut session, &mut model, &mut rng, 1500, size.bytes() / 3) {
                Ok(true) => states.push(model.clone()),
                Ok(false) => {}
                Err(_) => break,
            }
            let flushed = match rng.random_range(0..10) {
                0..3 => instance.flush().is_ok(),
                3..6 => {
                    if instance.step().is_err() {
                        break;
                    }
                    false
                }
                _ => false,
            };
            if flushed {
                durable_at = states.len() - 1;
            }
        }
        drop(session);
        drop(tree);
        drop(db);
        drop(instance);
        disk = if rng.random_bool(0.3) {
            disk.process_kill()
        } else {
            disk.crash(rng.random(), CrashOptions::default())
        };
        // Recovery restores one of these states. Sometimes recovery is also interrupted by a power cut.
        if rng.random_bool(0.5) {
            disk.cut_power_after(rng.random_range(1..60));
            let _ = open(&disk, size, 48);
            disk = disk.crash(rng.random(), CrashOptions::default());
        }
        let instance = open(&disk, size, 48).unwrap_or_else(|e| panic!("{context}: recovery failed: {e}"));
        let db = instance.attach(Path::new(DB), 256).unwrap_or_else(|e| panic!("{context}: {e}"));
        let tree = db.trees.tree_at(root).unwrap();
        let found = contents(&tree, &ReadView::latest());
        let which = states.iter().rposition(|state| *state == found);
        let which = which.unwrap_or_else(|| panic!("{context}: the state is not a committed state"));
        assert!(which >= durable_at, "{context}: durable commits are lost");
        check_structure(&tree);
        durable = found;
        drop((tree, db));
        instance.shutdown().unwrap();
    }
    super::share_tests::partial_merges(&disk)
}

#[test]
fn scans_read_leaves_ahead_in_both_directions() {
    let instance = open(&SimVfs::new(), PageSize::KIB_4, 64).unwrap();
    let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    let mut session = ActiveTransaction::new(instance.core().clone(), 1);
    for chunk in 0..40u32 {
        session.begin().unwrap();
        (0..50).for_each(|i| {
            tree.insert(session.changes().unwrap(), &(chunk * 50 + i).to_be_bytes(), &[7; 500]).unwrap();
        });
        session.commit().unwrap();
        instance.step().unwrap();
    }
    let cache = &instance.core().cache;
    cache.flush_file(db.file_id()).unwrap();
    let before = cache.counters();
    assert_eq!(contents(&tree, &session.view()).len(), 2000);
    let after = cache.counters();
    // The tree has about 290 leaves, four times the size of the cache. A scan in each direction reads every leaf
    // once.
    let ahead = after.prereads - before.prereads;
    let unused = after.prereads_unused - before.prereads_unused;
    assert!(ahead > 400 && unused < ahead / 10, "{ahead} leaves were read ahead, {unused} of them unused");

    let mut cursor = TreeCursor::new(tree.clone());
    let before = cache.counters().prereads;
    for i in (0..2000u32).step_by(97) {
        assert!(cursor.seek(&session.view(), &i.to_be_bytes(), SeekRelation::Equal).unwrap());
        cursor.next(&session.view()).unwrap();
    }
    assert_eq!(cache.counters().prereads, before, "seeks must not read ahead");
}

/// Returns the number of free bytes on each leaf except the last one, from left to right.
fn free_bytes(tree: &Arc<Tree>) -> Vec<usize> {
    let mut at = tree.leaf_for_read(super::descend::DescentTarget::First).unwrap();
    let mut free = Vec::new();
    loop {
        let page = tree.view(&at);
        let Some(next) = page.next() else { return free };
        free.push(page.free_bytes());
        drop(at);
        at = tree.pin(next).unwrap().read();
    }
}

#[test]
fn inserts_in_key_order_fill_pages_up_to_the_density() {
    let size = PageSize::KIB_8;
    for density in [100, 80, 20] {
        let disk = SimVfs::new();
        let instance = open(&disk, size, 64).unwrap();
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let tree = create_tree(&instance, &db, PageFlags::empty());
        tree.set_density(density);
        let mut session = ActiveTransaction::new(instance.core().clone(), 1);
        session.begin().unwrap();
        for number in 0..800_u32 {
            tree.insert(session.changes().unwrap(), &(number * 2).to_be_bytes(), &[7; 100]).unwrap();
        }
        let share = size.bytes() * (100 - density as usize) / 100;
        let free = free_bytes(&tree);
        assert!(free.len() > 8, "{density} %: {} leaves", free.len());
        // A node needs 112 bytes, including its tag.
        let all_right = free.iter().all(|free| (share..share + 112).contains(free));
        assert!(all_right, "{density} %: {free:?}");
        // The spare room allows later inserts without a split.
        for number in 0..100_u32 {
            tree.insert(session.changes().unwrap(), &(number * 16 + 1).to_be_bytes(), &[7; 10]).unwrap();
        }
        let split = free_bytes(&tree).len() > free.len();
        assert_eq!(split, density == 100, "{density} %");
        session.commit().unwrap();
        drop((session, tree, db));
        instance.shutdown().unwrap();
    }
}
