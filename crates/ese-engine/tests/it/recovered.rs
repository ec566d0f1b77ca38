//! Tests of databases that recovery leaves attached: they are attached again by the program, shut down unused, or
//! interrupted by another crash.

use std::collections::BTreeMap;
use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::internals::cache::{Cache, CacheOptions, EvictionPolicy};
use ese_engine::internals::log::{LogNames, LogReader};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, DatabaseOptions, Error, IndexDefinition, Instance,
    InstanceOptions, Session, TableDefinition,
};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::record::LogRecord;
use ese_format::record::{ColumnId, ColumnType, Value};
use ese_format::{LogPosition, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FileStem, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(super) const SIZE: PageSize = PageSize::KIB_4;
pub(super) const DATABASES: [&str; 2] = ["/db/one.edb", "/db/two.edb"];

const POLICIES: [EvictionPolicy; 2] =
    [EvictionPolicy::KeepDeltas { memory_permille: 750 }, EvictionPolicy::WriteBack];

/// Number in each row, by key.
pub(super) type RowsByKey = BTreeMap<i32, i32>;

pub(super) fn open(disk: &SimVfs, pages: usize) -> (Arc<Instance>, Arc<Cache>) {
    open_with(disk, pages, POLICIES[0])
}

fn open_with(disk: &SimVfs, pages: usize, eviction: EvictionPolicy) -> (Arc<Instance>, Arc<Cache>) {
    let (options, cache) = options_with(Arc::new(disk.clone()), pages, eviction);
    (Instance::open(options).unwrap(), cache)
}

pub(super) fn options(vfs: Arc<dyn Vfs>, pages: usize) -> (InstanceOptions, Arc<Cache>) {
    options_with(vfs, pages, POLICIES[0])
}

pub(super) fn options_with(
    vfs: Arc<dyn Vfs>,
    pages: usize,
    eviction: EvictionPolicy,
) -> (InstanceOptions, Arc<Cache>) {
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let cache =
        Cache::new(CacheOptions { eviction, ..CacheOptions::new(pages * SIZE.bytes(), SIZE, vfs.clock()) });
    let mut options = InstanceOptions::with_cache(vfs, "/log".into(), cache.clone());
    (options.background, options.log.file_size) = (BackgroundThreads::None, 64 << 10);
    (options, cache)
}

pub(super) fn create(instance: &Arc<Instance>) {
    DATABASES.iter().for_each(|path| drop(create_one(instance, path)));
}

/// Creates a database with an empty table.
pub(super) fn create_one(instance: &Arc<Instance>, path: &str) -> Arc<Database> {
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("key", ColumnType::Long),
            ColumnDefinition::new("number", ColumnType::Long),
            ColumnDefinition::new("body", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("by key", &["key"]).primary()],
        ..TableDefinition::default()
    };
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
    let db = instance.create_database(Path::new(path), &create).unwrap();
    let mut session = instance.session();
    session.begin().unwrap();
    session.create_table(&db, &definition).unwrap();
    session.commit(CommitMode::Durable).unwrap();
    db
}

/// Makes random changes and records the committed ones in the model. The last transaction stays open.
pub(super) fn work(
    session: &mut Session,
    db: &Arc<Database>,
    model: &mut RowsByKey,
    rng: &mut ChaCha8Rng,
    count: usize,
) {
    let mut table = session.open_table(db, "t").unwrap();
    let mut changed = model.clone();
    session.begin().unwrap();
    for done in 0..count {
        let (key, number) = (rng.random_range(0..1500), rng.random());
        let found = table.seek(session, &[Value::Long(key)], SeekRelation::Equal).unwrap();
        let body = Value::Binary(vec![number as u8; rng.random_range(50..300)]);
        let row = [(ColumnId(2), Value::Long(number)), (ColumnId(256), body)];
        if found && rng.random_bool(0.4) {
            table.delete(session).unwrap();
            changed.remove(&key);
        } else {
            if found {
                table.replace(session, &row).unwrap();
            } else {
                let row = [&[(ColumnId(1), Value::Long(key))][..], &row].concat();
                table.insert(session, &row).unwrap();
            }
            changed.insert(key, number);
        }
        if done % 7 == 6 && done + 7 < count {
            session.commit(CommitMode::Lazy).unwrap();
            model.clone_from(&changed);
            session.begin().unwrap();
        }
    }
}

