//! Tests of rollbacks that fail because a page that undo needs cannot be read. The log still works.

use std::path::Path;
use std::time::Duration;

use ese_check::{CheckOptions, check_database};
use ese_engine::Database;
use ese_engine::internals::cache::{Cache, CacheOptions, EvictionPolicy};
use ese_engine::{
    BackgroundThreads, ColumnDefinition, CommitMode, DatabaseOptions, Error, IndexDefinition, Instance,
    InstanceOptions, Result, Session, Table, TableDefinition, TornPageProtection,
};
use ese_format::PageSize;
use ese_format::record::{ColumnId, ColumnType, Value};
use jetcell_sync::{Arc, mpsc};
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, InjectedFault, SimVfs, Vfs};

const SIZE: PageSize = PageSize::KIB_4;
const DB: &str = "/db/one.edb";
/// Number of committed rows. It is many times what the cache can hold.
const ROWS: i32 = 2000;
/// Time limit for the end of an instance. It is much longer than needed.
const LIMIT: Duration = Duration::from_secs(20);
/// Content of the row whose insert cannot be undone. No other row has this content.
const MARK: [u8; 300] = [0xe7; 300];

struct Fixture {
    disk: SimVfs,
    faults: Arc<FaultVfs>,
    cache: Arc<Cache>,
}

impl Fixture {
    fn new() -> Fixture {
        let disk = SimVfs::new();
        let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
        for directory in ["/db", "/log"] {
            faults.create_directory(Path::new(directory)).unwrap();
        }
        // Changed pages are written only when they are evicted.
        let options = CacheOptions {
            eviction: EvictionPolicy::WriteBack,
            ..CacheOptions::new(64 * SIZE.bytes(), SIZE, disk.clock())
        };
        Fixture { disk, faults, cache: Cache::new(options) }
    }

    fn open(&self) -> Result<Arc<Instance>> {
        let mut options = InstanceOptions::with_cache(self.faults.clone(), "/log".into(), self.cache.clone());
        (options.background, options.log.file_size) = (BackgroundThreads::None, 128 << 10);
        // With page images, recovery would treat the damage as a torn page and repair it.
        options.torn_page_protection = TornPageProtection::Off;
        Instance::open(options)
    }

    /// Creates an instance with the committed rows.
    fn filled(&self) -> (Arc<Instance>, Arc<Database>) {
        let instance = self.open().unwrap();
        let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
        let db = instance.create_database(Path::new(DB), &create).unwrap();
        let definition = TableDefinition {
            name: "t".to_string(),
            columns: vec![
                ColumnDefinition::new("key", ColumnType::Long),
                ColumnDefinition::new("body", ColumnType::LongBinary),
            ],
            indexes: vec![IndexDefinition::new("by key", &["key"]).primary()],
            ..TableDefinition::default()
        };
        let mut session = instance.session();
        session.begin().unwrap();
        session.create_table(&db, &definition).unwrap();
        session.commit(CommitMode::Lazy).unwrap();
        let mut table = session.open_table(&db, "t").unwrap();
        for key in 0..ROWS {
            session.begin().unwrap();
            insert(&mut session, &mut table, key, &[1; 300]).unwrap();
            session.commit(CommitMode::Lazy).unwrap();
            instance.step().unwrap();
        }
        // The log must not contain images of the pages that recovery must fail to read.
        self.cache.flush_file(db.file_id()).unwrap();
        instance.checkpoint().unwrap();
        (instance, db)
    }

    /// Begins a transaction with an insert into the first leaf, and writes and evicts the leaf.
    fn undecided(&self, instance: &Arc<Instance>, db: &Arc<Database>) -> Session {
        let mut session = instance.session();
        let mut table = session.open_table(db, "t").unwrap();
        session.begin().unwrap();
        insert(&mut session, &mut table, -1, &MARK).unwrap();
        // The cursor of the table may pin the page.
        drop(table);
        instance.flush().unwrap();
        self.cache.flush_file(db.file_id()).unwrap();
        for _ in 0..3 {
            assert_eq!(keys(instance, db), (0..ROWS).collect::<Vec<_>>());
        }
        session
    }

    fn check_clean(&self) {
        let report = check_database(&self.disk, Path::new(DB), &CheckOptions::default()).unwrap();
        assert!(report.clean && report.findings.is_empty(), "{:#?}", report.findings);
    }
}

fn insert(session: &mut Session, table: &mut Table, key: i32, body: &[u8]) -> Result<()> {
    let row = [(ColumnId(1), Value::Long(key)), (ColumnId(256), Value::Binary(body.to_vec()))];
    table.insert(session, &row)
}

