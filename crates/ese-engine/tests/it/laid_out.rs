//! Tests of the sequential layout of a database in use: afterwards leaves are on consecutive pages, nothing is lost,
//! and a pass resumes at the position where it stopped.

use std::path::Path;

use ese_engine::{
    ColumnDefinition, CommitMode, Database, DatabaseOptions, DefragEvent, DefragKind, DefragOptions,
    EventKind, IndexDefinition, Instance, LayoutReport, MaintenanceThrottle, ScanOptions, TableDefinition,
};
use ese_format::page::{Page, PageFlags};
use ese_format::record::{ColumnId, ColumnType, Value};
use jetcell_sync::Arc;
use jetcell_vfs::SimVfs;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::maintained::{EventRecorder, check, open};
use super::recovered::{DATABASES, SIZE};

const ROWS: i32 = 4000;

fn one_pass() -> DefragOptions {
    DefragOptions {
        kind: DefragKind::SequentialLayout,
        single_pass: true,
        keep_progress: true,
        ..DefragOptions::default()
    }
}

/// Returns the value of a row. Most values fit into a page; every fortieth is a long value of several pages.
fn body(row: i32) -> Value {
    let mut bytes = vec![0; if row % 40 == 0 { 9000 } else { 250 }];
    ChaCha8Rng::seed_from_u64(row as u64).fill(&mut bytes[..]);
    Value::Binary(bytes)
}

/// Returns the sort key of a row in the secondary index.
fn number(row: i32) -> i32 {
    row.wrapping_mul(0x9e37) & 0xffff
}

/// Creates a database into which rows were inserted in random order.
fn scattered(disk: &SimVfs, heard: &Arc<EventRecorder>) -> (Arc<Instance>, Arc<Database>) {
    let instance = open(disk, heard);
    let create = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
    let db = instance.create_database(Path::new(DATABASES[0]), &create).unwrap();
    let definition = TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("key", ColumnType::Long),
            ColumnDefinition::new("number", ColumnType::Long),
            ColumnDefinition::new("body", ColumnType::LongBinary),
        ],
        indexes: vec![
            IndexDefinition::new("by key", &["key"]).primary(),
            IndexDefinition::new("by number", &["number"]),
        ],
        ..TableDefinition::default()
    };
    let mut session = instance.session();
    session.begin().unwrap();
    session.create_table(&db, &definition).unwrap();
    session.commit(CommitMode::Durable).unwrap();
    let mut order: Vec<i32> = (0..ROWS).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(5));
    for rows in order.chunks(100) {
        session.begin().unwrap();
        let mut table = session.open_table(&db, "t").unwrap();
        for &row in rows {
            let values = [
                (ColumnId(1), Value::Long(row)),
                (ColumnId(2), Value::Long(number(row))),
                (ColumnId(256), body(row)),
            ];
            table.insert(&mut session, &values).unwrap();
        }
        session.commit(CommitMode::Lazy).unwrap();
        instance.step().unwrap();
    }
    heard.defragmentation();
    (instance, db)
}

fn run(instance: &Arc<Instance>, db: &Arc<Database>) {
    assert!(instance.start_defragmentation(db, one_pass()).unwrap());
    for _ in 0..20_000 {
        if !db.layout_progress().running {
            return;
        }
        instance.step().unwrap();
    }
    panic!("{:?}", db.layout_progress());
}

/// Checks the rows through both indexes.
fn check_rows(instance: &Arc<Instance>, db: &Arc<Database>) {
    let mut session = instance.session();
    let mut table = session.open_table(db, "t").unwrap();
    for index in [None, Some("by number")] {
        table.set_index(index).unwrap();
        let (mut found, mut last) = (0, i32::MIN);
        let mut more = table.first(&mut session).unwrap();
        while more {
            let Value::Long(row) = table.get(&mut session, ColumnId(1)).unwrap() else { panic!() };
            assert_eq!(table.get(&mut session, ColumnId(256)).unwrap(), body(row), "{row}");
            let order = if index.is_some() { number(row) } else { row };
            assert!(order >= last, "{index:?}: {order} follows {last}");
            (found, last) = (found + 1, order);
            more = table.next(&mut session).unwrap();
        }
        assert_eq!(found, ROWS, "{index:?}");
    }
}