pub(super) fn rows(instance: &Arc<Instance>, db: &Arc<Database>) -> RowsByKey {
    let mut session = instance.session();
    let mut table = session.open_table(db, "t").unwrap();
    session.begin().unwrap();
    let mut rows = RowsByKey::new();
    let mut more = table.first(&mut session).unwrap();
    while more {
        let values = [1, 2].map(|column| table.get(&mut session, ColumnId(column)).unwrap());
        let [Value::Long(key), Value::Long(number)] = values else { panic!("{values:?}") };
        rows.insert(key, number);
        more = table.next(&mut session).unwrap();
    }
    session.commit(CommitMode::Lazy).unwrap();
    rows
}

fn state(disk: &SimVfs, path: &str) -> DatabaseState {
    let bytes = disk.contents(Path::new(path)).unwrap();
    DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0.state
}

fn last_record(disk: &SimVfs) -> LogRecord {
    let reader = LogReader::open(Arc::new(disk.clone()), LogNames::new(Path::new("/log"), FileStem::E00));
    let mut last = LogRecord::Nop;
    let read = reader.unwrap().unwrap().read_from(LogPosition::new(1, 1, 0), |stored| {
        let record = LogRecord::decode(&stored.bytes).unwrap().0;
        if !matches!(record, LogRecord::Nop | LogRecord::Nop2(_)) {
            last = record;
        }
        Ok(())
    });
    read.unwrap();
    last
}

/// Creates a disk on which two databases were in use when the process was killed. Returns also the rows that they
/// must contain.
pub(super) fn killed(rng: &mut ChaCha8Rng) -> (SimVfs, [RowsByKey; 2]) {
    let disk = SimVfs::new();
    let (instance, _) = open(&disk, 256);
    create(&instance);
    let mut models = [RowsByKey::new(), RowsByKey::new()];
    let mut sessions = Vec::new();
    for (path, model) in DATABASES.iter().zip(&mut models) {
        let db = instance.attach(Path::new(path), 32).unwrap();
        let mut session = instance.session();
        work(&mut session, &db, model, rng, 600);
        sessions.push(session);
    }
    instance.flush().unwrap();
    (disk.process_kill(), models)
}

#[test]
fn databases_left_attached_by_recovery_can_be_attached_and_shut_down_cleanly() {
    let (disk, models) = killed(&mut ChaCha8Rng::seed_from_u64(1));
    let (instance, cache) = open(&disk, 1024);
    assert_eq!((instance.recovery().ran, instance.recovery().left_attached), (true, 2));
    assert!(matches!(last_record(&disk), LogRecord::RecoveryQuitKeepAttachments(_)));
    assert_eq!(DATABASES.map(|path| state(&disk, path)), [DatabaseState::DirtyShutdown; 2]);
    let counters = cache.counters();
    assert!(counters.dirty > 20, "{counters:?}");
    let left = instance.core().databases();
    let db = instance.attach(Path::new(DATABASES[0]), 64).unwrap();
    assert!(left.iter().any(|known| Arc::ptr_eq(known, &db)));
    assert!(Arc::ptr_eq(&db, &instance.attach(Path::new(DATABASES[0]), 64).unwrap()));
    assert_eq!(rows(&instance, &db), models[0]);
    drop(left);
    instance.detach(&db).unwrap();
    assert_eq!(
        DATABASES.map(|path| state(&disk, path)),
        [DatabaseState::CleanShutdown, DatabaseState::DirtyShutdown]
    );
    drop(db);
    // The program does not attach the other database.
    instance.shutdown().unwrap();
    drop(instance);
    for path in DATABASES {
        let report = check_database(&disk, Path::new(path), &CheckOptions::default()).unwrap();
        assert!(report.clean && report.findings.is_empty(), "{path}: {:#?}", report.findings);
    }
    let (instance, _) = open(&disk, 64);
    assert!(!instance.recovery().ran && instance.core().databases().is_empty());
    for (path, model) in DATABASES.iter().zip(&models) {
        assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
    }
}

