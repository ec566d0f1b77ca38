//! Databases that were detached and then removed, replaced or created anew, of which the log still has records.

use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_engine::{CommitMode, Error, Instance};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, Rows, SIZE, create, create_one, open, options, rows, work};

/// What the place of the database is found with after the crash.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Now {
    Missing,
    CreatedAnew,
    /// As a creation leaves it that a crash ends before it is logged.
    Empty,
    AnotherInstances,
}

/// Two databases in use, and what they must hold. With `listed` the checkpoint knows that they are attached, else redo
/// meets their creation.
fn in_use(disk: &SimVfs, listed: bool, rng: &mut ChaCha8Rng) -> (Arc<Instance>, [Rows; 2]) {
    let (instance, cache) = open(disk, 256);
    create(&instance);
    let mut models = [Rows::new(), Rows::new()];
    for round in 0..2 {
        for (path, model) in DATABASES.iter().zip(&mut models) {
            let db = instance.attach(Path::new(path), 32).unwrap();
            // With trees created, pages split, and what is rolled back.
            let mut session = instance.session();
            work(&mut session, &db, model, rng, 300);
            session.rollback().unwrap();
            if round == 0 && listed {
                cache.flush_file(db.file_id()).unwrap();
            }
        }
        if round == 0 && listed {
            instance.checkpoint().unwrap();
        }
    }
    (instance, models)
}

fn opened(disk: &SimVfs) -> ese_engine::Result<Arc<Instance>> {
    Instance::open(options(Arc::new(disk.clone()), 256).0)
}

#[test]
fn a_database_removed_after_its_detach_is_not_missed() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for listed in [false, true] {
        for now in [Now::Missing, Now::CreatedAnew, Now::Empty, Now::AnotherInstances] {
            let disk = SimVfs::new();
            let (instance, mut models) = in_use(&disk, listed, &mut rng);
            let path = Path::new(DATABASES[0]);
            let db = instance.attach(path, 32).unwrap();
            instance.detach(&db).unwrap();
            drop(db);
            disk.remove(path).unwrap();
            models[0].clear();
            match now {
                Now::Missing => {}
                Now::CreatedAnew => {
                    let db = create_one(&instance, DATABASES[0]);
                    let mut session = instance.session();
                    work(&mut session, &db, &mut models[0], &mut rng, 200);
                    session.rollback().unwrap();
                }
                Now::Empty => disk.put(path, &vec![0; 4 * SIZE.bytes()]),
                Now::AnotherInstances => {
                    let other = SimVfs::new();
                    let (instance, _) = open(&other, 256);
                    create(&instance);
                    // The first one of another instance may have drawn the same signature.
                    disk.put(path, &other.contents(Path::new(DATABASES[1])).unwrap());
                }
            }
            let db = instance.attach(Path::new(DATABASES[1]), 32).unwrap();
            let mut session = instance.session();
            work(&mut session, &db, &mut models[1], &mut rng, 100);
            session.rollback().unwrap();
            drop((session, db));
            instance.flush().unwrap();

            // And again from the same checkpoint.
            let mut disk = disk;
            for _ in 0..2 {
                disk = disk.process_kill();
                let before = disk.contents(path);
                let instance = opened(&disk).unwrap_or_else(|e| panic!("{now:?}, listed {listed}: {e}"));
                let attached = if now == Now::CreatedAnew { 2 } else { 1 };
                assert_eq!(instance.recovery().left_attached, attached, "{now:?}, listed {listed}");
                for (path, model) in DATABASES.iter().zip(&models).rev().take(attached) {
                    assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
                }
                if now != Now::CreatedAnew {
                    assert!(
                        disk.contents(path) == before,
                        "{now:?}: a file that is none of the log's was changed"
                    );
                }
                instance.flush().unwrap();
            }
            let (instance, _) = open(&disk.process_kill(), 256);
            instance.shutdown().unwrap();
        }
    }
}

#[test]
fn a_database_removed_without_a_detach_is_missed_and_nothing_is_lost_until_it_is_back() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for listed in [false, true] {
        for replaced in [false, true] {
            let disk = SimVfs::new();
            let (instance, mut models) = in_use(&disk, listed, &mut rng);
            // Neither what the other one has not committed nor its detach may be of use for the one that is missing.
            let db = instance.attach(Path::new(DATABASES[1]), 32).unwrap();
            let mut session = instance.session();
            work(&mut session, &db, &mut models[1], &mut rng, 100);
            instance.flush().unwrap();
            let mut disk = disk.process_kill();
            drop((session, db, instance));
            let path = Path::new(DATABASES[0]);
            let bytes = disk.contents(path).unwrap();
            for _ in 0..3 {
                disk.remove(path).unwrap();
                if replaced {
                    let mut another = bytes.clone();
                    another[..4 * SIZE.bytes()].fill(0);
                    disk.put(path, &another);
                }
                let text = match opened(&disk) {
                    Err(Error::Usage(text)) => text,
                    other => panic!("{:?}", other.err()),
                };
                let expected = if replaced { "not an ESE database" } else { "it is not there; put it back" };
                assert!(text.contains(DATABASES[0]) && text.contains(expected), "{text}");
                disk = disk.process_kill();
                disk.put(path, &bytes);
            }
            let (instance, _) = open(&disk, 256);
            assert_eq!((instance.recovery().left_attached, instance.recovery().rolled_back), (2, 1));
            for (path, model) in DATABASES.iter().zip(&models) {
                assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
            }
            let mut session = instance.session();
            session.begin().unwrap();
            session.commit(CommitMode::Durable).unwrap();
            drop(session);
            instance.shutdown().unwrap();
            for path in DATABASES {
                let report = check_database(&disk, Path::new(path), &CheckOptions::default()).unwrap();
                assert!(report.clean && report.findings.is_empty(), "{path}: {:#?}", report.findings);
            }
        }
    }
}
