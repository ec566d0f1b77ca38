//! Tests of bulk loads: the loaded table equals its rows, a load exists either completely or not at all, and its
//! space is reused.

use std::collections::BTreeMap;
use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{
    BackgroundThreads, BackupKind, BulkLoad, BulkLoadOptions, ColumnDefinition, CommitMode, Database,
    DatabaseOptions, Error, Freeze, IndexDefinition, Instance, InstanceOptions, MaintenanceThrottle,
    PageTimeMismatch, Result, ScanOptions, SeekRelation, Session, TableDefinition,
};
use ese_format::PageSize;
use ese_format::record::{ColumnId, ColumnType, Value};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, FaultEffect, FaultTarget, FaultVfs, InjectedFault, IoReason, SimVfs, Vfs};

pub(crate) const DB: &str = "/db/loaded.edb";
pub(crate) const SIZES: [PageSize; 4] =
    [PageSize::KIB_4, PageSize::KIB_8, PageSize::KIB_16, PageSize::KIB_32];

pub(crate) fn open(disk: &SimVfs, size: PageSize) -> Result<Arc<Instance>> {
    open_on(Arc::new(disk.clone()), size)
}

pub(crate) fn open_on(vfs: Arc<dyn Vfs>, size: PageSize) -> Result<Arc<Instance>> {
    for directory in ["/db", "/log"] {
        vfs.create_directory(Path::new(directory)).unwrap();
    }
    let cache = Cache::new(CacheOptions::new(256 * size.bytes(), size, vfs.clock()));
    let options = InstanceOptions::with_cache(vfs, "/log".into(), cache);
    Instance::open(options.background(BackgroundThreads::None).seed(1))
}

pub(crate) fn create(disk: &SimVfs, size: PageSize) -> (Arc<Instance>, Arc<Database>) {
    let instance = open(disk, size).unwrap();
    let options = DatabaseOptions { initial_pages: 256, extension_pages: 64 };
    let db = instance.create_database(Path::new(DB), &options).unwrap();
    (instance, db)
}

pub(crate) fn definition(name: &str) -> TableDefinition {
    TableDefinition {
        name: name.to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long),
            ColumnDefinition::new("Code", ColumnType::Binary),
            ColumnDefinition::new("Group", ColumnType::Long),
            ColumnDefinition::new("Body", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("ById", &["Id"]).primary(),
            IndexDefinition::new("ByCode", &["Code"]).unique(),
            IndexDefinition::new("ByGroup", &["Group"]),
        ],
        ..TableDefinition::default()
    }
}

/// Options with small writes. Even a small table is therefore written with many writes.
pub(crate) fn options() -> BulkLoadOptions {
    BulkLoadOptions { transfer_bytes: 32 << 10, ..BulkLoadOptions::default() }
}

pub(crate) fn columns(column: impl Fn(&str) -> Option<ColumnId>) -> [ColumnId; 4] {
    ["Id", "Code", "Group", "Body"].map(|name| column(name).unwrap())
}

pub(crate) fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let step = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as u8
    };
    (0..len).map(step).collect()
}

/// Values of row `id`. Every third row is long, and one in fifty has several chunks.
pub(crate) fn values(columns: [ColumnId; 4], id: i32) -> Vec<(ColumnId, Value)> {
    let seed = id as u32;
    let len = if id % 50 == 0 {
        70_000
    } else if id % 3 == 0 {
        1500
    } else {
        40
    };
    let code = noise(seed.wrapping_mul(2_654_435_761), 12);
    let all = [Value::Long(id), Value::Binary(code), Value::Long(id % 7), Value::Binary(noise(seed, len))];
    let mut row: Vec<_> = columns.into_iter().zip(all).collect();
    row.sort_by_key(|(column, _)| *column);
    row
}

pub(crate) fn push_all(load: &mut BulkLoad<'_>, ids: impl Iterator<Item = i32>) -> Result<()> {
    let columns = columns(|name| load.column(name));
    ids.into_iter().try_for_each(|id| load.push(&values(columns, id)))
}

