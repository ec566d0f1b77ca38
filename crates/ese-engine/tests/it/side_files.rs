//! Tests of files with page images: their names next to databases with unusual names, and their use next to restored
//! databases.

use std::path::Path;

use ese_engine::Database;
use ese_engine::internals::cache::Cache;
use ese_engine::{CommitMode, DatabaseOptions, Instance};
use ese_format::PageNumber;
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::recovered::{RowsByKey, SIZE, create_one, open, rows, work};

/// Makes random changes, commits them durably, and writes them to the database file.
fn work_and_flush(instance: &Instance, cache: &Cache, db: &Arc<Database>, model: &mut RowsByKey, seed: u64) {
    let mut session = instance.session();
    work(&mut session, db, model, &mut ChaCha8Rng::seed_from_u64(seed), 300);
    session.rollback().unwrap();
    drop(session);
    instance.flush().unwrap();
    cache.flush_file(db.file_id()).unwrap();
}

/// Returns a page whose second half differs between two states of a file.
fn changed_page(before: &[u8], after: &[u8]) -> PageNumber {
    let halves = |bytes: &[u8], page: PageNumber| {
        let at = SIZE.offset_of(page) as usize;
        bytes[at + SIZE.bytes() / 2..at + SIZE.bytes()].to_vec()
    };
    let pages = (before.len() / SIZE.bytes()).min(after.len() / SIZE.bytes()) as u32 - 2;
    (1..=pages)
        .map(PageNumber::fixed)
        .find(|page| halves(before, *page) != halves(after, *page))
        .expect("a page was flushed")
}

#[test]
fn databases_that_differ_only_in_extension_have_separate_page_images() {
    let [one, other] = ["/db/a.edb", "/db/a.dat"].map(Path::new);
    for detached in [false, true] {
        let disk = SimVfs::new();
        let (instance, cache) = open(&disk, 256);
        let db = create_one(&instance, "/db/a.edb");
        let second = create_one(&instance, "/db/a.dat");
        if detached {
            instance.detach(&second).unwrap();
        }
        let (mut model, before) = (RowsByKey::new(), disk.contents(one).unwrap());
        work_and_flush(&instance, &cache, &db, &mut model, 1);
        let disk = disk.crash(1, CrashOptions::default());
        let page = changed_page(&before, &disk.contents(one).unwrap());
        // The second half of the last written page did not reach the disk.
        let at = SIZE.offset_of(page) as usize + SIZE.bytes() / 2;
        disk.corrupt(one, at as u64, &before[at..at + SIZE.bytes() / 2]).unwrap();

        let (instance, _) = open(&disk, 256);
        assert_eq!(instance.recovery().torn_pages, 1, "detached {detached}");
        assert_eq!(rows(&instance, &instance.attach(one, 32).unwrap()), model);
        assert!(rows(&instance, &instance.attach(other, 32).unwrap()).is_empty());
    }
}

#[test]
fn a_database_may_share_a_page_image_file_name() {
    let disk = SimVfs::new();
    let (instance, cache) = open(&disk, 256);
    let mut models = [RowsByKey::new(), RowsByKey::new()];
    for (seed, (path, model)) in (1..).zip(["/db/x.jdw", "/db/x.edb.jdw"].iter().zip(&mut models)) {
        let db = create_one(&instance, path);
        work_and_flush(&instance, &cache, &db, model, seed);
        instance.detach(&db).unwrap();
    }
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
    let error = instance.create_database(Path::new("/db/x.edb"), &create).err().expect("the name is taken");
    assert!(error.to_string().contains("/db/x.edb.jdw"), "{error}");
    create_one(&instance, "/db/x.dat");
    for (path, model) in ["/db/x.jdw", "/db/x.edb.jdw"].map(Path::new).into_iter().zip(&models) {
        let db = instance.attach(path, 32).unwrap();
        assert_eq!(rows(&instance, &db), *model, "{}", path.display());
    }
}

/// An operator restores a database and its logs to an older state. The page images contain changes made since then,
/// which are not in any log.
#[test]
fn page_images_with_changes_missing_from_the_log_are_ignored() {
    let path = Path::new("/db/a.edb");
    let disk = SimVfs::new();
    let (instance, cache) = open(&disk, 256);
    let db = create_one(&instance, "/db/a.edb");
    let mut then = RowsByKey::new();
    work_and_flush(&instance, &cache, &db, &mut then, 1);
    let mut files = disk.list(Path::new("/log")).unwrap();
    files.push(path.to_path_buf());
    let copies: Vec<_> = files.iter().map(|file| (file, disk.contents(file).unwrap())).collect();
    let mut now = then.clone();
    work_and_flush(&instance, &cache, &db, &mut now, 2);
    assert_ne!(then, now);

    let disk = disk.process_kill();
    for file in disk.list(Path::new("/log")).unwrap() {
        disk.remove(&file).unwrap();
    }
    copies.iter().for_each(|(file, bytes)| disk.put(file, bytes));
    let (instance, cache) = open(&disk, 256);
    assert_eq!(instance.recovery().torn_pages, 0);
    let db = instance.attach(path, 32).unwrap();
    assert_eq!(rows(&instance, &db), then);
    // The sessions now make different changes that produce the same amount of log and write no page.
    let mut session = instance.session();
    let mut model = then.clone();
    for seed in 3..6 {
        work(&mut session, &db, &mut model, &mut ChaCha8Rng::seed_from_u64(seed), 300);
        session.commit(CommitMode::Durable).unwrap();
    }
    let expected = rows(&instance, &db);
    drop((session, db, cache));
    let (instance, _) = open(&disk.process_kill(), 256);
    assert_eq!(instance.recovery().torn_pages, 0);
    assert_eq!(rows(&instance, &instance.attach(path, 32).unwrap()), expected);
}
