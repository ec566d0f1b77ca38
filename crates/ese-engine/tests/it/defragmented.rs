//! Tests of online defragmentation of a database in use: pages are freed, nothing is lost, and a pass resumes at the
//! position where it stopped.

use std::path::Path;
use std::time::Duration;

use ese_engine::{
    BackupKind, CommitMode, Database, DefragEvent, DefragOptions, Error, EventKind, Instance,
    MaintenanceThrottle, MaintenanceWindow, ScanOptions, SeekRelation, WindowAdvice,
};
use ese_format::PageNumber;
use ese_format::record::{ColumnId, Value};
use jetcell_sync::Arc;
use jetcell_vfs::{Clock, SimVfs};

use super::maintained::{EventRecorder, check, open};
use super::recovered::{DATABASES, SIZE, create_one};

const ROWS: i32 = 2000;
/// Length of a value in bytes. Several rows fit into a page.
const BYTES: usize = 300;

fn stays(row: &i32) -> bool {
    row % 5 < 2
}

/// Returns bytes that cannot be compressed.
fn body(row: i32) -> Value {
    let mut state = row as u32 + 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    Value::Binary((0..BYTES).map(next).collect())
}

fn one_pass() -> DefragOptions {
    DefragOptions { single_pass: true, keep_progress: true, ..DefragOptions::default() }
}

/// Creates a database with sparse pages that cleanup does not merge, but that fit into one page with their
/// neighbours. Two of every five rows remain.
fn sparse(disk: &SimVfs, heard: &Arc<EventRecorder>) -> (Arc<Instance>, Arc<Database>) {
    let instance = open(disk, heard);
    let db = create_one(&instance, DATABASES[0]);
    let mut session = instance.session();
    for first in (0..ROWS).step_by(100) {
        session.begin().unwrap();
        let mut table = session.open_table(&db, "t").unwrap();
        for row in first..first + 100 {
            let value = body(row);
            table.insert(&mut session, &[(ColumnId(1), Value::Long(row)), (ColumnId(256), value)]).unwrap();
        }
        session.commit(CommitMode::Lazy).unwrap();
        instance.step().unwrap();
    }
    for first in (0..ROWS).step_by(100) {
        session.begin().unwrap();
        let mut table = session.open_table(&db, "t").unwrap();
        for row in (first..first + 100).filter(|row| !stays(row)) {
            assert!(table.seek(&mut session, &[Value::Long(row)], SeekRelation::Equal).unwrap());
            table.delete(&mut session).unwrap();
        }
        session.commit(CommitMode::Lazy).unwrap();
        instance.step().unwrap();
    }
    for _ in 0..100 {
        instance.flush().unwrap();
        instance.step().unwrap();
    }
    heard.defragmentation();
    (instance, db)
}

fn run(instance: &Arc<Instance>, db: &Arc<Database>, options: DefragOptions) {
    assert!(instance.start_defragmentation(db, options).unwrap());
    for _ in 0..20_000 {
        if !db.defrag_progress().running {
            return;
        }
        instance.step().unwrap();
    }
    panic!("{:?}", db.defrag_progress());
}

/// Checks the values of all existing rows, and returns the rows.
fn rows(instance: &Arc<Instance>, db: &Arc<Database>) -> Vec<i32> {
    let mut session = instance.session();
    let mut table = session.open_table(db, "t").unwrap();
    let mut found = Vec::new();
    let mut more = table.first(&mut session).unwrap();
    while more {
        let Value::Long(row) = table.get(&mut session, ColumnId(1)).unwrap() else { panic!() };
        let value = table.get(&mut session, ColumnId(256)).unwrap();
        assert_eq!(value, body(row), "{row}");
        found.push(row);
        more = table.next(&mut session).unwrap();
    }
    found
}

fn kept() -> Vec<i32> {
    (0..ROWS).filter(stays).collect()
}

#[test]
fn a_pass_frees_the_pages_of_a_sparse_database() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = sparse(&disk, &heard);
    run(&instance, &db, one_pass());
    let progress = db.defrag_progress();
    assert!(progress.pages_freed > 30 && progress.pages_visited > progress.pages_freed, "{progress:?}");
    assert_eq!((progress.passes, progress.skipped, progress.partial_merges), (1, 0, 0), "{progress:?}");
    assert_eq!(progress.pass.advice(), Some(WindowAdvice::MustGrow));
    assert_eq!(rows(&instance, &db), kept());
    // Nothing remains to be done. The totals continue to grow.
    run(&instance, &db, one_pass());
    let again = db.defrag_progress();
    assert!(again.pass.pages_freed <= 2, "{again:?}");
    assert_eq!(again.pass.total.passes, 2);
    assert_eq!(again.pass.total.pages_freed, again.pages_freed);
    let ids: Vec<u16> =
        heard.defragmentation().iter().filter_map(|kind| kind.describe(Default::default()).id).collect();
    assert_eq!(ids, [700, 701, 700, 701]);
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
}