fn keys(instance: &Arc<Instance>, db: &Arc<Database>) -> Vec<i32> {
    let mut session = instance.session();
    let mut table = session.open_table(db, "t").unwrap();
    session.begin().unwrap();
    let mut keys = Vec::new();
    let mut more = table.first(&mut session).unwrap();
    while more {
        let Value::Long(key) = table.get(&mut session, ColumnId(1)).unwrap() else { panic!("no key") };
        keys.push(key);
        more = table.next(&mut session).unwrap();
    }
    session.commit(CommitMode::Lazy).unwrap();
    keys
}

/// Returns the result of `work`. Panics if the work exceeds the time limit.
fn in_time(what: &str, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let (done, result) = mpsc::channel();
    jetcell_sync::thread::spawn(move || done.send(work()));
    result.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{what} does not end"))
}

fn check_read_only<T>(result: Result<T>, reason: &str) {
    let error = result.err().expect("the instance refuses changes");
    assert!(matches!(&error, Error::ReadOnly(failure) if failure.to_string().contains(reason)), "{error}");
}

/// Checks an instance with a transaction that cannot be rolled back. Changes are refused, the instance can be shut
/// down, and the next open undoes the transaction.
fn a_failed_rollback(damage: impl FnOnce(&Fixture), reason: &str, repair: impl FnOnce(&Fixture)) {
    let fixture = Fixture::new();
    let (instance, db) = fixture.filled();
    let mut session = fixture.undecided(&instance, &db);
    let mut other = instance.session();
    let mut others = other.open_table(&db, "t").unwrap();
    other.begin().unwrap();
    insert(&mut other, &mut others, ROWS, &[2; 300]).unwrap();
    damage(&fixture);
    let failed = session.rollback().unwrap_err();
    assert!(failed.to_string().contains(reason), "{failed}");
    assert_eq!(session.level(), 1, "the transaction is still open");
    instance.core().check_writable().unwrap();
    drop(session);

    // Earlier changes can be committed. New changes are refused, including those that would encounter a write
    // conflict.
    check_read_only(insert(&mut other, &mut others, ROWS + 1, &[2; 300]), reason);
    other.commit(CommitMode::Durable).unwrap();
    other.begin().unwrap();
    check_read_only(insert(&mut other, &mut others, -1, &[2; 300]), reason);
    other.rollback().unwrap();
    drop((other, others));
    // Other instances may use the same cache, so it stays writable.
    fixture.cache.check_writable().unwrap();
    let (ended, its) = (instance.clone(), db.clone());
    check_read_only(in_time("detach", move || ended.detach(&its)), reason);
    for _ in 0..2 {
        let ended = instance.clone();
        check_read_only(in_time("shutdown", move || ended.shutdown()), reason);
    }
    drop((instance, db));

    let error = fixture.open().err().expect("recovery cannot undo the transaction either");
    assert!(error.to_string().contains(reason), "{error}");
    repair(&fixture);
    let instance = fixture.open().unwrap();
    assert_eq!(instance.recovery().rolled_back, 1);
    let db = instance.attach(Path::new(DB), 32).unwrap();
    assert_eq!(keys(&instance, &db), (0..=ROWS).collect::<Vec<_>>());
    drop(db);
    in_time("shutdown", move || instance.shutdown()).unwrap();
    fixture.check_clean();
}

#[test]
fn an_instance_ends_if_undo_cannot_read_a_page() {
    let damage = |fixture: &Fixture| {
        let fault = InjectedFault::new(FaultTarget::Read, FaultEffect::IoError);
        fixture.faults.inject(fault.on_path(DB).repeating());
    };
    a_failed_rollback(damage, "os error 5", |fixture| fixture.faults.clear());
}

#[test]
fn an_instance_ends_if_undo_needs_a_damaged_page() {
    let path = Path::new(DB);
    let change = |fixture: &Fixture, from: &[u8], to: &[u8]| {
        let bytes = fixture.disk.contents(path).unwrap();
        let found: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
        assert!(!found.is_empty(), "the page is on disk");
        found.iter().for_each(|at| fixture.disk.corrupt(path, *at as u64, to).unwrap());
    };
    // If every word were changed in the same way, the checksum would stay the same.
    let damaged = [b"wrong", &MARK[5..]].concat();
    a_failed_rollback(
        |fixture| change(fixture, &MARK, &damaged),
        "-1018",
        |fixture| change(fixture, &damaged, &MARK),
    );
}

