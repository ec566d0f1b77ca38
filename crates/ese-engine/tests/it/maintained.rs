//! Tests of scan and zeroing of a database in use: no remains of deleted data are left, no needed data is lost, and a
//! pass resumes at the position where it stopped.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use ese_check::{CheckOptions, check_database};
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::internals::log::LogNames;
use ese_engine::{
    BackgroundThreads, CommitMode, Database, Error, Event, EventKind, EventSink, Instance, InstanceOptions,
    MaintenanceThrottle, Replayer, Result, ScanOptions, SeekRelation,
};
use ese_format::page::Page;
use ese_format::record::{ColumnId, Value};
use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::recovered::{DATABASES, SIZE, create_one, options};

const COPY: &str = "/copy/one.edb";
const ROWS: i32 = 400;

#[derive(Default)]
pub(super) struct EventRecorder(Mutex<Vec<Event>>);

impl EventSink for EventRecorder {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl EventRecorder {
    pub(super) fn defragmentation(&self) -> Vec<EventKind> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        let kinds = events.into_iter().map(|event| event.kind);
        kinds.filter(|kind| matches!(kind, EventKind::Defragmentation { .. })).collect()
    }

    pub(super) fn space(&self) -> Vec<EventKind> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        let kinds = events.into_iter().map(|event| event.kind);
        kinds.filter(|kind| matches!(kind, EventKind::Space { .. })).collect()
    }

    fn passes(&self) -> Vec<EventKind> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        let is_of_pass = |event: &Event| event.describe().id.is_some_and(|id| (717..=738).contains(&id));
        events.into_iter().filter(is_of_pass).map(|event| event.kind).collect()
    }
}

pub(super) fn open(disk: &SimVfs, heard: &Arc<EventRecorder>) -> Arc<Instance> {
    let options = options(Arc::new(disk.clone()), 2048).0;
    Instance::open(options.event_sink(Some(heard.clone()))).unwrap()
}

fn zeroing() -> ScanOptions {
    ScanOptions {
        throttle: MaintenanceThrottle::default(),
        zero: true,
        single_pass: true,
        ..ScanOptions::default()
    }
}

/// Runs one pass to its end.
fn pass(instance: &Arc<Instance>, db: &Arc<Database>, options: ScanOptions) {
    assert!(instance.start_maintenance(db, options).unwrap());
    for _ in 0..20_000 {
        if !db.scan_progress().running {
            return;
        }
        instance.step().unwrap();
    }
    panic!("{:?}", db.scan_progress());
}

fn marker(row: i32) -> String {
    format!("SECRET-{row:05}-SECRET")
}

/// Returns the value of a row, which is either short or in the tree of long values. No two parts are equal, so the
/// value cannot be compressed.
fn body(row: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut state = row as u32 + 1;
    for _ in 0..if row % 2 == 0 { 4 } else { 90 } {
        bytes.extend_from_slice(marker(row).as_bytes());
        for _ in 0..40 {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            bytes.push(state as u8 | 0x80);
        }
    }
    bytes
}

fn change(
    instance: &Arc<Instance>,
    db: &Arc<Database>,
    work: impl Fn(&mut ese_engine::Session, &mut ese_engine::Table, i32),
) {
    let mut session = instance.session();
    for first in (0..ROWS).step_by(20) {
        session.begin().unwrap();
        let mut table = session.open_table(db, "t").unwrap();
        (first..first + 20).for_each(|row| work(&mut session, &mut table, row));
        session.commit(CommitMode::Lazy).unwrap();
        instance.step().unwrap();
    }
}

/// Inserts all rows. Row `n` is deleted if `n % 3 == 0`, and gets another value if `n % 3 == 1`.
fn fill(instance: &Arc<Instance>, db: &Arc<Database>) {
    change(instance, db, |session, table, row| {
        let row_value = [(ColumnId(1), Value::Long(row)), (ColumnId(256), Value::Binary(body(row)))];
        table.insert(session, &row_value).unwrap();
    });
}

fn delete(instance: &Arc<Instance>, db: &Arc<Database>) {
    change(instance, db, |session, table, row| {
        assert!(table.seek(session, &[Value::Long(row)], SeekRelation::Equal).unwrap());
        match row % 3 {
            0 => table.delete(session).unwrap(),
            1 => table.replace(session, &[(ColumnId(256), Value::Binary(b"other".to_vec()))]).unwrap(),
            _ => {}
        }
    });
    for _ in 0..200 {
        instance.flush().unwrap();
        instance.step().unwrap();
    }
}

