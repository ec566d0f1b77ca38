//! Databases that are attached, created and detached at the same time, twice, or half.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::Database;
use ese_engine::internals::log::LogNames;
use ese_engine::{CreateOptions, Error, Instance};
use ese_format::log::header::LogHeader;
use jetcell_sync::{Arc, Condvar, Mutex, thread};
use jetcell_vfs::{
    Clock, DirectoryLock, Fault, FaultEffect, FaultTarget, FaultVfs, File, OpenMode, SimVfs, Vfs,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, Rows, create, create_one, open, options, rows, work};

/// Long enough for another thread to come to the gate, if nothing keeps it away.
const PATIENCE: Duration = Duration::from_secs(1);

/// A disk on which who is about to open a side file, its id chosen and nothing logged, waits for another to come as far.
struct Gated {
    disk: SimVfs,
    /// How many came.
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Gated {
    fn pass(&self) {
        let mut arrived = self.arrived.lock();
        *arrived += 1;
        self.changed.notify_all();
        // One that waits in vain was alone, as it should be.
        self.changed.wait_while_for(&mut arrived, |arrived| *arrived < 2, PATIENCE);
    }
}

impl Vfs for Gated {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk.open(path, mode)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        if path.extension().is_some_and(|extension| extension == "jdw") {
            self.pass();
        }
        self.disk.exists(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.create_directory(directory)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(directory)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock(path)
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.disk.clock()
    }
}

/// What two threads get that attach or create at the same time, each its path.
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
    let gated = Gated { disk: disk.clone(), arrived: Mutex::default(), changed: Condvar::new() };
    Instance::open(options(Arc::new(gated), 256).0).unwrap()
}

fn assert_ids_differ(databases: &[Arc<Database>]) {
    let ids: BTreeSet<u8> = databases.iter().map(|database| database.log_id()).collect();
    assert_eq!(ids.len(), databases.len(), "ids in the log: {ids:?}");
}

#[test]
fn databases_created_or_attached_at_the_same_time_have_ids_of_their_own_in_the_log() {
    let disk = SimVfs::new();
    let instance = gated(&disk);
    let create_options = CreateOptions::default();
    let created =
        at_once(&instance, DATABASES, |instance, path| instance.create_database(path, &create_options));
    let created = created.map(Result::unwrap);
    assert_ids_differ(&created);
    // Recovery finds both by their records.
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
fn who_attaches_what_another_is_attaching_gets_the_same_database() {
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
fn fill(instance: &Arc<Instance>, db: &Arc<Database>, model: &mut Rows, seed: u64) {
    let mut session = instance.session();
    work(&mut session, db, model, &mut ChaCha8Rng::seed_from_u64(seed), 60);
    session.rollback().unwrap();
    instance.flush().unwrap();
}

fn has_rows(disk: &SimVfs, models: &[Rows; 2]) {
    let (instance, _) = open(disk, 256);
    for (path, model) in DATABASES.iter().zip(models) {
        let db = instance.attach(Path::new(path), 32).unwrap();
        assert!(rows(&instance, &db) == *model, "{path}");
    }
}

/// Once the log has the record, recovery gives the id to that database, whether its attachment went on or not.
#[test]
fn after_an_attachment_that_failed_half_way_no_other_database_gets_its_id_in_the_log() {
    let disk = SimVfs::new();
    let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
    let instance = Instance::open(options(faults.clone(), 256).0).unwrap();
    let mut models = [Rows::new(), Rows::new()];
    for (path, model) in DATABASES.iter().zip(&mut models) {
        let db = create_one(&instance, path);
        fill(&instance, &db, model, 1);
        instance.detach(&db).unwrap();
    }
    // The next generation is entered, and its file has not got its name.
    let third = create_one(&instance, "/db/three.edb");
    let next = LogNames::new(Path::new("/log"), "E00").next();
    let entered = || disk.contents(&next).is_some_and(|bytes| LogHeader::decode(&bytes).is_ok());
    for seed in 2.. {
        if entered() {
            break;
        }
        fill(&instance, &third, &mut Rows::new(), seed);
    }
    faults.inject(Fault::new(FaultTarget::Rename, FaultEffect::IoError).on_path("E00"));
    let attach = |path: &str| instance.attach(Path::new(path), 32);
    let half = attach(DATABASES[0]);
    assert!(matches!(half, Err(Error::ReadOnly(_))) && faults.fired() == 1, "{:?}", half.err());
    let other = attach(DATABASES[1]);
    if let Ok(other) = &other {
        fill(&instance, other, &mut models[1], 4);
    }
    has_rows(&disk.process_kill(), &models);
    assert!(matches!(other, Err(Error::ReadOnly(_))), "it has the id of the first one");
    let created = instance.create_database(Path::new("/db/four.edb"), &CreateOptions::default());
    assert!(matches!(created, Err(Error::ReadOnly(_))) && !disk.exists(Path::new("/db/four.edb")).unwrap());
    // What is attached already can still be read.
    assert!(Arc::ptr_eq(&attach("/db/three.edb").unwrap(), &third));
}

#[test]
fn who_detaches_twice_does_not_detach_another_database() {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    let mut models = [Rows::new(), Rows::new()];
    let [one, two] = DATABASES.map(|path| create_one(&instance, path));
    fill(&instance, &one, &mut models[0], 1);
    fill(&instance, &two, &mut models[1], 2);
    for db in [&one, &two] {
        instance.detach(db).unwrap();
    }
    // Who has it keeps its file locked.
    drop(two);
    let two = instance.attach(Path::new(DATABASES[1]), 32).unwrap();
    fill(&instance, &two, &mut models[1], 3);
    let refused = instance.detach(&one);
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    fill(&instance, &two, &mut models[1], 4);
    has_rows(&disk.process_kill(), &models);
    let (other, _) = open(&SimVfs::new(), 256);
    assert!(matches!(other.detach(&two), Err(Error::Usage(_))), "it belongs to another instance");
    instance.detach(&two).unwrap();
    assert!(matches!(instance.detach(&two), Err(Error::Usage(_))));
}
