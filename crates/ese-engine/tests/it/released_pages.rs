//! Tests of returning free space to the file system: the available end of a file is removed, and free extents inside
//! become holes. Nothing is lost at any power failure.

use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_engine::{
    BackupKind, CommitMode, Database, Error, EventKind, Instance, MaintenanceThrottle, ScanOptions,
    SeekRelation, SpaceEvent,
};
use ese_format::header::DatabaseHeader;
use ese_format::record::{ColumnId, Value};
use jetcell_sync::Arc;
use jetcell_vfs::{CrashOptions, SimVfs};

use super::maintained::{EventRecorder, open};
use super::recovered::{DATABASES, SIZE, create_one, options};

const ROWS: i32 = 600;
/// Length of a value in bytes. Several rows fit into a page.
const BYTES: usize = 300;

fn body(row: i32) -> Value {
    Value::Binary((0..BYTES).map(|at| (at as i32 * 31 + row * 7) as u8).collect())
}

fn in_transactions(
    instance: &Arc<Instance>,
    db: &Arc<Database>,
    rows: std::ops::Range<i32>,
    work: impl Fn(&mut ese_engine::Session, &mut ese_engine::Table, i32) -> ese_engine::Result<()>,
) -> ese_engine::Result<()> {
    let mut session = instance.session();
    let all: Vec<i32> = rows.collect();
    for some in all.chunks(50) {
        session.begin()?;
        let mut table = session.open_table(db, "t")?;
        some.iter().try_for_each(|row| work(&mut session, &mut table, *row))?;
        session.commit(CommitMode::Durable)?;
        instance.step()?;
    }
    Ok(())
}

fn insert(
    instance: &Arc<Instance>,
    db: &Arc<Database>,
    rows: std::ops::Range<i32>,
) -> ese_engine::Result<()> {
    in_transactions(instance, db, rows, |session, table, row| {
        table.insert(session, &[(ColumnId(1), Value::Long(row)), (ColumnId(256), body(row))])
    })
}

/// Deletes rows, and lets cleanup free their pages.
fn delete(instance: &Arc<Instance>, db: &Arc<Database>, rows: std::ops::Range<i32>) {
    in_transactions(instance, db, rows, |session, table, row| {
        assert!(table.seek(session, &[Value::Long(row)], SeekRelation::Equal)?);
        table.delete(session)
    })
    .unwrap();
    for _ in 0..100 {
        instance.flush().unwrap();
        instance.step().unwrap();
    }
}

fn rows(instance: &Arc<Instance>, db: &Arc<Database>) -> Vec<i32> {
    let mut session = instance.session();
    let mut table = session.open_table(db, "t").unwrap();
    let mut found = Vec::new();
    let mut more = table.first(&mut session).unwrap();
    while more {
        let Value::Long(row) = table.get(&mut session, ColumnId(1)).unwrap() else { panic!() };
        assert_eq!(table.get(&mut session, ColumnId(256)).unwrap(), body(row), "{row}");
        found.push(row);
        more = table.next(&mut session).unwrap();
    }
    found
}

/// Creates a database with only these rows, of which many were deleted.
fn emptied(
    disk: &SimVfs,
    heard: &Arc<EventRecorder>,
    deleted: std::ops::Range<i32>,
) -> (Arc<Instance>, Arc<Database>) {
    let instance = open(disk, heard);
    let db = create_one(&instance, DATABASES[0]);
    insert(&instance, &db, 0..ROWS).unwrap();
    delete(&instance, &db, deleted);
    (instance, db)
}

fn file_pages(disk: &SimVfs) -> u64 {
    (disk.contents(Path::new(DATABASES[0])).unwrap().len() / SIZE.bytes()) as u64 - 2
}

fn zero_pages(disk: &SimVfs) -> u64 {
    let bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    bytes.chunks(SIZE.bytes()).skip(2).filter(|page| page.iter().all(|byte| *byte == 0)).count() as u64
}

fn header(disk: &SimVfs) -> DatabaseHeader {
    let bytes = disk.contents(Path::new(DATABASES[0])).unwrap();
    DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0
}

fn check(disk: &SimVfs) {
    let options = CheckOptions { structure: true, ..CheckOptions::default() };
    let report = check_database(disk, Path::new(DATABASES[0]), &options).unwrap();
    assert!(report.clean && report.findings.is_empty(), "{:#?}", report.findings);
}

fn scan(instance: &Arc<Instance>, db: &Arc<Database>) {
    let options =
        ScanOptions { throttle: MaintenanceThrottle::default(), single_pass: true, ..ScanOptions::default() };
    assert!(instance.start_maintenance(db, options).unwrap());
    while db.scan_progress().running {
        instance.step().unwrap();
    }
    assert_eq!(db.scan_progress().pass.bad, 0, "{:?}", db.scan_progress());
}