/// Returns the number of leaves in the file that have a right neighbour, and how many of those have it on the next
/// page.
fn transitions(disk: &SimVfs) -> (usize, usize) {
    let file = disk.contents(Path::new(DATABASES[0])).unwrap();
    let (mut all, mut sequential) = (0, 0);
    for (number, bytes) in (1u32..).zip(file.chunks_exact(SIZE.bytes()).skip(2)) {
        let page = Page::new(bytes, SIZE);
        let leaf = page.flags().contains(PageFlags::LEAF);
        let Some(next) = page.next().filter(|_| leaf && !page.flags().intersects(PageFlags::EMPTY)) else {
            continue;
        };
        all += 1;
        sequential += usize::from(next.get() == number + 1);
    }
    (all, sequential)
}

fn reports(heard: &EventRecorder) -> (Vec<u16>, Vec<LayoutReport>) {
    let events = heard.defragmentation();
    let ids = events.iter().filter_map(|kind| kind.describe(Default::default()).id).collect();
    let report = |kind| match kind {
        EventKind::Defragmentation { event: DefragEvent::TreeLaidOut(report), .. } => Some(report),
        _ => None,
    };
    (ids, events.into_iter().filter_map(report).collect())
}

#[test]
fn a_pass_puts_leaves_in_order_for_all_trees() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = scattered(&disk, &heard);
    for _ in 0..200 {
        instance.step().unwrap();
    }
    instance.core().cache.flush_file(db.file_id()).unwrap();
    let (all, sequential) = transitions(&disk);
    println!("{sequential} of {all} steps to the next leaf are sequential");
    assert!(all > 400 && sequential * 2 < all, "{sequential} of {all}");
    run(&instance, &db);
    let progress = db.layout_progress();
    assert!(progress.pages_moved > 300 && progress.pages_visited >= progress.pages_moved, "{progress:?}");
    assert_eq!((progress.passes, progress.skipped, progress.queued), (1, 0, 0), "{progress:?}");
    check_rows(&instance, &db);
    let (ids, laid_out) = reports(&heard);
    assert_eq!(ids[0], 752, "{ids:?}");
    assert!(ids[1..].iter().all(|id| *id == 728) && ids.len() == laid_out.len() + 1, "{ids:?}");
    let names: Vec<_> = laid_out.iter().map(|report| (&*report.table, report.index.as_deref())).collect();
    assert!(names.contains(&("t", None)) && names.contains(&("t", Some("by number"))), "{names:?}");
    assert_eq!(laid_out.iter().map(|report| report.pages_moved).sum::<u64>(), progress.pages_moved);
    // A second pass has nothing to do.
    run(&instance, &db);
    let again = db.layout_progress();
    assert_eq!((again.passes, again.pages_moved), (2, progress.pages_moved), "{again:?}");
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
    let (all, sequential) = transitions(&disk);
    println!("{sequential} of {all} steps to the next leaf are sequential");
    assert!(sequential * 100 > all * 95, "{sequential} of {all}");
}

#[test]
fn a_layout_resumes_after_a_stop_and_after_a_crash() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = scattered(&disk, &heard);
    assert!(instance.start_defragmentation(&db, one_pass()).unwrap());
    while db.layout_progress().pages_moved < 100 {
        assert!(db.layout_progress().running, "{:?}", db.layout_progress());
        instance.step().unwrap();
    }
    instance.stop_defragmentation(&db);
    let stopped = db.layout_progress();
    assert!(stopped.queued >= 2, "{stopped:?}");
    let (ids, _) = reports(&heard);
    assert_eq!(ids[0], 752, "{ids:?}");
    instance.flush().unwrap();
    let killed = disk.process_kill();
    drop((db, instance));

    let instance = open(&killed, &heard);
    let db = instance.attach(Path::new(DATABASES[0]), 32).unwrap();
    check_rows(&instance, &db);
    heard.defragmentation();
    run(&instance, &db);
    let (ids, laid_out) = reports(&heard);
    // The pass resumes with the trees in the queue, and does not search for other trees.
    assert_eq!((ids[0], laid_out.len() as u64), (752, stopped.queued), "{ids:?}");
    assert!(laid_out[0].pages_moved >= stopped.pass.pages_moved.min(1), "{laid_out:?}");
    check_rows(&instance, &db);
    drop(db);
    instance.shutdown().unwrap();
    check(&killed);
}

