//! Threads that attach and create databases at the same time.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ese_engine::database::Database;
use ese_engine::{CreateOptions, Instance};
use vfs::{Clock, DirectoryLock, File, OpenMode, SimVfs, Vfs};

use super::recovered::{DATABASES, create, open, options};

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
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.changed.notify_all();
        // One that waits in vain was alone, as it should be.
        drop(self.changed.wait_timeout_while(arrived, PATIENCE, |arrived| *arrived < 2).unwrap());
    }
}

impl Vfs for Gated {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk.open(path, mode)
    }
    fn exists(&self, path: &Path) -> bool {
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
    std::thread::scope(|scope| {
        let threads = paths.map(|path| scope.spawn(move || act(instance, Path::new(path))));
        threads.map(|thread| thread.join().unwrap())
    })
}

fn gated(disk: &SimVfs) -> Arc<Instance> {
    let gated = Gated { disk: disk.clone(), arrived: Mutex::default(), changed: Condvar::new() };
    Instance::open(options(Arc::new(gated), 256, 750).0).unwrap()
}

fn assert_ids_differ(databases: &[Arc<Database>]) {
    let ids: BTreeSet<u8> = databases.iter().map(|database| database.log_id).collect();
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
    let (recovered, _) = open(&disk.process_kill(), 256, 750);
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
    let (instance, _) = open(&disk, 256, 750);
    create(&instance);
    instance.shutdown().unwrap();
    drop(instance);
    let instance = gated(&disk);
    let attached = at_once(&instance, [DATABASES[0]; 2], |instance, path| instance.attach(path, 32));
    let [one, other] = attached.map(Result::unwrap);
    assert!(Arc::ptr_eq(&one, &other));
}
