//! Kills database creation on the real engine in every phase, then resumes it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use jetcell_host::Cancellation;
use jetcell_vfs::{
    Backend, File, FileLayer, IoReason, OpenMode, RealOptions, RealVfs, Transfer, TransferKind, Vfs, VfsLayer,
};

use crate::engine::{CommitDurability, DatabaseOpenMode, StorageEngine};
use crate::engine_ese::EseEngine;
use crate::layout::RunPlan;
use crate::load::{TableLocation, fill_operation, row};
use crate::observer::{Observer, RunPhase};
use crate::profile::{DatabaseSource, Mix, Options, Profile};
use crate::run::run;
use crate::run_tests::scratch;

/// File operation during which the simulated program can be killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum KillableOperation {
    Create,
    Write(IoReason),
    Sync,
    Change,
}

/// Point at which the program is killed: after `after` operations of one kind on files whose names end with `name`.
#[derive(Clone, Copy, Debug)]
struct KillPoint {
    phase: &'static str,
    name: &'static str,
    act: Option<KillableOperation>,
    after: u64,
}

/// Whether the simulated program is still alive. After the kill, all of its file operations fail.
struct ProgramLife {
    moment: KillPoint,
    seen: AtomicU64,
    ended: AtomicBool,
}

impl ProgramLife {
    fn act(&self, path: &Path, act: Option<KillableOperation>) -> io::Result<()> {
        let KillPoint { name, act: wanted, after, .. } = self.moment;
        let counts =
            act.is_some() && (wanted.is_none() || wanted == act) && path.to_string_lossy().ends_with(name);
        if counts && self.seen.fetch_add(1, Relaxed) >= after {
            self.ended.store(true, Relaxed);
        }
        if self.ended.load(Relaxed) { Err(io::Error::other("killed")) } else { Ok(()) }
    }
}

/// File system of a program that can be killed. Data written before the kill is preserved, as it would be in the
/// kernel's page cache.
struct KillableVfs {
    inner: Arc<dyn Vfs>,
    life: Arc<ProgramLife>,
}

impl VfsLayer for KillableVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.life.act(path, (mode == OpenMode::CreateNew).then_some(KillableOperation::Create))?;
        Ok(Arc::new(KillableFile { inner: self.inner.open(path, mode)?, life: self.life.clone() }))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.life.act(path, Some(KillableOperation::Change))?;
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.life.act(from, Some(KillableOperation::Change))?;
        self.inner.rename(from, to)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.life.act(directory, Some(KillableOperation::Sync))?;
        self.inner.sync_directory(directory)
    }
}

struct KillableFile {
    inner: Arc<dyn File>,
    life: Arc<ProgramLife>,
}

impl FileLayer for KillableFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        self.life.act(self.inner.path(), None)?;
        self.inner.read_at(offset, buffer, reason)
    }
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        self.life.act(self.inner.path(), Some(KillableOperation::Write(reason)))?;
        self.inner.write_at(offset, data, reason)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        for transfer in batch {
            let act =
                (transfer.kind == TransferKind::Write).then_some(KillableOperation::Write(transfer.reason));
            match self.life.act(self.inner.path(), act) {
                Ok(()) => self.inner.submit(vec![transfer]),
                Err(error) => (transfer.done)(Err(error), transfer.buffer),
            }
        }
    }
    fn sync(&self, reason: IoReason) -> io::Result<()> {
        self.life.act(self.inner.path(), Some(KillableOperation::Sync))?;
        self.inner.sync(reason)
    }
    fn grow(&self, len: u64) -> io::Result<()> {
        self.life.act(self.inner.path(), Some(KillableOperation::Change))?;
        self.inner.grow(len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.life.act(self.inner.path(), Some(KillableOperation::Change))?;
        self.inner.truncate(len)
    }
}

/// Observer that stops the run once the creation is done.
struct StopAfterCreation(Cancellation);

impl Observer for StopAfterCreation {
    fn begin_phase(&mut self, phase: RunPhase, _: u64) {
        if phase == RunPhase::Attach {
            self.0.cancel();
        }
    }
    fn advance(&mut self, _: u64, _: &str) {}
    fn log(&mut self, _: &str) {}
}

fn profile_in(dir: &Path) -> Profile {
    let options = Options {
        dirs: vec![dir.to_path_buf()],
        databases: Some(2),
        size: Some("32MiB".parse().unwrap()),
        cache: Some("24MiB".parse().unwrap()),
        threads: Some(2),
        seed: Some(7),
        output: Some(dir.join("out")),
        ..Options::default()
    };
    // The load must not change records.
    Profile { mix: Mix { insert: 0, delete: 0, replace: 0, read: 100 }, ..options.resolve().unwrap() }
}