#[test]
fn a_failed_rollback_can_be_retried() {
    for dropped in [false, true] {
        let fixture = Fixture::new();
        let (instance, db) = fixture.filled();
        let mut session = fixture.undecided(&instance, &db);
        let mut table = session.open_table(&db, "t").unwrap();
        insert(&mut session, &mut table, ROWS, &[2; 300]).unwrap();
        let fault = InjectedFault::new(FaultTarget::Read, FaultEffect::IoError);
        fixture.faults.inject(fault.on_path(DB).repeating());
        assert!(matches!(session.rollback(), Err(Error::Io { .. })));
        fixture.faults.clear();
        if !dropped {
            // The last insert is undone, but the first one is not.
            let half = [
                session.commit(CommitMode::Lazy).err(),
                session.begin().err(),
                insert(&mut session, &mut table, ROWS, &[2; 300]).err(),
            ];
            assert!(half.iter().all(|error| matches!(error, Some(Error::Usage(_)))), "{half:?}");
            session.rollback().unwrap();
            assert_eq!(session.level(), 0);
        }
        drop((session, table));
        instance.core().check_writable().unwrap();
        assert_eq!(keys(&instance, &db), (0..ROWS).collect::<Vec<_>>());
        drop(db);
        in_time("shutdown", move || instance.shutdown()).unwrap();
        fixture.check_clean();
    }
}

/// Begins a transaction. Level 1 created an index. Level 2 created another index, and inserted into a page that is
/// not in memory.
fn two_indexes(fixture: &Fixture, db: &Arc<Database>, instance: &Arc<Instance>) -> Session {
    let mut session = instance.session();
    for index in ["X", "Y"] {
        session.begin().unwrap();
        session.create_index(db, "t", &IndexDefinition::new(index, &["key"])).unwrap();
    }
    let mut table = session.open_table(db, "t").unwrap();
    insert(&mut session, &mut table, -1, &MARK).unwrap();
    instance.flush().unwrap();
    fixture.cache.flush_file(db.file_id()).unwrap();
    for _ in 0..3 {
        let mut more = table.first(&mut session).unwrap();
        while more {
            more = table.next(&mut session).unwrap();
        }
    }
    session
}

#[test]
fn a_table_stays_reserved_until_its_definition_change_is_rolled_back() {
    let fixture = Fixture::new();
    let (instance, db) = fixture.filled();
    let mut session = two_indexes(&fixture, &db, &instance);
    let mut other = instance.session();
    let fault = InjectedFault::new(FaultTarget::Read, FaultEffect::IoError);
    fixture.faults.inject(fault.on_path(DB).repeating());
    assert!(matches!(session.rollback(), Err(Error::Io { .. })));
    fixture.faults.clear();
    let refused = other.open_table(&db, "t").err();
    assert!(
        matches!(refused, Some(Error::WriteConflict)),
        "a row of this session would be missing in index X: {refused:?}"
    );
    session.rollback().unwrap();
    assert_eq!(session.level(), 1, "the repeated rollback ends the failed level only");
    assert!(matches!(other.open_table(&db, "t"), Err(Error::WriteConflict)));
    let mut table = session.open_table(&db, "t").unwrap();
    assert!(table.set_index(Some("Y")).is_err());
    insert(&mut session, &mut table, ROWS, &[2; 300]).unwrap();
    session.commit(CommitMode::Lazy).unwrap();
    let mut others = other.open_table(&db, "t").unwrap();
    others.set_index(Some("X")).unwrap();
    assert!(others.last(&mut other).unwrap());
    assert_eq!(others.get(&mut other, ColumnId(1)).unwrap(), Value::Long(ROWS));
    drop((session, table, other, others, db));
    in_time("shutdown", move || instance.shutdown()).unwrap();
    fixture.check_clean();
}

#[test]
fn a_table_is_readable_after_a_failed_definition_rollback() {
    let fixture = Fixture::new();
    let (instance, db) = fixture.filled();
    let session = two_indexes(&fixture, &db, &instance);
    let fault = InjectedFault::new(FaultTarget::Read, FaultEffect::IoError);
    fixture.faults.inject(fault.on_path(DB).repeating());
    drop(session);
    fixture.faults.clear();
    assert_eq!(keys(&instance, &db), (0..ROWS).collect::<Vec<_>>());
    let mut other = instance.session();
    let mut table = other.open_table(&db, "t").unwrap();
    assert!(table.set_index(Some("X")).is_err());
    other.begin().unwrap();
    check_read_only(insert(&mut other, &mut table, ROWS, &[2; 300]), "os error 5");
    check_read_only(other.create_index(&db, "t", &IndexDefinition::new("Z", &["key"])), "os error 5");
    drop((other, table, db));
    let ended = instance.clone();
    check_read_only(in_time("shutdown", move || ended.shutdown()), "os error 5");
    drop(instance);
    let instance = fixture.open().unwrap();
    assert_eq!(instance.recovery().rolled_back, 1);
    let db = instance.attach(Path::new(DB), 32).unwrap();
    assert_eq!(keys(&instance, &db), (0..ROWS).collect::<Vec<_>>());
    drop(db);
    in_time("shutdown", move || instance.shutdown()).unwrap();
    fixture.check_clean();
}