pub(crate) fn load(session: &mut Session, db: &Arc<Database>, name: &str, rows: i32) -> Result<()> {
    let mut load = session.bulk_load(db, &definition(name), options())?;
    push_all(&mut load, (0..rows).map(|number| number * 2))?;
    load.finish().map(|_| ())
}

/// Checks that the first pass that zeroes has almost nothing to do if the load option is set.
#[test]
fn pages_zeroed_during_the_load_are_not_rewritten() {
    for size in SIZES {
        let zeroed = [false, true].map(|zero| {
            let disk = SimVfs::new();
            let (instance, db) = create(&disk, size);
            let mut session = instance.session();
            let options = BulkLoadOptions { zero, ..options() };
            let mut load = session.bulk_load(&db, &definition("t"), options).unwrap();
            push_all(&mut load, 0..1500).unwrap();
            load.finish().unwrap();
            let scan = ScanOptions {
                throttle: MaintenanceThrottle::default(),
                zero: true,
                single_pass: true,
                ..ScanOptions::default()
            };
            assert!(instance.start_maintenance(&db, scan).unwrap());
            while db.scan_progress().running {
                instance.step().unwrap();
            }
            assert_eq!(rows(&mut session, &db, "t").len(), 1500);
            let progress = db.scan_progress();
            assert_eq!(progress.bad, 0, "{progress:?}");
            drop((session, db));
            instance.shutdown().unwrap();
            let report = check_database(&disk, Path::new(DB), &CheckOptions::default()).unwrap();
            assert!(report.clean && report.findings.is_empty(), "{:#?}", report.findings);
            progress.zeroed
        });
        let [later, at_creation] = zeroed;
        assert!(later > 30 && at_creation * 3 < later, "{size:?}: {later} and {at_creation} pages");
    }
}

/// Returns the rows by id, and the number of entries of each index in order.
pub(crate) fn rows(
    session: &mut Session,
    db: &Arc<Database>,
    name: &str,
) -> BTreeMap<i32, Vec<(ColumnId, Value)>> {
    let mut table = session.open_table(db, name).unwrap();
    let [id, code, group, _] = columns(|name| table.column(name));
    let mut all = BTreeMap::new();
    let mut found = table.first(session).unwrap();
    while found {
        let row = table.row(session).unwrap();
        let Value::Long(number) = table.get(session, id).unwrap() else { panic!("{row:?}") };
        assert!(all.insert(number, row).is_none());
        found = table.next(session).unwrap();
    }
    for (index, column) in [("ByCode", code), ("ByGroup", group)] {
        table.set_index(Some(index)).unwrap();
        let (mut count, mut last) = (0, None);
        let mut found = table.first(session).unwrap();
        while found {
            let value = match table.get(session, column).unwrap() {
                Value::Long(number) => number.to_be_bytes().to_vec(),
                Value::Binary(bytes) => bytes,
                other => panic!("{other:?}"),
            };
            let Value::Long(number) = table.get(session, id).unwrap() else { panic!("no id") };
            assert!(all.contains_key(&number));
            assert!(last.replace(value.clone()).is_none_or(|last| last <= value));
            count += 1;
            found = table.next(session).unwrap();
        }
        assert_eq!(count, all.len(), "{index}");
    }
    all
}

fn expected(
    db: &Arc<Database>,
    session: &mut Session,
    name: &str,
    count: i32,
) -> BTreeMap<i32, Vec<(ColumnId, Value)>> {
    let table = session.open_table(db, name).unwrap();
    let columns = columns(|name| table.column(name));
    (0..count).map(|number| (number * 2, values(columns, number * 2))).collect()
}

pub(crate) fn check(disk: &SimVfs) {
    let report = check_database(disk, Path::new(DB), &CheckOptions::default()).unwrap();
    let errors: Vec<_> = report.errors().collect();
    assert!(report.is_sound(), "{errors:#?}");
}

pub(crate) fn is_there(session: &Session, db: &Arc<Database>, name: &str) -> bool {
    session.tables(db).unwrap().iter().any(|table| table == name)
}