#[test]
fn trailing_available_pages_are_truncated_and_the_file_regrows() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = emptied(&disk, &heard, 20..ROWS);
    heard.space();
    let before = file_pages(&disk);
    let report = instance.shrink(&db).unwrap();
    assert_eq!((report.pages_before, report.pages_after), (before, file_pages(&disk)));
    assert!(report.pages_after + 100 < before && report.released > 20, "{report:?}");
    assert_eq!(instance.shrink(&db).unwrap().pages_after, report.pages_after, "nothing is left to cut off");
    let events = heard.space();
    assert!(
        matches!(&events[..], [EventKind::Space { event: SpaceEvent::Shrunk(first), .. }, _] if *first == report),
        "{events:?}"
    );
    assert_eq!(
        events.iter().filter_map(|event| event.describe(Default::default()).id).collect::<Vec<_>>(),
        [748, 748]
    );
    assert_eq!(rows(&instance, &db), (0..20).collect::<Vec<_>>());
    assert_eq!((header(&disk).shrink_count, header(&disk).trim_count), (1, 0));
    scan(&instance, &db);
    insert(&instance, &db, 20..5 * ROWS).unwrap();
    assert!(file_pages(&disk) > report.pages_after);
    assert_eq!(rows(&instance, &db), (0..5 * ROWS).collect::<Vec<_>>());
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn free_extents_inside_a_file_become_reusable_holes() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = emptied(&disk, &heard, 20..ROWS - 20);
    instance.shrink(&db).unwrap();
    heard.space();
    let (zeros, pages) = (zero_pages(&disk), file_pages(&disk));
    let report = instance.trim(&db).unwrap();
    assert!(report.pages >= 16 && report.holes >= 1, "{report:?}");
    assert!(zero_pages(&disk) >= zeros.max(report.pages) && file_pages(&disk) == pages);
    let again = instance.trim(&db).unwrap();
    assert_eq!((again.holes, again.pages), (0, 0));
    let ids: Vec<u16> =
        heard.space().iter().filter_map(|event| event.describe(Default::default()).id).collect();
    assert_eq!(ids, [740, 741, 740, 742]);
    let left: Vec<i32> = (0..20).chain(ROWS - 20..ROWS).collect();
    assert_eq!(rows(&instance, &db), left);
    scan(&instance, &db);
    insert(&instance, &db, 20..ROWS - 20).unwrap();
    assert_eq!(rows(&instance, &db), (0..ROWS).collect::<Vec<_>>());
    assert!(zero_pages(&disk) < zeros + report.pages, "the holes are not used");
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
    assert_eq!(header(&disk).trim_count, 1);
}

#[test]
fn space_release_survives_power_cuts_without_data_loss() {
    let kept: Vec<i32> = (0..20).chain(ROWS - 60..ROWS - 40).collect();
    let (mut cut, mut ended) = (0, false);
    while !ended {
        let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
        let (instance, db) = emptied(&disk, &heard, 20..ROWS - 60);
        delete(&instance, &db, ROWS - 40..ROWS);
        let before = file_pages(&disk);
        disk.cut_power_after(disk.operations() + cut);
        let done = instance.trim(&db).and_then(|_| instance.shrink(&db)).and_then(|_| {
            // Returned pages are in use again when the power fails.
            insert(&instance, &db, 1000..1100)
        });
        ended = done.is_ok();
        drop((db, instance));
        let disk = if cut % 4 == 0 { disk.process_kill() } else { disk.crash(cut, CrashOptions::default()) };
        // A second power cut occurs during recovery.
        disk.cut_power_after(disk.operations() + 3 + cut % 23);
        drop(Instance::open(options(Arc::new(disk.clone()), 2048).0));
        let disk = disk.crash(cut + 1, CrashOptions::default());
        let instance = open(&disk, &heard);
        let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
        let mut found = rows(&instance, &db);
        let new: Vec<i32> = found.iter().copied().filter(|row| *row >= 1000).collect();
        found.retain(|row| *row < 1000);
        assert_eq!(found, kept, "cut {cut}");
        assert_eq!(new, (1000..1000 + new.len() as i32).collect::<Vec<_>>(), "cut {cut}");
        assert!(!ended || new.len() == 100);
        scan(&instance, &db);
        instance.trim(&db).unwrap();
        let report = instance.shrink(&db).unwrap();
        assert!(report.pages_after + 30 < before, "cut {cut}: {before} pages, {report:?}");
        drop(db);
        instance.shutdown().unwrap();
        check(&disk);
        cut += 1;
    }
    assert!(cut > 20, "{cut} cuts only");
}

/// Redo finds holes at pages that a later record returns to the file system. Before that record, redo closes the
/// other database.
#[test]
fn recovery_detaches_a_database_despite_unexplained_holes_in_another() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = emptied(&disk, &heard, 0..0);
    create_one(&instance, DATABASES[1]);
    drop(db);
    instance.shutdown().unwrap();
    drop(instance);
    // After this open, redo does not see the creation of the pages.
    let instance = open(&disk, &heard);
    let [db, other] = [0, 1].map(|at| instance.attach(Path::new(DATABASES[at]), 32).unwrap());
    let mut session = instance.session();
    session.begin().unwrap();
    let mut table = session.open_table(&db, "t").unwrap();
    for row in 20..ROWS - 20 {
        assert!(table.seek(&mut session, &[Value::Long(row)], SeekRelation::Equal).unwrap());
        table.delete(&mut session).unwrap();
    }
    session.commit(CommitMode::Durable).unwrap();
    // Cleanup merges the pages. The checkpoint does not advance.
    instance.detach(&other).unwrap();
    assert!(instance.trim(&db).unwrap().released > 20);
    drop((table, session));
    drop((db, other, instance));
    let disk = disk.process_kill();
    let instance = open(&disk, &heard);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    assert_eq!(rows(&instance, &db), (0..20).chain(ROWS - 20..ROWS).collect::<Vec<_>>());
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn space_is_not_released_while_a_backup_runs() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = emptied(&disk, &heard, 20..ROWS);
    let before = disk.contents(Path::new(DATABASES[0])).unwrap();
    let backup = instance.begin_backup(BackupKind::Full).unwrap();
    for refused in [instance.shrink(&db).err(), instance.trim(&db).err()] {
        assert!(matches!(refused, Some(Error::Backup(_))), "{refused:?}");
        assert_eq!(refused.unwrap().jet_code(), -505);
    }
    assert!(disk.contents(Path::new(DATABASES[0])).unwrap() == before);
    drop(backup);
    let report = instance.shrink(&db).unwrap();
    assert!(report.pages_after < report.pages_before, "{report:?}");
}
