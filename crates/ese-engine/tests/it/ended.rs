//! Tests of the end of an instance: sessions that outlive it, refused shutdowns, and background work during a drop.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{BackgroundThreads, CacheSource, CommitMode, Error, Instance, Result, Session};
use ese_format::record::{ColumnId, Value};
use jetcell_sync::{Arc, Condvar, Mutex, mpsc, thread};
use jetcell_vfs::{File, FileLayer, IoReason, OpenMode, SimVfs, Vfs, VfsLayer};

use super::recovered::{DATABASES, SIZE, create_one, options, rows};

/// Inserts or replaces the row with this key.
fn put(session: &mut Session, db: &Arc<Database>, key: i32, number: i32) -> Result<()> {
    let mut table = session.open_table(db, "t")?;
    let number = (ColumnId(2), Value::Long(number));
    if table.seek(session, &[Value::Long(key)], SeekRelation::Equal)? {
        table.replace(session, &[number])
    } else {
        table.insert(session, &[(ColumnId(1), Value::Long(key)), number])
    }
}

fn commit(instance: &Arc<Instance>, db: &Arc<Database>, key: i32, number: i32, mode: CommitMode) {
    let mut session = instance.session();
    session.begin().unwrap();
    put(&mut session, db, key, number).unwrap();
    session.commit(mode).unwrap();
}

#[test]
fn a_session_that_outlives_its_instance_cannot_change_the_next_instance() {
    let cache = Cache::new(CacheOptions::new(256 * SIZE.bytes(), SIZE, SimVfs::new().clock()));
    let on = |disk: &SimVfs| {
        let mut options = options(Arc::new(disk.clone()), 256).0;
        options.cache = CacheSource::Shared(cache.clone());
        let instance = Instance::open(options).unwrap();
        let db = create_one(&instance, DATABASES[0]);
        (instance, db)
    };
    let (instance, db) = on(&SimVfs::new());
    commit(&instance, &db, 1, 10, CommitMode::Durable);
    let mut session = instance.session();
    session.begin().unwrap();
    put(&mut session, &db, 1, 11).unwrap();
    drop((instance, db));

    let disk = SimVfs::new();
    let (instance, db) = on(&disk);
    commit(&instance, &db, 1, 20, CommitMode::Durable);
    drop(session);
    assert_eq!(rows(&instance, &db), [(1, 20)].into());
    commit(&instance, &db, 2, 21, CommitMode::Durable);
    let recovered = Instance::open(options(Arc::new(disk.process_kill()), 256).0).unwrap();
    let db = recovered.attach(Path::new(DATABASES[0]), 32).unwrap();
    assert_eq!(rows(&recovered, &db), [(1, 20), (2, 21)].into());
}

#[test]
fn a_session_that_outlives_its_instance_cannot_commit() {
    for mode in [CommitMode::Durable, CommitMode::Lazy] {
        let disk = SimVfs::new();
        let instance = Instance::open(options(Arc::new(disk.clone()), 256).0).unwrap();
        let db = create_one(&instance, DATABASES[0]);
        let mut session = instance.session();
        session.begin().unwrap();
        put(&mut session, &db, 1, 10).unwrap();
        drop(instance);
        let committed = session.commit(mode);
        assert!(matches!(committed, Err(Error::ReadOnly(_))), "{committed:?}");
        drop(session);
        let lock = disk.lock(Path::new(DATABASES[0]));
        assert!(lock.is_err(), "the database is still locked");
        drop(db);
        assert!(disk.lock(Path::new(DATABASES[0])).is_ok(), "the lock is released");
    }
}

#[test]
fn a_refused_shutdown_leaves_the_background_threads_running() {
    let disk = SimVfs::new();
    let options = options(Arc::new(disk.clone()), 256).0.background(BackgroundThreads::Own);
    let instance = Instance::open(options).unwrap();
    let db = create_one(&instance, DATABASES[0]);
    let mut session = instance.session();
    session.begin().unwrap();
    put(&mut session, &db, 1, 10).unwrap();
    let refused = instance.shutdown();
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    session.rollback().unwrap();
    session.begin().unwrap();
    put(&mut session, &db, 1, 11).unwrap();
    let id = session.commit(CommitMode::Lazy).unwrap();
    let late = Instant::now() + Duration::from_secs(5);
    while instance.durable() < id.0 {
        assert!(Instant::now() < late, "no thread writes the log");
        thread::sleep(Duration::from_millis(1));
    }
    drop((session, db));
    instance.shutdown().unwrap();
}

/// A disk with a gate. While the gate is closed, syncs of database files wait for it to open.
#[derive(Clone)]
struct GatedDisk {
    disk: SimVfs,
    gate: Arc<SyncGate>,
}

#[derive(Default)]
struct SyncGate {
    state: Mutex<SyncGateState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncGateState {
    closed: bool,
    /// Whether a sync has reached the closed gate.
    reached: bool,
}

impl SyncGate {
    fn set(&self, closed: bool) {
        self.state.lock().closed = closed;
        self.changed.notify_all();
    }
    fn pass(&self) {
        let mut state = self.state.lock();
        state.reached |= state.closed;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.closed);
    }
    fn wait_until_reached(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| !state.reached);
    }
}

impl VfsLayer for GatedDisk {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(GatedFile { file: self.disk.open(path, mode)?, gate: self.gate.clone() }))
    }
}

struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<SyncGate>,
}

impl FileLayer for GatedFile {
    fn inner(&self) -> &dyn File {
        &*self.file
    }
    fn sync(&self, reason: IoReason) -> io::Result<()> {
        if reason == IoReason::CheckpointWrite {
            self.gate.pass();
        }
        self.file.sync(reason)
    }
}

#[test]
fn a_dropped_instance_can_be_reopened_at_once() {
    let disk = SimVfs::new();
    let gate = Arc::<SyncGate>::default();
    let vfs = GatedDisk { disk: disk.clone(), gate: gate.clone() };
    // With this depth, every change starts a checkpoint.
    let options = options(Arc::new(vfs), 256).0.background(BackgroundThreads::Own).checkpoint_depth(0);
    let instance = Instance::open(options).unwrap();
    let db = create_one(&instance, DATABASES[0]);
    gate.set(true);
    commit(&instance, &db, 1, 10, CommitMode::Durable);
    drop(db);
    gate.wait_until_reached();
    let (dropped, is_dropped) = mpsc::channel();
    let dropping = {
        let disk = disk.clone();
        thread::spawn(move || {
            drop(instance);
            dropped.send(disk.lock(Path::new("/log/E00.lock")).map(drop).is_ok()).unwrap();
        })
    };
    // The drop either waits for the checkpoint, or returns immediately.
    let early = is_dropped.recv_timeout(Duration::from_millis(200)).ok();
    gate.set(false);
    assert!(early.unwrap_or_else(|| is_dropped.recv().unwrap()), "the log directory is still in use");
    dropping.join().unwrap();
}
