//! Tests of sets of logs and databases that do not match: missing oldest or newest logs, a database that was used
//! with another log since, and a copy of logs and databases.

use std::path::{Path, PathBuf};

use ese_engine::internals::log::LogNames;
use ese_engine::{CommitMode, Error, FileError, Instance, Result};
use ese_format::header::{DatabaseHeader, DatabaseState};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs, Vfs};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, RowsByKey, SIZE, create, create_one, killed, open, options, rows, work};

/// Opens the instance with this log directory.
fn open_log(disk: &SimVfs, directory: &str, seed: u64) -> Result<Arc<Instance>> {
    disk.create_directory(Path::new(directory)).unwrap();
    let (mut options, _) = options(Arc::new(disk.clone()), 256);
    (options.log.directory, options.checkpoint.directory) = (directory.into(), directory.into());
    options.seed = Some(seed);
    Instance::open(options)
}

fn contents(disk: &SimVfs) -> [Option<Vec<u8>>; 2] {
    DATABASES.map(|path| disk.contents(Path::new(path)))
}

fn header(disk: &SimVfs, path: &str) -> DatabaseHeader {
    let bytes = disk.contents(Path::new(path)).unwrap();
    DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0
}

#[test]
fn missing_oldest_or_newest_logs_are_reported() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let disk = SimVfs::new();
    let (instance, cache) = open(&disk, 1024);
    create(&instance);
    let mut models = [RowsByKey::new(), RowsByKey::new()];
    let mut change = |number: usize, count: usize| {
        let db = instance.attach(Path::new(DATABASES[number]), 32).unwrap();
        let mut session = instance.session();
        work(&mut session, &db, &mut models[number], &mut rng, count);
        session.rollback().unwrap();
    };
    (0..2).for_each(|number| change(number, 300));
    instance.step().unwrap();
    instance.core().databases().iter().for_each(|db| cache.flush_file(db.file_id()).unwrap());
    let checkpoint = instance.checkpoint().unwrap();
    // The changes that are only in the checkpoint's generation belong to the first database.
    change(0, 20);
    instance.core().log().roll_over().unwrap();
    change(1, 20);
    instance.core().log().roll_over().unwrap();
    change(1, 20);
    // The file now has pages with changes of the last generation.
    instance.core().databases().iter().for_each(|db| cache.flush_file(db.file_id()).unwrap());
    change(1, 20);
    instance.flush().unwrap();
    let disk = disk.process_kill();
    let names = LogNames::new(Path::new("/log"), FileStem::E00);
    assert!(
        checkpoint.generation.0 > 1 && header(&disk, DATABASES[1]).gen_max_required > checkpoint.generation
    );

    let oldest = disk.list(Path::new("/log")).unwrap().into_iter();
    let oldest =
        oldest.filter(|path| names.generation_of(path).is_some_and(|one| one <= checkpoint.generation));
    for gone in [oldest.collect::<Vec<PathBuf>>(), vec![names.current()]] {
        let disk = disk.clone_disk();
        let (before, logs) = (contents(&disk), gone.iter().map(|path| disk.contents(path).unwrap()));
        let logs: Vec<_> = logs.collect();
        gone.iter().for_each(|path| disk.remove(path).unwrap());
        let error = open_log(&disk, "/log", 1).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::LogsMissing { .. } | Error::LogMissing { .. }), "{gone:?}: {error}");
        assert!(contents(&disk) == before, "{gone:?}: a database was changed");
        // Once the logs are put back, recovery loses nothing.
        let disk = disk.process_kill();
        gone.iter().zip(&logs).for_each(|(path, bytes)| disk.put(path, bytes));
        let instance = open_log(&disk, "/log", 1).unwrap();
        for (path, model) in DATABASES.iter().zip(&models) {
            assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
        }
    }
}

/// After a clean shutdown no database is attached. Only the other logs and the database show that a log is missing.
#[test]
fn a_missing_newest_log_is_reported_after_a_clean_shutdown() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 1024);
    create(&instance);
    instance.core().log().roll_over().unwrap();
    instance.shutdown().unwrap();
    drop(instance);
    let names = LogNames::new(Path::new("/log"), FileStem::E00);
    disk.remove(&names.current()).unwrap();
    let logs = disk.list(Path::new("/log")).unwrap();
    let newest = logs.iter().filter(|path| names.generation_of(path).is_some()).max().unwrap();
    let renamed = disk.clone_disk();
    renamed.rename(newest, &names.current()).unwrap();
    for disk in [disk, renamed] {
        let before = contents(&disk);
        let error = open_log(&disk, "/log", 1).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::LogsMissing { .. } | Error::LogMissing { .. }), "{error}");
        assert!(contents(&disk) == before);
    }
}