/// Returns the rows whose marker is in the file.
fn marked(disk: &SimVfs, path: &str) -> Vec<i32> {
    let bytes = disk.contents(Path::new(path)).unwrap();
    let mut found: Vec<i32> = Vec::new();
    for window in
        bytes.windows(19).filter(|window| window.starts_with(b"SECRET-") && window.ends_with(b"-SECRET"))
    {
        found.extend(std::str::from_utf8(&window[7..12]).ok().and_then(|row| row.parse::<i32>().ok()));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn kept() -> Vec<i32> {
    (0..ROWS).filter(|row| row % 3 == 2).collect()
}

pub(super) fn check(disk: &SimVfs) {
    let report = check_database(disk, Path::new(DATABASES[0]), &CheckOptions::default()).unwrap();
    assert!(report.clean && report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn no_deleted_data_remains_in_the_file_or_replayed_copies() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let instance = open(&disk, &heard);
    let db = create_one(&instance, DATABASES[0]);
    instance.detach(&db).unwrap();
    drop(db);
    disk.create_directory(Path::new("/copy")).unwrap();
    disk.put(Path::new(COPY), &disk.contents(Path::new(DATABASES[0])).unwrap());
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    fill(&instance, &db);
    instance.checkpoint().unwrap();
    delete(&instance, &db);
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let before = marked(&disk, DATABASES[0]);
    assert!(before.len() > kept().len() + 50, "the engine leaves deleted data: {}", before.len());

    pass(&instance, &db, zeroing());
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let first = db.scan_progress();
    assert!(first.zeroed > 100 && first.pass.unused_zeroed > 0 && first.bad == 0, "{first:?}");
    assert_eq!(first.pass.remainder(), 0, "{first:?}");
    assert_eq!(marked(&disk, DATABASES[0]), kept());
    // Unchanged pages are not written again.
    pass(&instance, &db, zeroing());
    let second = db.scan_progress();
    assert!(second.zeroed - first.zeroed <= 4 && second.pass.unchanged > 100, "{second:?}");
    let starts = heard.passes();
    let ids: Vec<u16> = starts.iter().filter_map(|kind| kind.describe(Default::default()).id).collect();
    assert_eq!(ids, [718, 722, 718, 722], "{starts:?}");

    let mut session = instance.session();
    let mut table = session.open_table(&db, "t").unwrap();
    for row in 0..ROWS {
        let found = table.seek(&mut session, &[Value::Long(row)], SeekRelation::Equal).unwrap();
        assert_eq!(found, row % 3 != 0, "{row}");
        let expected = if row % 3 == 1 { b"other".to_vec() } else { body(row) };
        if found {
            assert_eq!(table.get(&mut session, ColumnId(256)).unwrap(), Value::Binary(expected), "{row}");
        }
    }
    drop((table, session, db));
    instance.shutdown().unwrap();
    drop(instance);
    assert_eq!(marked(&disk, DATABASES[0]), kept());
    check(&disk);

    // The logs transfer the changes to a copy.
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(512 * SIZE.bytes(), SIZE, vfs.clock()));
    let mut options = InstanceOptions::with_cache(vfs, "/copy".into(), cache);
    options.background = BackgroundThreads::None;
    options.recovery.database_paths.search("/copy");
    let names = LogNames::new(Path::new("/log"), FileStem::E00);
    let mut replayer = Replayer::open(options, &names.archived(ese_format::Generation(1))).unwrap();
    while disk.exists(&names.archived(replayer.next())).unwrap() {
        replayer.replay(&names.archived(replayer.next())).unwrap();
    }
    replayer.replay_until(&names.current(), LogPosition::MAX).unwrap();
    replayer.stop().unwrap();
    assert_eq!(marked(&disk, COPY), kept());
}

#[test]
fn snapshot_reads_stay_correct_while_pages_are_overwritten() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let instance = open(&disk, &heard);
    let db = create_one(&instance, DATABASES[0]);
    fill(&instance, &db);
    let mut snapshot = instance.session();
    snapshot.begin().unwrap();
    let mut seen = snapshot.open_table(&db, "t").unwrap();
    assert!(seen.first(&mut snapshot).unwrap());
    delete(&instance, &db);
    pass(&instance, &db, zeroing());
    for row in 0..ROWS {
        assert!(seen.seek(&mut snapshot, &[Value::Long(row)], SeekRelation::Equal).unwrap(), "{row}");
        let value = seen.get(&mut snapshot, ColumnId(256)).unwrap();
        assert_eq!(value, Value::Binary(body(row)), "{row}");
    }
    drop(seen);
    snapshot.rollback().unwrap();
    drop((snapshot, db));
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn a_pass_resumes_after_a_stop_and_after_a_crash() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let instance = open(&disk, &heard);
    let db = create_one(&instance, DATABASES[0]);
    fill(&instance, &db);
    let keeping = || ScanOptions { keep_progress: true, batch_bytes: 64 << 10, ..zeroing() };
    let some_steps = |instance: &Arc<Instance>, db: &Arc<Database>| {
        assert!(instance.start_maintenance(db, keeping()).unwrap());
        (0..6).for_each(|_| instance.step().unwrap());
        assert!(db.scan_progress().running && db.scan_progress().position.is_some());
    };
    some_steps(&instance, &db);
    let stopped = db.scan_progress().position.unwrap();
    instance.stop_scan(&db);
    let passes = heard.passes();
    assert!(matches!(passes[..], [EventKind::PassStarted { .. }, EventKind::PassInterrupted { .. }]));
    some_steps(&instance, &db);
    let passes = heard.passes();
    assert!(
        matches!(&passes[..], [EventKind::PassResumed { page, report }]
            if *page == stopped.plus(1) && report.invocations == 2),
        "{passes:?}"
    );
    instance.flush().unwrap();
    let killed = disk.process_kill();
    drop((db, instance));

    let instance = open(&killed, &heard);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    heard.passes();
    pass(&instance, &db, keeping());
    let passes = heard.passes();
    let [EventKind::PassResumed { page, .. }, EventKind::PassCompleted(report)] = &passes[..] else {
        panic!("{passes:?}")
    };
    assert!(*page > stopped && report.invocations == 2, "{passes:?}");
    let pages = (killed.contents(Path::new(DATABASES[0])).unwrap().len() / SIZE.bytes()) as u64 - 2;
    // The file grew when the table for the progress was created.
    assert!(report.pages <= pages && report.pages + 64 >= pages, "{report:?} {pages}");
    // The next pass starts at the first page.
    pass(&instance, &db, keeping());
    let passes = heard.passes();
    assert!(matches!(passes[..], [EventKind::PassStarted { .. }, EventKind::PassCompleted(_)]), "{passes:?}");
    drop(db);
    instance.shutdown().unwrap();
    check(&killed);
}

/// Damages bytes of some pages of the table and its long values, and of some adjacent pages.
fn damage(disk: &SimVfs, rng: &mut ChaCha8Rng) -> Vec<PageNumber> {
    let file = disk.contents(Path::new(DATABASES[0])).unwrap();
    let pages: Vec<(PageNumber, &[u8])> = (1..)
        .map(PageNumber::fixed)
        .zip(file.chunks_exact(SIZE.bytes()).skip(2))
        .filter(|(_, page)| page.iter().any(|byte| *byte != 0) && Page::new(page, SIZE).tree().0 > 7)
        .collect();
    let mut bad = BTreeSet::new();
    for _ in 0..rng.random_range(1..8) {
        let first = rng.random_range(0..pages.len());
        for (number, page) in &pages[first..(first + rng.random_range(1..3)).min(pages.len())] {
            let len = rng.random_range(2..300);
            let at = rng.random_range(0..SIZE.bytes() - len);
            let wrong: Vec<u8> =
                page[at..at + len].iter().map(|byte| byte ^ rng.random_range(1..=255)).collect();
            disk.corrupt(Path::new(DATABASES[0]), SIZE.offset_of(*number) + at as u64, &wrong).unwrap();
            bad.insert(*number);
        }
    }
    bad.into_iter().collect()
}

#[test]
fn a_pass_finds_damaged_pages_and_zeroes_the_others() -> Result<()> {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let instance = open(&disk, &heard);
    let db = create_one(&instance, DATABASES[0]);
    fill(&instance, &db);
    delete(&instance, &db);
    drop(db);
    instance.shutdown()?;
    drop(instance);
    let random = || RandomState::new().build_hasher().finish();
    let seed = std::env::var("JETCELL_SEED").map_or_else(|_| random(), |seed| seed.parse().unwrap());
    println!("JETCELL_SEED={seed}");
    let bad = damage(&disk, &mut ChaCha8Rng::seed_from_u64(seed));
    let instance = open(&disk, &heard);
    let db = instance.attach(Path::new(DATABASES[0]), 32)?;
    heard.passes();
    pass(&instance, &db, zeroing());
    let found: Vec<PageNumber> = db.scan_progress().findings.into_keys().collect();
    assert_eq!(found, bad);
    let reported: Vec<PageNumber> = heard
        .passes()
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::ScanFoundPage { page, .. } => Some(page),
            _ => None,
        })
        .collect();
    assert_eq!(reported, bad);
    assert!(db.scan_progress().zeroed > 50);

    // Invalid settings are refused, and no scan starts.
    let refused = instance.start_maintenance(
        &db,
        ScanOptions { throttle: MaintenanceThrottle::pausing(Duration::from_secs(61)), ..zeroing() },
    );
    assert!(matches!(refused, Err(Error::Usage(_))));
    assert!(!db.scan_progress().running);
    Ok(())
}
