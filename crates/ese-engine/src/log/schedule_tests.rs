//! Tests group commit, the writer role, and the end of a stream under many thread schedules.

use std::time::Duration;

use ese_format::LogPosition;
use ese_format::log::record::LogRecord;
use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use jetcell_sync::{Arc, thread};
use jetcell_vfs::SimVfs;

use super::tests::{batch, contents, create, read, record};
use super::*;
use crate::Error;
use crate::schedule_tests::explore;
use crate::transaction::TransactionTable;

fn append(log: &LogStream, number: u64, len: usize) -> LogPosition {
    log.append(&batch(&[record(number, len)])).unwrap().end
}

fn fill(log: &LogStream, thread: u64) {
    (0..12).for_each(|number| {
        append(log, thread << 32 | number, 3900);
    });
}

#[test]
fn a_commit_returns_once_durable_and_no_thread_hangs() {
    explore(|| {
        let disk = SimVfs::new();
        let log = Arc::new(create(disk.clone()));
        let committers = [0, 1, 2].map(|thread: u64| {
            let log = log.clone();
            thread::spawn(move || {
                for number in 0..3 {
                    let end = append(&log, thread << 32 | number, 20);
                    match thread {
                        0 => log.flush(end).unwrap(),
                        _ => log.commit(end).unwrap(),
                    }
                    assert!(log.durable() >= end);
                }
            })
        });
        committers.into_iter().for_each(|committer| committer.join().unwrap());
        assert_eq!(read(&disk).unwrap().0.len(), 9);
    });
}

#[test]
fn no_log_write_follows_the_end_of_a_stream() {
    explore(|| {
        let disk = SimVfs::new();
        let log = Arc::new(create(disk.clone()));
        let committers = [0, 1].map(|thread: u64| {
            let log = log.clone();
            thread::spawn(move || {
                for number in 0..2 {
                    let appended = log.append(&batch(&[record(thread << 32 | number, 20)]));
                    match appended.and_then(|appended| log.commit(appended.end).map(|()| appended.end)) {
                        Ok(end) => assert!(log.durable() >= end),
                        Err(error) => assert!(matches!(error, Error::ReadOnly(_)), "{error}"),
                    }
                }
            })
        });
        log.stop();
        let operations = disk.operations();
        committers.into_iter().for_each(|committer| committer.join().unwrap());
        assert_eq!(disk.operations(), operations);
    });
}

#[test]
fn a_full_log_buffer_is_written_by_either_thread() {
    explore(|| {
        let disk = SimVfs::new();
        let log = Arc::new(create(disk.clone()));
        let done = Arc::new(AtomicBool::new(false));
        let background = thread::spawn({
            let (log, done) = (log.clone(), done.clone());
            move || {
                while !done.load(Ordering::SeqCst) {
                    if log.wait_for_segments(Duration::from_millis(1)) {
                        log.write_full().unwrap();
                    }
                    if log.wait_for_file_work(Duration::from_millis(1)) {
                        assert!(log.prepare_files().unwrap());
                    }
                }
            }
        });
        let other = thread::spawn({
            let log = log.clone();
            move || fill(&log, 1)
        });
        // Together, the two threads write more than a 64 KiB file can hold, so a generation is entered.
        fill(&log, 0);
        other.join().unwrap();
        done.store(true, Ordering::SeqCst);
        background.join().unwrap();
        log.close().unwrap();
        let (found, tail) = read(&disk).unwrap();
        assert_eq!(found.len(), 24);
        assert!(tail.header.generation.0 > 1);
    });
}

#[test]
fn commits_are_logged_in_commit_number_order() {
    explore(|| {
        let disk = SimVfs::new();
        let log = Arc::new(create(disk.clone()));
        let transactions = Arc::new(TransactionTable::default());
        let sessions = [0, 1, 2].map(|_| {
            let (log, transactions) = (log.clone(), transactions.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    let transaction = transactions.begin(1);
                    let len = batch(&[record(0, 8)]).len();
                    let commit = |appender: super::stream::Appender<'_>| {
                        transactions.commit(&transaction, |number| {
                            Ok::<_, Error>(appender.append(&batch(&[record(number, 8)])).end)
                        })
                    };
                    let (_, end) = log.append_with(len, true, commit).unwrap().unwrap();
                    log.commit(end).unwrap();
                    transactions.end(&transaction);
                }
            })
        });
        sessions.into_iter().for_each(|session| session.join().unwrap());
        let number = |record: &LogRecord| match record {
            LogRecord::Trace(trace) => u64::from_le_bytes(*trace.text.first_chunk().unwrap()),
            other => panic!("{other:?}"),
        };
        let (found, _) = read(&disk).unwrap();
        let numbers: Vec<u64> = contents(&found).iter().map(number).collect();
        assert!(numbers.len() == 6 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(!transactions.any_running());
    });
}

/// Checks an invariant that the end of an instance relies on: the old owner's last write has completed before the
/// next owner begins.
#[test]
fn ending_a_stream_waits_for_all_writes_to_complete() {
    explore(|| {
        let disk = SimVfs::new();
        let log = Arc::new(create(disk.clone()));
        let durable = Arc::new(AtomicU64::new(0));
        let steps = thread::spawn({
            let (log, durable) = (log.clone(), durable.clone());
            move || {
                let appended = log.append(&batch(&[record(1, 20)]));
                if let Ok(end) = appended.and_then(|appended| log.flush(appended.end).map(|()| appended.end))
                {
                    durable.store(end.to_u64(), Ordering::SeqCst);
                }
            }
        });
        let commits = thread::spawn({
            let log = log.clone();
            move || drop(log.append(&batch(&[record(2, 20)])).and_then(|appended| log.commit(appended.end)))
        });
        log.stop();
        let at_end = log.durable();
        steps.join().unwrap();
        commits.join().unwrap();
        assert_eq!(log.durable(), at_end);
        assert!(durable.load(Ordering::SeqCst) <= at_end.to_u64());
    });
}