#[test]
fn partial_merges_free_more_pages() {
    let freed = [false, true].map(|partial_merges| {
        let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
        let (instance, db) = sparse(&disk, &heard);
        run(&instance, &db, DefragOptions { partial_merges, ..one_pass() });
        run(&instance, &db, DefragOptions { partial_merges, ..one_pass() });
        let progress = db.defrag_progress();
        assert_eq!(progress.partial_merges > 0, partial_merges, "{progress:?}");
        assert_eq!(rows(&instance, &db), kept());
        drop(db);
        instance.shutdown().unwrap();
        check(&disk);
        progress.pages_freed
    });
    assert!(freed[1] >= freed[0], "{freed:?}");
}

#[test]
fn a_pass_resumes_after_a_stop_and_after_a_crash() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = sparse(&disk, &heard);
    let some_steps = |instance: &Arc<Instance>, db: &Arc<Database>| {
        assert!(instance.start_defragmentation(db, one_pass()).unwrap());
        while db.defrag_progress().pass.pages_visited < 60 {
            assert!(db.defrag_progress().running, "{:?}", db.defrag_progress());
            instance.step().unwrap();
        }
    };
    some_steps(&instance, &db);
    instance.stop_defragmentation(&db);
    let stopped = db.defrag_progress();
    let events = heard.defragmentation();
    assert!(
        matches!(
            events[..],
            [
                EventKind::Defragmentation { event: DefragEvent::Started, .. },
                EventKind::Defragmentation { event: DefragEvent::Interrupted, .. }
            ]
        ),
        "{events:?}"
    );
    instance.flush().unwrap();
    let killed = disk.process_kill();
    drop((db, instance));

    let instance = open(&killed, &heard);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    heard.defragmentation();
    run(&instance, &db, one_pass());
    let events = heard.defragmentation();
    let [
        EventKind::Defragmentation { event: DefragEvent::Resumed(resumed), .. },
        completed @ EventKind::Defragmentation { event: DefragEvent::Completed(report), .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(resumed.pages_visited, stopped.pass.pages_visited);
    assert_eq!((report.invocations, report.total.passes), (2, 1));
    assert_eq!(completed.describe(Default::default()).id, Some(703));
    assert!(report.pages_freed > resumed.pages_freed && report.pages_freed > 30, "{report:?}");
    // The resumed pass did not start from the beginning: it visited only the remaining pages.
    assert!(db.defrag_progress().pages_visited < report.pages_visited, "{report:?}");
    assert_eq!(rows(&instance, &db), kept());
    drop(db);
    instance.shutdown().unwrap();
    check(&killed);
}

#[test]
fn a_damaged_page_is_skipped_and_reported() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = sparse(&disk, &heard);
    drop(db);
    instance.shutdown().unwrap();
    drop(instance);
    let bad = [PageNumber::fixed(90), PageNumber::fixed(150)];
    for page in bad {
        disk.corrupt(Path::new(DATABASES[0]), SIZE.offset_of(page) + 900, &[0x5a; 200]).unwrap();
    }
    let instance = open(&disk, &heard);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    heard.defragmentation();
    run(&instance, &db, one_pass());
    let progress = db.defrag_progress();
    assert!(progress.skipped >= 1 && progress.pages_freed > 20, "{progress:?}");
    let ids: Vec<u16> =
        heard.defragmentation().iter().filter_map(|kind| kind.describe(Default::default()).id).collect();
    assert_eq!((ids.first(), ids.last()), (Some(&700), Some(&701)), "{ids:?}");
    assert!(ids[1..ids.len() - 1].iter().all(|id| *id == 705) && ids.len() > 2, "{ids:?}");
}