/// Recovery does not advance the checkpoint. Each recovery reads at least the records that the previous one read, and
/// those logged since.
#[test]
fn a_crash_soon_after_recovery_is_recovered_from_the_same_checkpoint() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut disk, mut models) = killed(&mut rng);
    let mut least = 0;
    for round in 0..40 {
        let (pages, eviction) = ([32, 64, 100, 1024][round % 4], POLICIES[round / 4 % 2]);
        let (instance, cache) = open_with(&disk, pages, eviction);
        let counters = cache.counters();
        assert!(counters.resident_bytes <= counters.max_bytes, "{counters:?}");
        let recovery = instance.recovery();
        assert_eq!(recovery.left_attached, 2, "round {round}");
        assert!(recovery.records >= least, "round {round}: {recovery:?}, {least} before");
        least = recovery.records;
        let mut sessions = Vec::new();
        for (path, model) in DATABASES.iter().zip(&mut models).take(round % 3) {
            let db = instance.attach(Path::new(path), 32).unwrap();
            assert_eq!(rows(&instance, &db), *model, "round {round}, {path}");
            let mut session = instance.session();
            work(&mut session, &db, model, &mut rng, 40);
            sessions.push(session);
        }
        instance.flush().unwrap();
        if round % 8 == 7 {
            instance.checkpoint().unwrap();
            least = 0;
        }
        disk = match round % 2 {
            0 => disk.process_kill(),
            _ => disk.crash(round as u64, CrashOptions::default()),
        };
    }
    let (instance, _) = open(&disk, 64);
    for (path, model) in DATABASES.iter().zip(&models) {
        assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
    }
    instance.shutdown().unwrap();
    for path in DATABASES {
        let report = check_database(&disk, Path::new(path), &CheckOptions::default()).unwrap();
        assert!(report.clean && report.findings.is_empty(), "{path}: {:#?}", report.findings);
    }
}

/// Redo evicts changed pages in the same way as normal operation: most of them leave the cache as deltas, without a
/// write.
#[test]
fn redo_with_deltas_writes_few_pages() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let disk = SimVfs::new();
    let (instance, cache) = open(&disk, 512);
    create(&instance);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    let mut model = RowsByKey::new();
    let mut session = instance.session();
    work(&mut session, &db, &mut model, &mut rng, 4000);
    session.rollback().unwrap();
    cache.flush_file(db.file_id()).unwrap();
    instance.checkpoint().unwrap();
    work(&mut session, &db, &mut model, &mut rng, 300);
    instance.flush().unwrap();
    let disk = disk.process_kill();
    let written = POLICIES.map(|eviction| {
        let (instance, cache) = open_with(&disk.clone_disk(), 80, eviction);
        let counters = cache.counters();
        let written = counters.written_checkpoint + counters.written_eviction + counters.written_flush;
        assert_eq!(counters.delta_evictions > 0, eviction != EvictionPolicy::WriteBack, "{counters:?}");
        let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
        assert_eq!(rows(&instance, &db), model);
        written
    });
    assert!(written[0] * 2 < written[1], "{written:?} pages written with and without deltas");
}

#[test]
fn recovery_reports_a_missing_database() {
    let (disk, _) = killed(&mut ChaCha8Rng::seed_from_u64(4));
    let (instance, _) = open(&disk, 64);
    drop(instance);
    disk.remove(Path::new(DATABASES[1])).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(64 * SIZE.bytes(), SIZE, vfs.clock()));
    let opened = Instance::open(InstanceOptions::with_cache(vfs, "/log".into(), cache));
    assert!(matches!(opened.err(), Some(Error::Attachment { .. })));
}

/// If the checkpoint file is missing or unusable, recovery writes a new one. Otherwise later records could make the
/// old checkpoint seem valid.
#[test]
fn recovery_replaces_a_missing_checkpoint_or_one_ahead_of_the_log() {
    let checkpoint = Path::new("/log/E00.chk");
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (disk, models) = killed(&mut rng);
    let ahead = {
        let later = disk.clone_disk();
        let (instance, _) = open(&later, 256);
        let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
        let mut session = instance.session();
        work(&mut session, &db, &mut models[0].clone(), &mut rng, 600);
        session.commit(CommitMode::Durable).unwrap();
        drop((session, db));
        instance.shutdown().unwrap();
        later.contents(checkpoint).unwrap()
    };
    for stale in [None, Some(ahead)] {
        let disk = disk.clone_disk();
        match &stale {
            None => disk.remove(checkpoint).unwrap(),
            Some(bytes) => disk.put(checkpoint, bytes),
        }
        let (instance, _) = open(&disk, 64);
        assert_eq!(instance.recovery().left_attached, 2);
        assert_ne!(disk.contents(checkpoint), stale);
        let mut model = models[0].clone();
        let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
        work(&mut instance.session(), &db, &mut model, &mut rng, 500);
        instance.flush().unwrap();
        let (instance, _) = open(&disk.process_kill(), 64);
        for (path, model) in DATABASES.iter().zip([&model, &models[1]]) {
            assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
        }
    }
}
