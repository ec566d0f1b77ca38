//! Compares the engine's transfers for fixed work with the files in `tests/golden`.
//!
//! Without threads, and with seeds for all choices, the same code makes the same transfers, with the same bytes, in
//! the same order. Therefore these tests detect a change of a threshold, a decision or a layout, even if no record is
//! lost. If a change is intended, `JETCELL_BLESS=1 cargo test -p ese-engine golden` rewrites the files; explain the
//! differences in the commit message.

use std::path::{Path, PathBuf};

use ese_check::{CheckOptions, check_database};
use ese_engine::internals::cache::{Cache, CacheOptions, EvictionPolicy};
use ese_engine::{
    BackgroundThreads, CommitMode, Database, DatabaseOptions, DefragOptions, Instance, InstanceOptions,
    Result, ScanOptions, SeekRelation, Session, Table, TornPageProtection,
};
use ese_format::PageSize;
use ese_format::record::Value;
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::tables::{TestColumns, TestRow, definition, random_row};
use super::trace::TracedVfs;

pub const DB: &str = "/db/golden.edb";

/// Options with which an instance is opened.
#[derive(Clone, Copy)]
pub struct InstanceSetup {
    pub size: PageSize,
    /// Number of frames of the cache.
    pub frames: usize,
    pub eviction: EvictionPolicy,
    pub log_bytes: u32,
    /// Checkpoint depth in log files.
    pub depth: u64,
    pub circular: bool,
    pub torn_page_protection: TornPageProtection,
    pub waypoint_latency: u32,
    pub version_store_bytes: usize,
}

pub const SETUP: InstanceSetup = InstanceSetup {
    size: PageSize::KIB_4,
    frames: 64,
    eviction: EvictionPolicy::WriteBack,
    log_bytes: 128 << 10,
    depth: 3,
    circular: false,
    torn_page_protection: TornPageProtection::Off,
    waypoint_latency: 0,
    version_store_bytes: 64 << 20,
};
pub const DELTAS: EvictionPolicy = EvictionPolicy::KeepDeltas { memory_permille: 500 };

/// An instance that runs on a traced disk.
pub struct TracedInstance {
    pub setup: InstanceSetup,
    pub traced: TracedVfs,
    pub instance: Arc<Instance>,
    pub db: Arc<Database>,
    pub rng: ChaCha8Rng,
}

pub fn options(setup: InstanceSetup, traced: &TracedVfs, directory: &str) -> InstanceOptions {
    let cache = Cache::new(CacheOptions {
        eviction: setup.eviction,
        ..CacheOptions::new(setup.frames * setup.size.bytes(), setup.size, traced.clock())
    });
    let mut options = InstanceOptions::with_cache(Arc::new(traced.clone()), directory.into(), cache);
    options.background = BackgroundThreads::None;
    options.seed = Some(9);
    options.log.file_size = setup.log_bytes;
    options.checkpoint.depth = setup.depth * u64::from(setup.log_bytes);
    options.log.waypoint_latency = setup.waypoint_latency;
    options.version_store_bytes = setup.version_store_bytes;
    options.log.circular = setup.circular;
    options.torn_page_protection = setup.torn_page_protection;
    options
}

fn open(setup: InstanceSetup, traced: &TracedVfs) -> Arc<Instance> {
    Instance::open(options(setup, traced, "/log")).unwrap()
}

impl TracedInstance {
    pub fn new(setup: InstanceSetup) -> TracedInstance {
        let traced = TracedVfs::new(SimVfs::new());
        for directory in ["/db", "/log"] {
            traced.create_directory(Path::new(directory)).unwrap();
        }
        let instance = open(setup, &traced);
        let db = instance.create_database(Path::new(DB), &DatabaseOptions::default()).unwrap();
        let mut session = instance.session();
        session.begin().unwrap();
        session.create_table(&db, &definition()).unwrap();
        session.commit(CommitMode::Durable).unwrap();
        drop(session);
        TracedInstance { setup, traced, instance, db, rng: ChaCha8Rng::seed_from_u64(5) }
    }

    pub fn table(&self, session: &mut Session) -> (Table, TestColumns) {
        let table = session.open_table(&self.db, "Things").unwrap();
        let columns = TestColumns::for_table(&table);
        (table, columns)
    }