/// Creates a disk on which the first instance was killed after it had detached the database, but before it advanced
/// its checkpoint. A second log then used the database; its instance was shut down or killed. Returns the rows that
/// the database must contain.
fn detached_without_checkpoint(rng: &mut ChaCha8Rng, shut_down: bool) -> (SimVfs, RowsByKey) {
    let (disk, path) = (SimVfs::new(), Path::new(DATABASES[0]));
    let mut model = RowsByKey::new();
    let instance = open_log(&disk, "/one", 1).unwrap();
    drop(create_one(&instance, DATABASES[0]));
    // At the last attachment, the first log is far ahead of the position that the second log will reach.
    for count in [500, 20] {
        let db = instance.attach(path, 32).unwrap();
        let mut session = instance.session();
        work(&mut session, &db, &mut model, rng, count);
        session.rollback().unwrap();
        drop(session);
        instance.detach(&db).unwrap();
    }
    let disk = disk.process_kill();
    let instance = open_log(&disk, "/two", 2).unwrap();
    let db = instance.attach(path, 32).unwrap();
    let mut session = instance.session();
    work(&mut session, &db, &mut model, rng, 60);
    instance.flush().unwrap();
    instance.core().cache.flush_file(db.file_id()).unwrap();
    if shut_down {
        session.rollback().unwrap();
        drop((session, db));
        instance.shutdown().unwrap();
    }
    (disk.process_kill(), model)
}

#[test]
fn recovery_does_not_change_a_database_used_with_another_log_since() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for shut_down in [false, true] {
        let (disk, model) = detached_without_checkpoint(&mut rng, shut_down);
        let side = |disk: &SimVfs| disk.list(Path::new("/db")).unwrap();
        let before = (contents(&disk), side(&disk));
        assert_eq!(header(&disk, DATABASES[0]).state == DatabaseState::CleanShutdown, shut_down);
        let instance = open_log(&disk, "/one", 1).unwrap();
        assert_eq!(instance.recovery().left_attached, 0);
        assert!((contents(&disk), side(&disk)) == before, "shut down: {shut_down}");
        drop(instance);
        let instance = open_log(&disk.process_kill(), "/two", 2).unwrap();
        assert_eq!(instance.recovery().left_attached, usize::from(!shut_down));
        let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
        assert_eq!(rows(&instance, &db), model, "shut down: {shut_down}");
    }
}

/// If one log still has the database attached and another log uses it, the first log cannot be recovered without the
/// database.
#[test]
fn a_database_in_use_with_another_log_is_reported() {
    let (disk, _) = detached_without_checkpoint(&mut ChaCha8Rng::seed_from_u64(3), true);
    let instance = open_log(&disk, "/one", 1).unwrap();
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    instance.flush().unwrap();
    let killed = disk.process_kill();
    let clean = {
        instance.detach(&db).unwrap();
        disk.contents(Path::new(DATABASES[0])).unwrap()
    };
    let disk = killed;
    disk.put(Path::new(DATABASES[0]), &clean);
    let other = open_log(&disk, "/two", 2).unwrap();
    other.attach(Path::new(DATABASES[0]), 32).unwrap();
    let disk = disk.process_kill();
    let before = contents(&disk);
    let error = open_log(&disk, "/one", 1).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(DATABASES[0]) && error.contains("last used with a different log"), "{error}");
    assert!(contents(&disk) == before);
}

/// Between the attach record and the update of the header, the file still has the state that the other log left.
#[test]
fn an_attachment_from_another_log_survives_a_crash_at_any_point() {
    let (moved, model) = detached_without_checkpoint(&mut ChaCha8Rng::seed_from_u64(4), true);
    let mut left_attached = 0;
    for cut in 0.. {
        let mut disk = moved.clone_disk();
        let instance = open_log(&disk, "/one", 1).unwrap();
        disk.cut_power_after(disk.operations() + cut);
        let done = instance.attach(Path::new(DATABASES[0]), 32).is_ok();
        for _ in 0..2 {
            disk = disk.process_kill();
            let instance = open_log(&disk, "/one", 1).unwrap_or_else(|e| panic!("cut {cut}: {e}"));
            left_attached += instance.recovery().left_attached;
            let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
            assert_eq!(rows(&instance, &db), model, "cut {cut}");
            let mut session = instance.session();
            session.begin().unwrap();
            session.commit(CommitMode::Durable).unwrap();
        }
        if done {
            assert!(left_attached > cut as usize + 2, "{left_attached} in {cut} cuts");
            return;
        }
    }
}

#[test]
fn a_copied_log_does_not_recover_the_original() {
    let (disk, models) = killed(&mut ChaCha8Rng::seed_from_u64(5));
    let copy = Path::new("/copy");
    disk.create_directory(copy).unwrap();
    for directory in ["/db", "/log"] {
        for path in disk.list(Path::new(directory)).unwrap() {
            disk.put(&copy.join(path.file_name().unwrap()), &disk.contents(&path).unwrap());
        }
    }
    let before = contents(&disk);
    let error = open_log(&disk, "/copy", 1).map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::File { error: FileError::CopyInLogDirectory(_), .. }), "{text}");
    assert!(text.contains(DATABASES[0]) && text.contains("/copy/one.edb"), "{text}");
    assert!(contents(&disk) == before);
    let (instance, _) = open(&disk, 256);
    for (path, model) in DATABASES.iter().zip(&models) {
        assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
    }
}

/// The log directory may contain another database with the same name, or a file with that name that is not a
/// database.
#[test]
fn unrelated_files_in_the_log_directory_are_ignored() {
    let (disk, models) = killed(&mut ChaCha8Rng::seed_from_u64(6));
    let other = SimVfs::new();
    let (instance, _) = open(&other, 256);
    create(&instance);
    disk.put(Path::new("/log/one.edb"), &other.contents(Path::new(DATABASES[1])).unwrap());
    disk.put(Path::new("/log/two.edb"), b"no database");
    let (instance, _) = open(&disk, 256);
    for (path, model) in DATABASES.iter().zip(&models) {
        assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
    }
}