/// Creates the databases or resumes their creation. Returns true if the creation has completed.
fn create(profile: &Profile, source: DatabaseSource, moment: Option<KillPoint>) -> bool {
    let real: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    let mounts: Vec<(PathBuf, Arc<dyn Vfs>)> = moment
        .map(|moment| {
            let life = ProgramLife { moment, seen: AtomicU64::new(0), ended: AtomicBool::new(false) };
            let vfs: Arc<dyn Vfs> = Arc::new(KillableVfs { inner: real, life: Arc::new(life) });
            (profile.dirs[0].clone(), vfs)
        })
        .into_iter()
        .collect();
    // Files in a mount are treated as files on an array, and an array has no directories. The test therefore creates
    // the log directories itself.
    let logs = (1..=2).map(|number| profile.dirs[0].join(format!("log{number:03}")));
    logs.for_each(|logs| std::fs::create_dir_all(logs).unwrap());
    let engine = EseEngine::with_mounts(Backend::Threads, mounts).unwrap();
    let stop = Cancellation::default();
    let profile = Profile { source, ..profile.clone() };
    match run(&profile, &engine, &mut StopAfterCreation(stop.clone()), &stop) {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains("killed"), "{moment:?}: {error}");
            false
        }
    }
}

/// Returns the number of records in each table. Verifies that the content of every record matches the seed.
fn records(profile: &Profile) -> Vec<i64> {
    let engine = EseEngine::new(Backend::Threads).unwrap();
    let profile = Profile { source: DatabaseSource::Open, ..profile.clone() };
    let plan = RunPlan::make(&profile, &engine, "now", true).unwrap();
    let store = engine.open(&plan, DatabaseOpenMode::Attach).unwrap();
    let mut counts = Vec::new();
    for database in 0..plan.instances.len() {
        let mut session = store.session(database).unwrap();
        session.begin().unwrap();
        for table in 0..profile.records.tables {
            let place = TableLocation { database: database as u32, table };
            let last = session.last(table).unwrap().unwrap_or(0);
            for id in 1..=last {
                assert_eq!(session.seek(table, id).unwrap(), Some(id), "{place:?}");
                let expected = row(&profile.records, place, id, &fill_operation(&profile, place, id));
                assert!(session.read(table).unwrap() == expected, "{place:?}: {id}");
            }
            counts.push(last);
        }
        session.commit(CommitDurability::Lazy).unwrap();
    }
    store.shutdown().unwrap();
    counts
}

#[test]
fn a_creation_killed_in_any_phase_resumes_to_identical_databases() {
    let (dir, other) = (scratch(), scratch());
    let profile = profile_in(dir.path());
    // Each run uses a different seed. Failure messages include it.
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    let random = |below: u64, number: u64| u64::from(seed).wrapping_mul(number * 2 + 1) / 97 % below;
    let (database, log, any) = ("001.edb", "E00.log", "");
    let moments = [
        ("the second database is created", "2001.edb", Some(KillableOperation::Create), 0),
        ("tables are loaded", database, Some(KillableOperation::Write(IoReason::BulkLoad)), 2 + random(4, 1)),
        ("tables and their indexes are complete", database, Some(KillableOperation::Sync), random(4, 2)),
        ("tables become visible", log, Some(KillableOperation::Write(IoReason::LogWrite)), 3 + random(8, 3)),
        (
            "tables are loaded",
            database,
            Some(KillableOperation::Write(IoReason::BulkLoad)),
            12 + random(12, 4),
        ),
        (
            "the header changes",
            database,
            Some(KillableOperation::Write(IoReason::DatabaseHeader)),
            random(3, 5),
        ),
        ("between any two acts", any, None, 40 + random(60, 6)),
        ("between any two acts", any, None, 90 + random(60, 7)),
    ];
    let mut kills = 0;
    let mut source = DatabaseSource::New;
    for (phase, name, act, after) in moments {
        let moment = KillPoint { phase, name, act, after };
        if create(&profile, source, Some(moment)) {
            break;
        }
        kills += 1;
        source = DatabaseSource::Resume;
        eprintln!("killed while {}: {moment:?}", moment.phase);
    }
    assert!(kills >= 6, "{kills} kills, seed {seed}");
    assert!(create(&profile, DatabaseSource::Resume, None), "seed {seed}");
    let resumed = records(&profile);
    let whole = profile_in(other.path());
    assert!(create(&whole, DatabaseSource::New, None));
    assert_eq!(resumed, records(&whole), "seed {seed}");
}