    /// Changes `count` records with ids below `ids`, ten per transaction. `deletes` percent of them are deleted; the
    /// others are inserted or replaced. One in eight transactions is rolled back.
    pub fn change(&mut self, count: usize, ids: i32, deletes: u32) {
        let mut session = self.instance.session();
        for number in 0..count / 10 {
            session.begin().unwrap();
            let (mut table, columns) = self.table(&mut session);
            for _ in 0..10 {
                let id = self.rng.random_range(0..ids);
                let there = table.seek(&mut session, &[Value::Long(id)], SeekRelation::Equal).unwrap();
                if self.rng.random_range(0..100) < deletes {
                    if there {
                        table.delete(&mut session).unwrap();
                    }
                    continue;
                }
                // The codes of random rows are not unique.
                let row =
                    TestRow { code: Some(format!("c{id}")), ..random_row(&mut self.rng, self.setup.size) };
                let mut values = columns.values(&row);
                if there {
                    table.replace(&mut session, &values).unwrap();
                } else {
                    values.push((columns.id, Value::Long(id)));
                    table.insert(&mut session, &values).unwrap();
                }
            }
            match number % 8 {
                7 => session.rollback().unwrap(),
                0 | 4 => drop(session.commit(CommitMode::Durable).unwrap()),
                _ => drop(session.commit(CommitMode::Lazy).unwrap()),
            }
            self.instance.step().unwrap();
        }
    }

    /// Deletes all records with ids in a range, 50 per transaction.
    pub fn delete_range(&mut self, first: i32, end: i32) {
        let mut session = self.instance.session();
        for start in (first..end).step_by(50) {
            session.begin().unwrap();
            let (mut table, _) = self.table(&mut session);
            for id in start..end.min(start + 50) {
                if table.seek(&mut session, &[Value::Long(id)], SeekRelation::Equal).unwrap() {
                    table.delete(&mut session).unwrap();
                }
            }
            session.commit(CommitMode::Lazy).unwrap();
            self.steps(2);
        }
    }

    pub fn steps(&self, count: usize) {
        for _ in 0..count {
            self.instance.flush().unwrap();
            self.instance.step().unwrap();
        }
    }

    /// Reads all records in the order of the index, forwards and backwards.
    pub fn read_all(&self, index: Option<&str>) -> usize {
        let mut session = self.instance.session();
        session.begin().unwrap();
        let (mut table, columns) = self.table(&mut session);
        table.set_index(index).unwrap();
        let mut count = 0;
        let mut found = table.first(&mut session).unwrap();
        while found {
            columns.row(&mut table, &mut session);
            count += 1;
            found = table.next(&mut session).unwrap();
        }
        let mut found = table.last(&mut session).unwrap();
        while found {
            count -= 1;
            found = table.previous(&mut session).unwrap();
        }
        assert_eq!(count, 0);
        session.commit(CommitMode::Lazy).unwrap();
        count
    }

    /// Cuts the power or kills the process, and then recovers.
    pub fn crash(&mut self, power: bool) {
        let disk = if power {
            self.traced.disk().crash(11, CrashOptions::default())
        } else {
            self.traced.disk().process_kill()
        };
        self.traced = self.traced.on(disk);
        self.instance = open(self.setup, &self.traced);
        self.db = self.instance.attach(Path::new(DB), 64).unwrap();
    }

    pub fn restart(self) -> TracedInstance {
        let TracedInstance { setup, traced, instance, db, rng } = self;
        instance.shutdown().unwrap();
        drop((db, instance));
        let instance = open(setup, &traced);
        let db = instance.attach(Path::new(DB), 64).unwrap();
        TracedInstance { setup, traced, instance, db, rng }
    }

    /// Copies the database while it is detached.
    pub fn copy_database(self, to: &str) -> TracedInstance {
        let TracedInstance { setup, traced, instance, db, rng } = self;
        instance.detach(&db).unwrap();
        drop(db);
        traced.disk().put(Path::new(to), &traced.disk().contents(Path::new(DB)).unwrap());
        let db = instance.attach(Path::new(DB), 64).unwrap();
        TracedInstance { setup, traced, instance, db, rng }
    }

    /// Shuts down, checks the database, and compares the trace with the golden file.
    #[track_caller]
    pub fn end(self, name: &str) {
        self.instance.shutdown().unwrap();
        let report = check_database(self.traced.disk(), Path::new(DB), &CheckOptions::default()).unwrap();
        assert!(report.is_sound(), "{:#?}", report.errors().collect::<Vec<_>>());
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        testkit::golden::compare(&golden, &self.traced.text());
    }
}

#[test]
fn changes_with_a_small_cache() {
    let mut work = TracedInstance::new(SETUP);
    work.change(1200, 900, 20);
    work.steps(20);
    work.end("changes.txt");
}