#[test]
fn defragmentation_waits_for_backups_and_rejects_invalid_settings() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = sparse(&disk, &heard);
    let backup = instance.begin_backup(BackupKind::Full).unwrap();
    assert!(instance.start_defragmentation(&db, one_pass()).unwrap());
    assert!(!instance.start_defragmentation(&db, one_pass()).unwrap());
    (0..50).for_each(|_| instance.step().unwrap());
    assert_eq!(db.defrag_progress().pages_visited, 0);
    for zero in [true, false] {
        let scan = ScanOptions {
            throttle: MaintenanceThrottle::default(),
            single_pass: true,
            ..ScanOptions::default()
        };
        assert!(instance.start_maintenance(&db, ScanOptions { zero, ..scan }).unwrap());
        (0..50).for_each(|_| instance.step().unwrap());
        assert_eq!(db.scan_progress().pages, 0);
        if zero {
            instance.stop_scan(&db);
        }
    }
    drop(backup);
    (0..2000).for_each(|_| instance.step().unwrap());
    assert!(db.scan_progress().pages > 0);
    assert!(db.defrag_progress().pages_freed > 30);

    let throttle = MaintenanceThrottle::pausing(Duration::from_secs(61));
    let refused = instance.start_defragmentation(&db, DefragOptions { throttle, ..one_pass() });
    assert!(matches!(refused, Err(Error::Usage(_))));
}

/// Checks that a pass begins one hour after the previous one if the number of passes is not limited.
#[test]
fn passes_start_at_most_once_an_hour() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let clock = disk.sim_clock();
    let (instance, db) = sparse(&disk, &heard);
    let endless = DefragOptions {
        throttle: MaintenanceThrottle::pausing(Duration::from_millis(10)),
        ..Default::default()
    };
    assert!(instance.start_defragmentation(&db, endless).unwrap());
    for _ in 0..10 * 360 {
        clock.advance(Duration::from_secs(1));
        instance.step().unwrap();
    }
    let progress = db.defrag_progress();
    assert!(progress.running && (1..=2).contains(&progress.passes), "{progress:?}");
    instance.stop_defragmentation(&db);
    let mut session = instance.session();
    session.begin().unwrap();
    assert_eq!(session.tables(&db).unwrap(), ["t"], "it was not asked to store its state");
    session.commit(CommitMode::Lazy).unwrap();
}

/// Each task gets half of a daily window of two minutes. A step takes a minute.
#[test]
fn tasks_run_only_in_their_windows_and_resume_next_time() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let clock = disk.sim_clock();
    let (instance, db) = sparse(&disk, &heard);
    let window: MaintenanceWindow = "daily 01:00 2m".parse().unwrap();
    let [scanning, defragmenting] = [0, 1].map(|half| window.part(half, 2));
    let throttle = MaintenanceThrottle::pausing(Duration::from_secs(60));
    let scan = ScanOptions {
        throttle: throttle.clone(),
        batch_bytes: 64 << 10,
        window: Some(scanning),
        keep_progress: true,
        ..ScanOptions::default()
    };
    assert!(instance.start_maintenance(&db, scan).unwrap());
    let options = DefragOptions { throttle, window: Some(defragmenting), ..one_pass() };
    assert!(instance.start_defragmentation(&db, options).unwrap());
    let (mut days, mut steps) = (0, [0; 2]);
    while db.defrag_progress().running && days < 40 {
        let before = [db.scan_progress().pages, db.defrag_progress().pages_visited];
        instance.step().unwrap();
        let after = [db.scan_progress().pages, db.defrag_progress().pages_visited];
        let now = clock.unix_ms();
        for (task, window) in [scanning, defragmenting].iter().enumerate() {
            let worked = after[task] > before[task];
            assert!(!worked || window.wait(now).is_zero(), "task {task} outside of its window");
            steps[task] += usize::from(worked);
        }
        days = (now - 1_704_067_200_000) / 86_400_000;
        clock.advance(Duration::from_secs(30));
    }
    let progress = db.defrag_progress();
    assert!(progress.passes == 1 && progress.pass.invocations >= 3, "{progress:?}");
    assert_eq!(progress.pass.days, progress.pass.invocations, "{progress:?}");
    assert!(steps.iter().all(|steps| *steps >= 3), "{steps:?}");
    assert_eq!(rows(&instance, &db), kept());
    let ids: Vec<u16> =
        heard.defragmentation().iter().filter_map(|kind| kind.describe(Default::default()).id).collect();
    assert_eq!(ids[..4], [700, 704, 702, 704], "{ids:?}");
    assert_eq!(ids.last(), Some(&703));
    let scan = db.scan_progress();
    assert!(scan.pass.invocations >= 3 && scan.bad == 0, "{scan:?}");
}
