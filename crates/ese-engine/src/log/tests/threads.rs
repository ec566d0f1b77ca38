//! Multithreaded tests of the stream.

use std::path::Path;
use std::time::Duration;

use ese_format::log::record::LogRecord;
use ese_format::page::PageFlags;
use ese_format::{Generation, LogPosition, PageSize};
use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use jetcell_sync::mpsc;
use jetcell_vfs::SimVfs;

use super::{batch, contents, create, read, record};
use crate::btree::tests::create_tree;
use crate::log::PositionedRecord;
use crate::transaction::ActiveTransaction;
use crate::{DatabaseOptions, Error};

#[test]
fn commits_of_many_threads_share_writes() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    jetcell_sync::thread::scope(|scope| {
        for thread in 0..8u64 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..100 {
                    let new =
                        [record(thread << 32 | number, (number * 31 % 900) as usize), record(thread, 0)];
                    let end = log.append(&batch(&new)).unwrap().end;
                    // Some threads sleep for a while, so commits wait for them in vain.
                    match thread % 4 {
                        0 => log.flush(end).unwrap(),
                        1 if number % 16 == 0 => {
                            jetcell_sync::thread::sleep(std::time::Duration::from_millis(2));
                        }
                        _ => log.commit(end).unwrap(),
                    }
                    assert!(log.durable() >= end || thread % 4 == 1);
                }
            });
        }
        scope.spawn(|| (0..50).for_each(|_| log.step().unwrap()));
        scope.spawn(|| (0..5).for_each(|_| log.roll_over().unwrap()));
    });
    let counters = log.counters();
    assert_eq!(counters.records, 1600);
    let (found, _) = read(&disk).unwrap();
    assert_eq!(found.len(), 1600);
    let number = |stored: &PositionedRecord| match LogRecord::decode(&stored.bytes) {
        Ok((LogRecord::Trace(trace), _)) => u64::from_le_bytes(*trace.text.first_chunk().unwrap()),
        other => panic!("{other:?}"),
    };
    let mut next = [0; 8];
    for pair in found.chunks(2) {
        let (thread, count) = ((number(&pair[0]) >> 32) as usize, number(&pair[0]) as u32);
        assert_eq!(
            (number(&pair[1]), count),
            (thread as u64, next[thread]),
            "batches stay whole and in order"
        );
        next[thread] += 1;
    }
}

#[test]
fn files_are_formatted_while_records_are_appended() {
    let disk = SimVfs::new();
    let log = &create(disk.clone());
    let done = &AtomicBool::new(false);
    let expected: Vec<LogRecord> = (0..3000).map(|number| record(number, 2000)).collect();
    jetcell_sync::thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                if log.wait_for_segments(Duration::from_millis(1)) {
                    log.write_full().unwrap();
                } else {
                    log.step().unwrap();
                }
            }
        });
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                if log.wait_for_file_work(Duration::from_millis(1)) {
                    assert!(log.prepare_files().unwrap(), "the disk is not full");
                }
            }
        });
        for (number, record) in expected.iter().enumerate() {
            let appended = log.append(&batch(std::slice::from_ref(record))).unwrap();
            if number % 100 == 0 {
                log.flush(appended.end).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    log.close().unwrap();
    let (found, tail) = read(&disk).unwrap();
    assert!(tail.header.generation > Generation(80), "many files");
    assert_eq!(contents(&found), expected);
}

#[test]
fn transactions_can_begin_while_a_commit_waits_for_the_disk() {
    let instance = crate::btree::tests::open(&SimVfs::new(), PageSize::KIB_4, 256).unwrap();
    let db = instance.create_database(Path::new("/db/test.edb"), &DatabaseOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    let (core, commits) = (instance.core(), AtomicU64::new(0));
    jetcell_sync::thread::scope(|scope| {
        // No log write completes, as if the device did not respond.
        let device = core.log().head.lock();
        scope.spawn(|| {
            let mut session = ActiveTransaction::new(core.clone(), 1);
            for number in 0..2000_u32 {
                session.begin().unwrap();
                // This record is much longer than a commit record. Therefore the insert usually uses up the last free
                // segment, and the commit finds the buffer full.
                tree.insert(session.changes().unwrap(), &number.to_be_bytes(), &[7; 300]).unwrap();
                session.commit().unwrap();
                commits.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut known = 0;
        while known == 0 || known != commits.load(Ordering::Relaxed) {
            known = commits.load(Ordering::Relaxed);
            jetcell_sync::thread::sleep(Duration::from_millis(100));
        }
        assert!(known < 2000, "nobody waited");
        let (begun, has_begun) = mpsc::channel();
        scope.spawn(move || {
            let mut session = ActiveTransaction::new(core.clone(), 2);
            session.begin().unwrap();
            begun.send(()).unwrap();
        });
        let has_begun = has_begun.recv_timeout(Duration::from_secs(10));
        drop(device);
        assert!(has_begun.is_ok(), "a lock is held while the log is written");
    });
    drop((tree, db));
    instance.shutdown().unwrap();
}

/// Other instances may open the stream's files once `stop` has returned.
#[test]
fn stopping_waits_for_the_pending_write_and_releases_the_files() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let end = log.append(&batch(&[record(1, 100)])).unwrap().end;
    jetcell_sync::thread::scope(|scope| {
        // No log write completes, as if the device did not respond.
        let device = log.head.lock();
        scope.spawn(|| drop(log.flush(end)));
        while !log.state.lock().writing {
            jetcell_sync::thread::yield_now();
        }
        let (ended, has_ended) = mpsc::channel();
        let log = &log;
        scope.spawn(move || {
            log.stop();
            ended.send(log.durable()).unwrap();
        });
        assert!(has_ended.recv_timeout(Duration::from_millis(100)).is_err(), "a write is under way");
        drop(device);
        assert!(has_ended.recv().unwrap() >= end);
    });
    let operations = disk.operations();
    let refused = [
        log.append(&batch(&[record(2, 100)])).map(|_| ()),
        log.flush(LogPosition::new(u32::MAX, 0, 0)).and(log.step()),
        log.roll_over(),
        log.name_generation(),
        log.prepare_next(true),
        log.truncate_below(Generation(1)),
    ];
    assert!(refused.iter().all(|result| matches!(result, Err(Error::ReadOnly(_)))), "{refused:?}");
    log.restore_reserves();
    assert_eq!(disk.operations(), operations);
    assert_eq!(read(&disk).unwrap().0.len(), 1);
}