#[test]
fn a_loaded_table_has_all_rows_and_accepts_changes() {
    for size in SIZES {
        for (count, density) in [(0, None), (1, None), (9, None), (400, Some(100)), (3000, None)] {
            let disk = SimVfs::new();
            let (instance, db) = create(&disk, size);
            let mut session = instance.session();
            let mut load =
                session.bulk_load(&db, &definition("T"), BulkLoadOptions { density, ..options() }).unwrap();
            push_all(&mut load, (0..count).map(|number| number * 2)).unwrap();
            assert_eq!(load.finish().unwrap().rows, count as u64);
            let mut model = expected(&db, &mut session, "T", count);
            assert!(rows(&mut session, &db, "T") == model, "{size:?}, {count} rows");

            let mut table = session.open_table(&db, "T").unwrap();
            let columns = columns(|name| table.column(name));
            for number in 0..300 {
                let id = (number * 37) % (2 * count).max(50);
                session.begin().unwrap();
                let found = table.seek(&mut session, &[Value::Long(id)], SeekRelation::Equal).unwrap();
                assert_eq!(found, model.contains_key(&id));
                if found {
                    table.delete(&mut session).unwrap();
                    model.remove(&id);
                } else {
                    table.insert(&mut session, &values(columns, id)).unwrap();
                    model.insert(id, values(columns, id));
                }
                session.commit(CommitMode::Lazy).unwrap();
            }
            drop(table);
            assert!(rows(&mut session, &db, "T") == model, "{size:?}, {count} rows, changed");
            drop((session, db));
            instance.shutdown().unwrap();
            check(&disk);
        }
    }
}

#[test]
fn loaded_pages_are_filled_to_the_configured_density() {
    let pages = |density| {
        let disk = SimVfs::new();
        let (instance, db) = create(&disk, PageSize::KIB_4);
        let mut session = instance.session();
        let mut load = session
            .bulk_load(&db, &definition("T"), BulkLoadOptions { density: Some(density), ..options() })
            .unwrap();
        let columns = columns(|name| load.column(name));
        for id in 0..4000 {
            let mut row = values(columns, id);
            row.retain(|(column, _)| *column != columns[3]);
            load.push(&row).unwrap();
        }
        load.finish().unwrap().pages
    };
    let (full, half) = (pages(100), pages(50));
    assert!((full * 19 / 10..full * 23 / 10).contains(&half), "{full} pages, {half} when half full");
}