#[test]
fn changes_with_delta_eviction_and_recovery() {
    let mut work = TracedInstance::new(InstanceSetup {
        eviction: DELTAS,
        torn_page_protection: TornPageProtection::DoubleWrite,
        ..SETUP
    });
    work.change(1000, 800, 15);
    work.crash(true);
    work.change(300, 800, 15);
    work.crash(false);
    work.read_all(None);
    work.end("deltas.txt");
}

#[test]
fn range_deletes_and_space_reuse() {
    for (size, name) in [(PageSize::KIB_4, "deletions-4k.txt"), (PageSize::KIB_32, "deletions-32k.txt")] {
        let mut work = TracedInstance::new(InstanceSetup { size, log_bytes: 512 << 10, ..SETUP });
        work.change(800, 800, 0);
        work.delete_range(100, 500);
        work.delete_range(560, 700);
        work.steps(20);
        work.change(300, 800, 50);
        work.end(name);
    }
}

#[test]
fn reads_of_a_cold_cache() {
    let mut work = TracedInstance::new(InstanceSetup { size: PageSize::KIB_8, frames: 40, ..SETUP });
    work.change(900, 900, 0);
    work = work.restart();
    work.read_all(None);
    work.read_all(Some("ByGroup"));
    let mut session = work.instance.session();
    session.begin().unwrap();
    let (mut table, _) = work.table(&mut session);
    for number in 0..1500 {
        // Some records are read much more often than others.
        let id = if number % 3 == 0 { work.rng.random_range(0..900) } else { work.rng.random_range(0..60) };
        table.seek(&mut session, &[Value::Long(id)], SeekRelation::GreaterOrEqual).unwrap();
    }
    session.commit(CommitMode::Lazy).unwrap();
    drop((table, session));
    work.end("reads.txt");
}

#[test]
fn reused_logs_and_protected_pages() {
    let mut work = TracedInstance::new(InstanceSetup {
        size: PageSize::KIB_16,
        log_bytes: 256 << 10,
        circular: true,
        torn_page_protection: TornPageProtection::DoubleWrite,
        ..SETUP
    });
    for _ in 0..3 {
        work.change(250, 500, 30);
        work.crash(true);
    }
    work = work.restart();
    work.end("circular.txt");
}

fn end_level(session: &mut Session, rolls_back: bool) -> Result<()> {
    if rolls_back { session.rollback() } else { session.commit(CommitMode::Lazy).map(|_| ()) }
}

#[test]
fn sessions_that_see_older_states() -> Result<()> {
    let mut work = TracedInstance::new(InstanceSetup { size: PageSize::KIB_8, ..SETUP });
    work.change(300, 300, 0);
    let mut reader = work.instance.session();
    reader.begin()?;
    let (mut seen, columns) = work.table(&mut reader);
    let mut writer = work.instance.session();
    let (mut table, _) = work.table(&mut writer);
    for id in 0..300 {
        writer.begin()?;
        if table.seek(&mut writer, &[Value::Long(id)], SeekRelation::Equal)? {
            match id % 4 {
                0 => table.delete(&mut writer)?,
                _ => table.replace(&mut writer, &[(columns.group, Value::Long(id % 3))])?,
            }
            writer.begin()?;
            table.replace(&mut writer, &[(columns.body, Value::Binary(vec![id as u8; 900]))]).ok();
            end_level(&mut writer, id % 5 == 0)?;
        }
        end_level(&mut writer, id % 7 == 0)?;
        work.instance.step()?;
        // The reader sees the original records.
        let there = seen.seek(&mut reader, &[Value::Long(id)], SeekRelation::Equal)?;
        if there {
            columns.row(&mut seen, &mut reader);
        }
    }
    reader.commit(CommitMode::Lazy)?;
    drop((seen, reader, table, writer));
    work.steps(30);
    work.crash(false);
    work.end("sessions.txt");
    Ok(())
}

#[test]
fn maintenance_of_a_sparse_database() {
    let mut work = TracedInstance::new(SETUP);
    work.change(800, 800, 0);
    work.delete_range(0, 300);
    let scan = ScanOptions { zero: true, single_pass: true, keep_progress: true, ..ScanOptions::default() };
    assert!(work.instance.start_maintenance(&work.db, scan).unwrap());
    work.steps(40);
    let defrag = DefragOptions { single_pass: true, keep_progress: true, ..DefragOptions::default() };
    assert!(work.instance.start_defragmentation(&work.db, defrag).unwrap());
    work.steps(60);
    work.end("maintenance.txt");
}
