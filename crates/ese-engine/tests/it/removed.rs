//! Databases that were detached and then removed, replaced or created anew, while the log still has records of them.

use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_engine::{CommitMode, Error, Instance};
use jetcell_sync::Arc;
use jetcell_vfs::{SimVfs, Vfs};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, RowsByKey, SIZE, create, create_one, open, options, rows, work};

/// State of the path of the database when recovery runs after the crash.
#[derive(Clone, Copy, PartialEq, Debug)]
enum PathState {
    Missing,
    CreatedAnew,
    /// The file of a creation that was interrupted by a crash before it was logged.
    Empty,
    AnotherInstances,
}

/// Creates two databases in use, and the rows that they must contain. With `listed`, the checkpoint lists them as
/// attached; otherwise redo reads their create records.
fn in_use(disk: &SimVfs, listed: bool, rng: &mut ChaCha8Rng) -> (Arc<Instance>, [RowsByKey; 2]) {
    let (instance, cache) = open(disk, 256);
    create(&instance);
    let mut models = [RowsByKey::new(), RowsByKey::new()];
    for round in 0..2 {
        for (path, model) in DATABASES.iter().zip(&mut models) {
            let db = instance.attach(Path::new(path), 32).unwrap();
            // The work creates trees, splits pages and leaves changes to roll back.
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
fn recovery_does_not_need_a_database_removed_after_its_detach() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for listed in [false, true] {
        for now in [PathState::Missing, PathState::CreatedAnew, PathState::Empty, PathState::AnotherInstances]
        {
            let disk = SimVfs::new();
            let (instance, mut models) = in_use(&disk, listed, &mut rng);
            let path = Path::new(DATABASES[0]);
            let db = instance.attach(path, 32).unwrap();
            instance.detach(&db).unwrap();
            drop(db);
            disk.remove(path).unwrap();
            models[0].clear();
            match now {
                PathState::Missing => {}
                PathState::CreatedAnew => {
                    let db = create_one(&instance, DATABASES[0]);
                    let mut session = instance.session();
                    work(&mut session, &db, &mut models[0], &mut rng, 200);
                    session.rollback().unwrap();
                }
                PathState::Empty => disk.put(path, &vec![0; 4 * SIZE.bytes()]),
                PathState::AnotherInstances => {
                    let other = SimVfs::new();
                    let (instance, _) = open(&other, 256);
                    create(&instance);
                    // Another instance may have generated the same signature for its first database.
                    disk.put(path, &other.contents(Path::new(DATABASES[1])).unwrap());
                }
            }
            let db = instance.attach(Path::new(DATABASES[1]), 32).unwrap();
            let mut session = instance.session();
            work(&mut session, &db, &mut models[1], &mut rng, 100);
            session.rollback().unwrap();
            drop((session, db));
            instance.flush().unwrap();

            // Recover twice from the same checkpoint.
            let mut disk = disk;
            for _ in 0..2 {
                disk = disk.process_kill();
                let before = disk.contents(path);
                let instance = opened(&disk).unwrap_or_else(|e| panic!("{now:?}, listed {listed}: {e}"));
                let attached = if now == PathState::CreatedAnew { 2 } else { 1 };
                assert_eq!(instance.recovery().left_attached, attached, "{now:?}, listed {listed}");
                for (path, model) in DATABASES.iter().zip(&models).rev().take(attached) {
                    assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
                }
                if now != PathState::CreatedAnew {
                    assert!(
                        disk.contents(path) == before,
                        "{now:?}: recovery changed a file that does not belong to the log"
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
fn a_missing_attached_database_stops_recovery_without_loss() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for listed in [false, true] {
        for replaced in [false, true] {
            let disk = SimVfs::new();
            let (instance, mut models) = in_use(&disk, listed, &mut rng);
            // Recovery must not apply the other database's uncommitted changes, or its detach, to the missing one.
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
                    Err(error @ (Error::File { .. } | Error::Attachment { .. })) => error.full_text(),
                    other => panic!("{:?}", other.err()),
                };
                let expected = if replaced {
                    "the file does not have a database header"
                } else {
                    "it does not exist; restore the file"
                };
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