#[test]
fn rejected_rows_change_nothing() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let mut session = instance.session();
    let no_room = BulkLoadOptions { out_of_order_bytes: 0, ..options() };
    let mut load = session.bulk_load(&db, &definition("T"), no_room).unwrap();
    let columns = columns(|name| load.column(name));
    push_all(&mut load, (0..300).map(|number| number * 2)).unwrap();
    // Row 57 is long. Its long value must not remain in the table.
    assert!(matches!(load.push(&values(columns, 57)), Err(Error::OutOfOrder)));
    assert!(matches!(load.push(&values(columns, 598)), Err(Error::KeyDuplicate)));
    assert!(matches!(load.push(&[(ColumnId(250), Value::Long(1))]), Err(Error::Usage(_))));
    push_all(&mut load, (300..400).map(|number| number * 2)).unwrap();
    load.finish().unwrap();
    assert!(rows(&mut session, &db, "T") == expected(&db, &mut session, "T", 400));
    let mut table = session.open_table(&db, "T").unwrap();
    session.begin().unwrap();
    table.insert(&mut session, &values(columns, 57)).unwrap();
    session.commit(CommitMode::Durable).unwrap();
    drop((table, session, db));
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn an_unfinished_load_leaves_no_trace() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let mut session = instance.session();
    let begun = |session: &mut Session, rows: i32| {
        let mut load = session.bulk_load(&db, &definition("T"), options()).unwrap();
        push_all(&mut load, (0..rows).map(|number| number * 2)).unwrap();
        assert!(!is_there(&instance.session(), &db, "T"));
        load.progress().pages
    };
    assert!(begun(&mut session, 800) > 300, "dropped");

    let mut load = session.bulk_load(&db, &definition("T"), options()).unwrap();
    push_all(&mut load, (0..800).map(|number| number * 2)).unwrap();
    assert!(matches!(load.finish_with(|_| false), Err(Error::Cancelled)));

    let mut load = session.bulk_load(&db, &definition("T"), options()).unwrap();
    let columns = columns(|name| load.column(name));
    push_all(&mut load, (0..800).map(|number| number * 2)).unwrap();
    let mut twin = values(columns, 5000);
    let code = values(columns, 100).into_iter().find(|(column, _)| *column == columns[1]).unwrap();
    twin.iter_mut().filter(|(column, _)| *column == columns[1]).for_each(|value| *value = code.clone());
    load.push(&twin).unwrap();
    assert!(matches!(load.finish(), Err(Error::KeyDuplicate)), "two rows with the same code");

    assert!(!is_there(&session, &db, "T"));
    drop((session, db));
    instance.shutdown().unwrap();
    drop(instance);
    check(&disk);

    // The space of the earlier loads is reused: in a clean database, every page in use has an owner.
    let before = disk.contents(Path::new(DB)).unwrap().len();
    let instance = open(&disk, PageSize::KIB_4).unwrap();
    let db = instance.attach(Path::new(DB), 64).unwrap();
    let mut session = instance.session();
    load_and_compare(&mut session, &db, 800);
    assert_eq!(disk.contents(Path::new(DB)).unwrap().len(), before);
    drop((session, db));
    instance.shutdown().unwrap();
    check(&disk);
}

pub(crate) fn load_and_compare(session: &mut Session, db: &Arc<Database>, count: i32) {
    load(session, db, "T", count).unwrap();
    assert!(rows(session, db, "T") == expected(db, session, "T", count));
}

/// Loads two tables. Another table is changed normally before, between and after the loads, and checkpoints and
/// background work run during the loads. `done` receives what was acknowledged: the database, and the tables.
fn history(disk: &SimVfs, done: &mut Vec<&'static str>) -> Result<()> {
    let instance = open(disk, PageSize::KIB_4)?;
    let db = match instance.attach(Path::new(DB), 64) {
        Ok(db) => db,
        Err(_) => instance
            .create_database(Path::new(DB), &DatabaseOptions { initial_pages: 256, extension_pages: 64 })?,
    };
    done.push(DB);
    let mut session = instance.session();
    let mut load_with_checkpoints = |session: &mut Session, name: &'static str, count: i32| -> Result<()> {
        let mut load = session.bulk_load(&db, &definition(name), options())?;
        for first in (0..count).step_by(40) {
            push_all(&mut load, (first..count.min(first + 40)).map(|number| number * 2))?;
            instance.step()?;
            instance.checkpoint()?;
        }
        load.finish()?;
        done.push(name);
        Ok(())
    };
    let insert = |session: &mut Session, id: i32| {
        session.begin()?;
        if !session.tables(&db)?.iter().any(|table| table == "Other") {
            session.create_table(&db, &definition("Other"))?;
        }
        let mut table = session.open_table(&db, "Other")?;
        let columns = columns(|name| table.column(name));
        table.insert(session, &values(columns, id))?;
        session.commit(CommitMode::Durable).map(|_| ())
    };
    insert(&mut session, 0)?;
    let mut dropped = session.bulk_load(&db, &definition("Dropped"), options())?;
    push_all(&mut dropped, 0..150)?;
    drop(dropped);
    load_with_checkpoints(&mut session, "T", 350)?;
    insert(&mut session, 3)?;
    instance.checkpoint()?;
    load_with_checkpoints(&mut session, "U", 120)?;
    insert(&mut session, 6)?;
    drop((session, db));
    instance.shutdown()
}