#[test]
fn both_kinds_of_defragmentation_run_at_the_same_time() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = scattered(&disk, &heard);
    let compaction = DefragOptions { kind: DefragKind::Compaction, partial_merges: true, ..one_pass() };
    assert!(instance.start_defragmentation(&db, compaction).unwrap());
    assert!(instance.start_defragmentation(&db, one_pass()).unwrap());
    assert!(!instance.start_defragmentation(&db, one_pass()).unwrap());
    while db.layout_progress().running || db.defrag_progress().running {
        instance.step().unwrap();
    }
    assert!(db.layout_progress().pages_moved > 300 && db.defrag_progress().pages_visited > 300);
    check_rows(&instance, &db);
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
}

/// The old page of a moved leaf is overwritten, even if it did not change between a pass and the move.
#[test]
fn zeroing_overwrites_pages_vacated_by_moved_leaves() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = scattered(&disk, &heard);
    // Write all pages first, because pages that were never written are not overwritten.
    let flush = || instance.core().cache.flush_file(db.file_id()).unwrap();
    let zero = || {
        flush();
        let options = ScanOptions { zero: true, single_pass: true, ..ScanOptions::default() };
        let options = ScanOptions { throttle: MaintenanceThrottle::default(), ..options };
        assert!(instance.start_maintenance(&db, options).unwrap());
        while db.scan_progress().running {
            instance.step().unwrap();
        }
    };
    zero();
    run(&instance, &db);
    assert!(db.layout_progress().pages_moved > 300);
    zero();
    flush();
    let file = disk.contents(Path::new(DATABASES[0])).unwrap();
    let mut left = 0;
    for (number, bytes) in (1u32..).zip(file.chunks_exact(SIZE.bytes()).skip(2)) {
        if Page::new(bytes, SIZE).flags().contains(PageFlags::EMPTY) {
            assert!(bytes[100..SIZE.bytes() - 100].iter().all(|byte| *byte == b'U'), "page {number}");
            left += 1;
        }
    }
    assert!(left > 300, "{left}");
}

#[test]
fn a_full_disk_is_reported_once_and_layout_resumes_later() {
    let (disk, heard) = (SimVfs::new(), Arc::new(EventRecorder::default()));
    let (instance, db) = scattered(&disk, &heard);
    instance.checkpoint().unwrap();
    disk.set_capacity(disk.used() + (256 << 10));
    assert!(instance.start_defragmentation(&db, one_pass()).unwrap());
    for _ in 0..200 {
        instance.step().unwrap();
        disk.sim_clock().advance(std::time::Duration::from_millis(50));
    }
    let stuck = db.layout_progress();
    assert!(stuck.running && stuck.failure.is_some(), "{stuck:?}");
    let (ids, _) = reports(&heard);
    assert_eq!(ids.iter().filter(|id| **id == 705).count(), 1, "{ids:?}");
    check_rows(&instance, &db);
    disk.set_capacity(u64::MAX);
    for _ in 0..20_000 {
        if !db.layout_progress().running {
            break;
        }
        instance.step().unwrap();
        disk.sim_clock().advance(std::time::Duration::from_millis(50));
    }
    let done = db.layout_progress();
    assert!(done.passes == 1 && done.pages_moved > 300 && done.failure.is_none(), "{done:?}");
    check_rows(&instance, &db);
    drop(db);
    instance.shutdown().unwrap();
    check(&disk);
}
