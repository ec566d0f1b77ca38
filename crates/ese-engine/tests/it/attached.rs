//! Tests of threads that create, attach and detach databases concurrently, of attachments that fail, and of repeated
//! detaches.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use ese_engine::Database;
use ese_engine::internals::log::LogNames;
use ese_engine::{DatabaseOptions, Error, Instance};
use ese_format::log::header::LogHeader;
use jetcell_sync::{Arc, Condvar, Mutex, thread};
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, FileStem, InjectedFault, SimVfs, Vfs, VfsLayer};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, RowsByKey, create, create_one, open, options, rows, work};

/// Timeout at the gate. It is long enough for another thread to reach the gate, unless the engine serialises the two
/// calls.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(1);

/// A disk with a gate. A call that has chosen an id, has not logged anything yet, and is about to open a side file,
/// waits at the gate for a second call.
struct GatedVfs {
    disk: SimVfs,
    /// Number of calls that have reached the gate.
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl GatedVfs {
    fn pass(&self) {
        let mut arrived = self.arrived.lock();
        *arrived += 1;
        self.changed.notify_all();
        // If the wait times out, no second call reached this point concurrently, which is the correct behavior.
        self.changed.wait_while_for(&mut arrived, |arrived| *arrived < 2, QUEUE_TIMEOUT);
    }
}

impl VfsLayer for GatedVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        if path.extension().is_some_and(|extension| extension == "jdw") {
            self.pass();
        }
        self.disk.exists(path)
    }
}

/// Runs two threads that attach or create a database concurrently, each with one of the paths. Returns their results.
fn at_once(
    instance: &Instance,
    paths: [&str; 2],
    act: impl Fn(&Instance, &Path) -> ese_engine::Result<Arc<Database>> + Sync,
) -> [ese_engine::Result<Arc<Database>>; 2] {
    let act = &act;
    thread::scope(|scope| {
        let threads = paths.map(|path| scope.spawn(move || act(instance, Path::new(path))));
        threads.map(|thread| thread.join().unwrap())
    })
}

fn gated(disk: &SimVfs) -> Arc<Instance> {
    let gated = GatedVfs { disk: disk.clone(), arrived: Mutex::default(), changed: Condvar::new() };
    Instance::open(options(Arc::new(gated), 256).0).unwrap()
}

fn assert_ids_differ(databases: &[Arc<Database>]) {
    let ids: BTreeSet<u8> = databases.iter().map(|database| database.log_id()).collect();
    assert_eq!(ids.len(), databases.len(), "ids in the log: {ids:?}");
}

#[test]
fn databases_attached_concurrently_get_different_log_ids() {
    let disk = SimVfs::new();
    let instance = gated(&disk);
    let create_options = DatabaseOptions::default();
    let created =
        at_once(&instance, DATABASES, |instance, path| instance.create_database(path, &create_options));
    let created = created.map(Result::unwrap);
    assert_ids_differ(&created);
    // Recovery finds both databases by their records.
    let (recovered, _) = open(&disk.process_kill(), 256);
    assert_eq!(recovered.recovery().left_attached, 2);
    drop((created, recovered));
    instance.shutdown().unwrap();
    drop(instance);

    let instance = gated(&disk);
    let attached = at_once(&instance, DATABASES, |instance, path| instance.attach(path, 32));
    assert_ids_differ(&attached.map(Result::unwrap));
}

#[test]
fn concurrent_attaches_of_one_path_return_the_same_database() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    create(&instance);
    instance.shutdown().unwrap();
    drop(instance);
    let instance = gated(&disk);
    let attached = at_once(&instance, [DATABASES[0]; 2], |instance, path| instance.attach(path, 32));
    let [one, other] = attached.map(Result::unwrap);
    assert!(Arc::ptr_eq(&one, &other));
}

/// Commits some rows.
fn fill(instance: &Arc<Instance>, db: &Arc<Database>, model: &mut RowsByKey, seed: u64) {
    let mut session = instance.session();
    work(&mut session, db, model, &mut ChaCha8Rng::seed_from_u64(seed), 60);
    session.rollback().unwrap();
    instance.flush().unwrap();
}

fn has_rows(disk: &SimVfs, models: &[RowsByKey; 2]) {
    let (instance, _) = open(disk, 256);
    for (path, model) in DATABASES.iter().zip(models) {
        let db = instance.attach(Path::new(path), 32).unwrap();
        assert!(rows(&instance, &db) == *model, "{path}");
    }
}

/// Once the log contains the attach record, recovery assigns the id to that database, whether or not the attachment
/// was completed.
#[test]
fn the_log_id_of_a_failed_attachment_is_not_reused() {
    let disk = SimVfs::new();
    let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
    let instance = Instance::open(options(faults.clone(), 256).0).unwrap();
    let mut models = [RowsByKey::new(), RowsByKey::new()];
    for (path, model) in DATABASES.iter().zip(&mut models) {
        let db = create_one(&instance, path);
        fill(&instance, &db, model, 1);
        instance.detach(&db).unwrap();
    }
    // The stream has entered the next generation, but its file does not have its final name yet.
    let third = create_one(&instance, "/db/three.edb");
    let next = LogNames::new(Path::new("/log"), FileStem::E00).next();
    let entered = || disk.contents(&next).is_some_and(|bytes| LogHeader::decode(&bytes).is_ok());
    for seed in 2.. {
        if entered() {
            break;
        }
        fill(&instance, &third, &mut RowsByKey::new(), seed);
    }
    faults.inject(InjectedFault::new(FaultTarget::Rename, FaultEffect::IoError).on_path("E00"));
    let attach = |path: &str| instance.attach(Path::new(path), 32);
    let half = attach(DATABASES[0]);
    assert!(matches!(half, Err(Error::ReadOnly(_))) && faults.fired_count() == 1, "{:?}", half.err());
    let other = attach(DATABASES[1]);
    if let Ok(other) = &other {
        fill(&instance, other, &mut models[1], 4);
    }
    has_rows(&disk.process_kill(), &models);
    assert!(matches!(other, Err(Error::ReadOnly(_))), "the other database got the id of the first one");
    let created = instance.create_database(Path::new("/db/four.edb"), &DatabaseOptions::default());
    assert!(matches!(created, Err(Error::ReadOnly(_))) && !disk.exists(Path::new("/db/four.edb")).unwrap());
    // Databases that are already attached can still be read.
    assert!(Arc::ptr_eq(&attach("/db/three.edb").unwrap(), &third));
}

#[test]
fn a_second_detach_does_not_detach_another_database() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    let mut models = [RowsByKey::new(), RowsByKey::new()];
    let [one, two] = DATABASES.map(|path| create_one(&instance, path));
    fill(&instance, &one, &mut models[0], 1);
    fill(&instance, &two, &mut models[1], 2);
    for db in [&one, &two] {
        instance.detach(db).unwrap();
    }
    // The database keeps its file locked until the last reference is dropped.
    drop(two);
    let two = instance.attach(Path::new(DATABASES[1]), 32).unwrap();
    fill(&instance, &two, &mut models[1], 3);
    let refused = instance.detach(&one);
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    fill(&instance, &two, &mut models[1], 4);
    has_rows(&disk.process_kill(), &models);
    let (other, _) = open(&SimVfs::new(), 256);
    assert!(matches!(other.detach(&two), Err(Error::Usage(_))), "the database belongs to another instance");
    instance.detach(&two).unwrap();
    assert!(matches!(instance.detach(&two), Err(Error::Usage(_))));
}