/// Checks power cuts and process kills at any write. Each table exists either completely or not at all; if its load
/// was acknowledged, it exists. Earlier commits are not lost, and the database accepts the same load again.
#[test]
fn a_table_load_is_atomic_across_power_cuts() {
    let whole = SimVfs::new();
    history(&whole, &mut vec![]).unwrap();
    check(&whole);
    let operations = whole.operations();
    let (mut lost, mut kept) = (0, 0);
    for cut in (30..operations).step_by(if operations > 1200 { 7 } else { 3 }) {
        let disk = SimVfs::new();
        disk.cut_power_after(cut);
        let mut done = vec![];
        let _ = history(&disk, &mut done);
        let disk = if cut % 5 == 0 { disk.process_kill() } else { disk.crash(cut, CrashOptions::default()) };
        let instance = open(&disk, PageSize::KIB_4).unwrap();
        let db = match instance.attach(Path::new(DB), 64) {
            Ok(db) => db,
            Err(error) if done.contains(&DB) => panic!("cut {cut}: {error}"),
            Err(_) => continue,
        };
        let mut session = instance.session();
        let there = ["T", "U"].map(|name| is_there(&session, &db, name));
        assert!(there[0] || !there[1], "cut {cut}: a later load is there, and the first one is not");
        for (name, count, there) in [("T", 350, there[0]), ("U", 120, there[1])] {
            assert!(there || !done.contains(&name), "cut {cut}: an acknowledged load is lost");
            if there {
                kept += 1;
            } else {
                lost += 1;
                load(&mut session, &db, name, count).unwrap();
            }
            assert!(rows(&mut session, &db, name) == expected(&db, &mut session, name, count), "cut {cut}");
        }
        if there[0] {
            assert!(is_there(&session, &db, "Other"));
        }
        drop((session, db));
        instance.shutdown().unwrap();
        check(&disk);
    }
    assert!(lost > 20 && kept > 20, "{lost} loads lost, {kept} kept");
}

/// Redo on a copy from before the load must not continue without the pages of the load.
#[test]
fn an_older_copy_cannot_be_recovered_past_a_load() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let old = disk.clone_disk().contents(Path::new(DB)).unwrap();
    let mut session = instance.session();
    load(&mut session, &db, "T", 400).unwrap();
    drop((session, db));
    let mut older = disk.process_kill().contents(Path::new(DB)).unwrap();
    // The header is newer, so it matches the logs. The pages are older.
    older.truncate(old.len());
    older[2 * 4096..].copy_from_slice(&old[2 * 4096..]);
    older.resize(disk.process_kill().contents(Path::new(DB)).unwrap().len(), 0);
    for zeroed in [true, false] {
        let disk = disk.process_kill();
        let mut pages = older.clone();
        if !zeroed {
            // Pages from an earlier use of the space: they are valid, but older.
            let donor = old[2 * 4096 + 12 * 4096..][..4096].to_vec();
            for (index, page) in pages.chunks_exact_mut(4096).enumerate().skip(2) {
                if page.iter().all(|byte| *byte == 0) {
                    page.copy_from_slice(&donor);
                    let number = ese_format::PageNumber::new(index as u32 - 1).unwrap();
                    ese_format::checksum::seal_page(page, PageSize::KIB_4, number);
                }
            }
        }
        disk.put(Path::new(DB), &pages);
        match open(&disk, PageSize::KIB_4) {
            Err(Error::Corrupt { .. }) if zeroed => {}
            Err(Error::PageTime { fault: PageTimeMismatch::Older { .. }, .. }) if !zeroed => {}
            Err(error) => panic!("zeroed {zeroed}: {error}"),
            Ok(_) => panic!("zeroed {zeroed}: recovered without the pages of the load"),
        }
    }
}

#[test]
fn loads_exclude_backups_and_require_a_full_backup_afterwards() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let back_up = |kind| -> Result<()> {
        let mut backup = instance.begin_backup(kind)?;
        if kind == BackupKind::Full {
            let mut pages = backup.read_pages(&db, Default::default())?;
            while let Some(extent) = pages.next_extent()? {
                pages.recycle(extent);
            }
        }
        backup.close_logs()?;
        while backup.next_log()?.is_some() {}
        backup.finish(std::slice::from_ref(&db)).map(|_| ())
    };
    back_up(BackupKind::Full).unwrap();
    back_up(BackupKind::Incremental).unwrap();
    let mut session = instance.session();
    let mut load = session.bulk_load(&db, &definition("T"), options()).unwrap();
    assert_eq!(back_up(BackupKind::Full).unwrap_err().jet_code(), -505);
    assert_eq!(instance.freeze(Freeze::DEFAULT_LIMIT).err().map(|error| error.jet_code()), Some(-505));
    push_all(&mut load, 0..500).unwrap();
    load.finish().unwrap();
    assert_eq!(back_up(BackupKind::Incremental).unwrap_err().jet_code(), -560);

    let running = instance.begin_backup(BackupKind::Full).unwrap();
    let refused = session.bulk_load(&db, &definition("U"), options()).err();
    assert_eq!(refused.map(|error| error.jet_code()), Some(-505));
    drop(running);

    // Redo finds the records of backups from before the load in the log. These backups must not be the base of later
    // ones.
    let crashed = disk.process_kill();
    let again = open(&crashed, PageSize::KIB_4).unwrap();
    assert_eq!(again.begin_backup(BackupKind::Incremental).err().map(|error| error.jet_code()), Some(-560));
    drop(again);

    back_up(BackupKind::Full).unwrap();
    back_up(BackupKind::Incremental).unwrap();
    drop((session, db));
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn a_full_disk_or_failed_write_aborts_only_the_load() {
    for full in [true, false] {
        let disk = SimVfs::new();
        let faults = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
        let instance = open_on(faults.clone(), PageSize::KIB_4).unwrap();
        let options_of_file = DatabaseOptions { initial_pages: 256, extension_pages: 64 };
        let db = instance.create_database(Path::new(DB), &options_of_file).unwrap();
        let mut session = instance.session();
        load(&mut session, &db, "Before", 100).unwrap();
        if full {
            disk.set_capacity(disk.used() + (3 << 20));
        }
        let mut failing = session.bulk_load(&db, &definition("T"), options()).unwrap();
        if !full {
            push_all(&mut failing, 0..600).unwrap();
            // The fault leaves a torn page, which the check below must not find.
            let torn = InjectedFault::new(FaultTarget::Write, FaultEffect::Torn(5 * 1024));
            faults.inject(torn.for_reason(IoReason::BulkLoad));
        }
        let pushed = push_all(&mut failing, 600..20_000);
        let error = pushed.unwrap_err();
        assert!(matches!(error, Error::DiskFull { .. }) == full, "{error}");
        assert!(failing.finish().is_err(), "a load that failed cannot be finished");
        assert!(!is_there(&session, &db, "T"));
        disk.set_capacity(u64::MAX);
        load_and_compare(&mut session, &db, 300);
        drop((session, db));
        instance.shutdown().unwrap();
        check(&disk);
    }
}

#[test]
fn a_scan_waits_for_a_load() {
    let disk = SimVfs::new();
    let (instance, db) = create(&disk, PageSize::KIB_4);
    let mut session = instance.session();
    let zero = ScanOptions { zero: true, throttle: MaintenanceThrottle::default(), ..ScanOptions::default() };
    instance.start_maintenance(&db, zero).unwrap();
    let mut load = session.bulk_load(&db, &definition("T"), options()).unwrap();
    push_all(&mut load, (0..400).map(|number| number * 2)).unwrap();
    let pages = db.scan_progress().pages;
    for _ in 0..20 {
        instance.step().unwrap();
    }
    assert_eq!(db.scan_progress().pages, pages);
    load.finish().unwrap();
    for _ in 0..20_000 {
        instance.step().unwrap();
        if db.scan_progress().passes > 0 {
            break;
        }
    }
    assert!(db.scan_progress().passes > 0 && db.scan_progress().bad == 0, "{:?}", db.scan_progress());
    assert!(rows(&mut session, &db, "T") == expected(&db, &mut session, "T", 400));
    drop((session, db));
    instance.shutdown().unwrap();
    check(&disk);
}
