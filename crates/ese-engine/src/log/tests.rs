//! The stream on a disk that loses power, fills up, fails or is shared by threads; and logs that Windows wrote.

use std::path::Path;
use std::time::Duration;

use ese_format::log::header::LogHeader;
use ese_format::log::record::{LogRecord, Trace};
use ese_format::page::PageFlags;
use ese_format::{Generation, LogPosition, LogTime, PageSize, Signature};
use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use jetcell_sync::{Arc, mpsc};
use jetcell_vfs::{CrashOptions, Fault, FaultEffect, FaultTarget, FaultVfs, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::btree::tests::create_tree;
use crate::transaction::ActiveTransaction;
use crate::{CreateOptions, Error, Result};

const FILE_SIZE: u32 = 64 << 10;

pub(super) fn names() -> LogNames {
    LogNames::new(Path::new("/log"), "E00")
}

pub(super) fn options(vfs: impl Vfs + 'static) -> LogOptions {
    options_on(Arc::new(vfs))
}

fn options_on(vfs: Arc<dyn Vfs>) -> LogOptions {
    LogOptions {
        vfs,
        names: names(),
        file_size: FILE_SIZE,
        page_size: 32768,
        circular: false,
        retained_files: 8,
    }
}

pub(super) fn create(vfs: impl Vfs + 'static) -> LogStream {
    LogStream::create(options(vfs), Signature::new(7, LogTime::NONE)).unwrap()
}

/// A record that can be told from others, of about `len` bytes.
pub(super) fn record(number: u64, len: usize) -> LogRecord {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let mut text = number.to_le_bytes().to_vec();
    text.extend((0..len).map(|_| random.random::<u8>()));
    LogRecord::Trace(Trace { procid: 1, text })
}

pub(super) fn batch(records: &[LogRecord]) -> RecordBatch {
    let mut batch = RecordBatch::new();
    records.iter().for_each(|record| batch.push(record));
    batch
}

/// Everything in the log but filler.
pub(super) fn read(vfs: &SimVfs) -> Result<(Vec<StoredRecord>, LogTail)> {
    let reader = LogReader::open(Arc::new(vfs.clone()), names())?.expect("there is a log");
    let mut records = Vec::new();
    let tail = reader.read_from(LogPosition::new(reader.range().0.0, 1, 0), |record| {
        if !matches!(LogRecord::decode(&record.bytes), Ok((LogRecord::Nop2(_), _))) {
            records.push(record);
        }
        Ok(())
    })?;
    Ok((records, tail))
}

pub(super) fn contents(records: &[StoredRecord]) -> Vec<LogRecord> {
    records.iter().map(|record| LogRecord::decode(&record.bytes).unwrap().0).collect()
}

#[test]
fn records_of_every_size_come_back_in_order_and_place() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let mut expected = Vec::new();
    for number in 0..300 {
        let records = [record(number, (number * 37 % 5000) as usize), record(number + 1000, 3)];
        let appended = log.append(&batch(&records)).unwrap();
        if number % 7 == 0 {
            log.flush(appended.end).unwrap();
            assert!(log.durable() >= appended.end);
        }
        expected.push((appended, records));
    }
    log.close().unwrap();
    let (found, tail) = read(&disk).unwrap();
    assert!(tail.header.generation > Generation(5), "several files");
    assert_eq!(found.len(), 600);
    for ((appended, records), found) in expected.iter().zip(found.chunks(2)) {
        assert_eq!((found[0].start, found[1].end), (appended.start, appended.end));
        assert_eq!(contents(found), records[..2]);
    }
}

#[test]
fn after_any_power_cut_a_prefix_with_everything_durable_is_there_and_the_stream_goes_on() {
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut disk = SimVfs::new();
        let mut log = create(disk.clone());
        let mut written: Vec<LogRecord> = Vec::new();
        for life in 0..4u64 {
            disk.stop_after(disk.operations() + random.random_range(0..120));
            // Records of which a flush returned; a cut may keep more, in order.
            let mut durable = written.len();
            for number in 0.. {
                let largest = if random.random_bool(0.1) { 9000 } else { 600 };
                let new: Vec<LogRecord> = (0..random.random_range(1..4))
                    .map(|part| {
                        record(seed << 40 | life << 32 | number << 4 | part, random.random_range(0..largest))
                    })
                    .collect();
                let Ok(appended) = log.append(&batch(&new)) else { break };
                written.extend(new);
                let done = match random.random_range(0..10) {
                    0..4 => log.flush(appended.end),
                    4 => log.step(),
                    5 if random.random_bool(0.2) => log.roll(),
                    _ => continue,
                };
                if done.is_err() {
                    break;
                }
                durable = written.len();
            }
            disk = match random.random_bool(0.2) {
                true => disk.process_kill(),
                false => disk.crash(seed ^ life << 20, CrashOptions::default()),
            };
            let (found, tail) = read(&disk).unwrap_or_else(|e| panic!("seed {seed}, life {life}: {e}"));
            let found = contents(&found);
            assert!(found.len() >= durable, "seed {seed}, life {life}: {} of {durable}", found.len());
            assert!(
                written.len() >= found.len() && found.iter().zip(&written).all(|(a, b)| a == b),
                "seed {seed}"
            );
            written.truncate(found.len());
            log = LogStream::resume(options(disk.clone()), tail).unwrap();
        }
    }
}

/// Every operation of entering a generation and settling it, cut off with every outcome of the name changes: what was
/// durable is there, and the stream goes on from what is found, under the right names.
#[test]
fn a_generation_may_be_entered_with_any_names_and_cut_off_anywhere() {
    let (mut begun, mut half_named) = (0, 0);
    // Without retired files a new one is made, with some an old one is written over.
    for retired in [Generation(0), Generation(3)] {
        let run = |cut: Option<u64>| {
            let disk = SimVfs::new();
            let log = create(disk.clone());
            let mut durable = 0;
            let mut append = |number: u64| -> Result<()> {
                let end = log.append(&batch(&[record(number, 3000)]))?.end;
                log.flush(end)?;
                durable = number + 1;
                Ok(())
            };
            (0..40).for_each(|number| append(number).unwrap());
            log.name_generation().unwrap();
            log.truncate_below(retired).unwrap();
            let before = (log.tail().generation, disk.operations());
            disk.stop_after(cut.map_or(u64::MAX, |cut| before.1 + cut));
            let done = (40..60).try_for_each(|number| match number % 5 {
                0 => append(number).and_then(|()| log.step()),
                _ => append(number),
            });
            assert!(cut.is_some() || (done.is_ok() && log.tail().generation.0 >= before.0.0 + 2));
            (disk.clone(), durable, disk.operations() - before.1)
        };
        for cut in 0..run(None).2 {
            let (disk, durable, _) = run(Some(cut));
            for seed in 0..12 {
                let name = [0.0, 0.5, 1.0][seed as usize % 3];
                let options_of_crash = CrashOptions { lose_name: name, ..CrashOptions::default() };
                let disk = disk.crash(seed, options_of_crash);
                let context = format!("retired {retired:?}, cut {cut}, seed {seed}");
                let (found, tail) = read(&disk).unwrap_or_else(|e| panic!("{context}: {e}"));
                // From where generations that were written over leave it.
                let number_of = |found: &LogRecord| (0..60).find(|&number| *found == record(number, 3000));
                let found = contents(&found);
                let first = number_of(&found[0]).unwrap();
                let end = first + found.len() as u64;
                assert!(
                    (first..end).zip(&found).all(|(number, found)| *found == record(number, 3000)),
                    "{context}"
                );
                assert!(end >= durable, "{context}: {end} of {durable}");
                begun += u32::from(tail.path == names().next());
                half_named +=
                    u32::from(tail.path == names().next() && !disk.exists(&names().current()).unwrap());
                let log = LogStream::resume(options(disk.clone()), tail).unwrap();
                let kept = disk.crash(seed, CrashOptions { lose_name: 1.0, ..CrashOptions::default() });
                assert!(
                    kept.exists(&names().current()).unwrap() || log.tail().generation.0 == 1,
                    "{context}"
                );
                let end = log.append(&batch(&[record(1000, 3000)])).unwrap().end;
                log.flush(end).unwrap();
                let after = contents(&read(&disk.crash(seed, CrashOptions::default())).unwrap().0);
                assert_eq!(after.len(), found.len() + 1, "{context}");
            }
        }
    }
    assert!(begun > 100 && half_named > 10, "{begun} logs found by their header, {half_named} alone");
}

#[test]
fn a_commit_that_begins_a_generation_costs_one_write_and_sync_more() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let mut most = 0;
    for number in 0..100 {
        log.step().unwrap();
        let end = log.append(&batch(&[record(number, 9000)])).unwrap().end;
        let before = disk.operations();
        log.flush(end).unwrap();
        most = most.max(disk.operations() - before);
    }
    assert!(log.counters().generations > 5);
    assert_eq!(most, 4, "the end of one generation and the begin of the next");
}

#[test]
fn an_acknowledged_write_that_the_disk_lost_is_reported() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let append = |number| {
        let end = log.append(&batch(&[record(number, 5000)])).unwrap().end;
        log.flush(end).unwrap();
    };
    append(1);
    disk.lose_writes("/log", 1);
    append(2);
    assert_eq!(read(&disk).unwrap().0.len(), 1, "nothing tells yet");
    append(3);
    let error = read(&disk).unwrap_err();
    assert!(error.to_string().contains("acknowledged"), "{error}");
}

#[test]
fn damage_a_missing_generation_and_a_foreign_log_are_told_apart() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    for number in 0..100 {
        log.append(&batch(&[record(number, 3000)])).unwrap();
        log.step().unwrap();
    }
    assert!(read(&disk).is_ok());
    let second = names().archived(Generation(2));
    let damaged = disk.clone_disk();
    damaged.corrupt(&second, 4096 * 5 + 600, &[1, 2, 3, 4, 5, 6]).unwrap();
    assert!(matches!(read(&damaged), Err(Error::Corrupt { path, .. }) if path == second));
    let gap = disk.clone_disk();
    gap.remove(&second).unwrap();
    assert!(matches!(read(&gap), Err(Error::LogsMissing { required: (Generation(2), _), .. })));
    let foreign = disk.clone_disk();
    let bytes = disk.contents(&second).unwrap();
    let header =
        LogHeader { signature: Signature::new(8, LogTime::NONE), ..LogHeader::decode(&bytes).unwrap() };
    foreign.corrupt(&second, 0, &header.encode()).unwrap();
    assert!(read(&foreign).unwrap_err().to_string().contains("another log stream"));
    let flipped = disk.clone_disk();
    flipped.flip_bit(&second, 8 * (4096 * 5 + 600)).unwrap();
    assert_eq!(read(&flipped).unwrap().0.len(), 100, "one flipped bit is put right");
}

#[test]
fn a_torn_tail_is_taken_from_its_shadow_and_written_back() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    for number in 0..3 {
        let end = log.append(&batch(&[record(number, 100)])).unwrap().end;
        log.flush(end).unwrap();
    }
    disk.corrupt(&names().current(), 3 * 4096 + 512, &[7; 511]).unwrap();
    let (found, tail) = read(&disk).unwrap();
    assert_eq!((found.len(), tail.next_segment), (3, 4));
    LogStream::resume(options(disk.clone()), tail).unwrap();
    let (found, tail) = read(&disk).unwrap();
    assert!(found.len() == 3 && tail.repaired.is_empty());
}

#[test]
fn a_full_disk_refuses_appends_but_lets_transactions_end() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    log.step().unwrap();
    let reserves = || (1..=16).filter(|&number| disk.exists(&names().reserve(number)).unwrap()).count();
    let all = reserves();
    assert!(all >= 2);
    disk.set_capacity(disk.used());
    let big = batch(&[record(1, 3000)]);
    let mut accepted = 0;
    let refused = loop {
        match log.append(&big) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100, "two files hold fewer");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    for _ in 0..20 {
        log.append_privileged(&big).unwrap();
        accepted += 1;
    }
    log.flush(log.tail()).unwrap();
    log.step().unwrap();
    assert!(reserves() < all, "a reserve log was used");
    let refused = loop {
        match log.append(&big) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    disk.set_capacity(disk.used() + 10 * u64::from(FILE_SIZE));
    log.step().unwrap();
    assert_eq!(reserves(), all, "reserves are restored");
    log.append(&big).unwrap();
    log.close().unwrap();
    assert_eq!(read(&disk).unwrap().0.len(), accepted + 1);
}

/// As a kill while one is made leaves them, or a stream with larger files.
#[test]
fn reserve_logs_of_another_size_are_not_used() {
    let half = FILE_SIZE as usize / 2;
    for odd in [0, half, 2 * half + 4096, 4 * half] {
        for later in [false, true] {
            let disk = SimVfs::new();
            let put = |numbers: std::ops::RangeInclusive<u32>| {
                numbers.for_each(|number| disk.put(&names().reserve(number), &vec![7; odd]));
            };
            if !later {
                put(1..=16);
            }
            let log = create(disk.clone());
            let whole = (1..=16).filter(|&number| {
                disk.contents(&names().reserve(number)).is_some_and(|bytes| bytes.len() == FILE_SIZE as usize)
            });
            assert_eq!(whole.count(), 16, "{odd}: reserves are restored");
            if later {
                put(10..=16);
            }
            disk.set_capacity(disk.used());
            for number in 0..60 {
                log.append_privileged(&batch(&[record(number, 3000)])).unwrap();
            }
            log.flush(log.tail()).unwrap();
            let (found, _) = read(&disk.process_kill()).unwrap_or_else(|e| panic!("{odd}: {e}"));
            assert_eq!(found.len(), 60, "{odd}");
        }
    }
}

#[test]
fn after_a_failed_write_or_sync_nothing_is_accepted_any_more() {
    for target in [FaultTarget::Write, FaultTarget::Sync] {
        let disk = Arc::new(FaultVfs::new(Arc::new(SimVfs::new())));
        let log = LogStream::create(options_on(disk.clone()), Signature::default()).unwrap();
        let first = log.append(&batch(&[record(1, 10)])).unwrap().end;
        log.flush(first).unwrap();
        let durable = log.durable();
        disk.inject(Fault::new(target, FaultEffect::IoError).for_reason(jetcell_vfs::IoReason::LogWrite));
        let second = log.append(&batch(&[record(2, 10)])).unwrap().end;
        for result in [log.flush(second), log.flush(second), log.append(&batch(&[record(3, 10)])).map(|_| ())]
        {
            let Err(error @ Error::ReadOnly(_)) = result else { panic!("{target:?}: {result:?}") };
            assert_eq!(error.to_string().matches("read-only").count(), 1, "{error}");
        }
        assert_eq!(log.durable(), durable);
        log.flush(first).unwrap();
    }
}

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
                    // Some stop for a while, and are waited for in vain.
                    match thread % 4 {
                        0 => log.flush(end).unwrap(),
                        1 if number % 16 == 0 => {
                            jetcell_sync::thread::sleep(std::time::Duration::from_millis(2))
                        }
                        _ => log.commit(end).unwrap(),
                    }
                    assert!(log.durable() >= end || thread % 4 == 1);
                }
            });
        }
        scope.spawn(|| (0..50).for_each(|_| log.step().unwrap()));
        scope.spawn(|| (0..5).for_each(|_| log.roll().unwrap()));
    });
    let counters = log.counters();
    assert_eq!(counters.records, 1600);
    let (found, _) = read(&disk).unwrap();
    assert_eq!(found.len(), 1600);
    let number = |stored: &StoredRecord| match LogRecord::decode(&stored.bytes) {
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
fn files_are_formatted_while_records_come() {
    let disk = SimVfs::new();
    let log = &create(disk.clone());
    let done = &AtomicBool::new(false);
    let expected: Vec<LogRecord> = (0..3000).map(|number| record(number, 2000)).collect();
    jetcell_sync::thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                match log.wait_for_segments(Duration::from_millis(1)) {
                    true => log.write_full().unwrap(),
                    false => log.step().unwrap(),
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
fn logs_below_the_checkpoint_are_reused_or_removed() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let fill = |from: u64| {
        for number in from..from + 60 {
            let end = log.append(&batch(&[record(number, 3000)])).unwrap().end;
            log.flush(end).unwrap();
        }
    };
    let range = || LogReader::open(Arc::new(disk.clone()), names()).unwrap().unwrap().range();
    let kept = || range().1.0 - range().0.0;
    fill(0);
    let generation = log.tail().generation;
    assert!((4..8).contains(&generation.0), "fewer than are kept: {generation:?}");
    log.truncate_below(generation).unwrap();
    assert_eq!(kept(), generation.0 - 1, "nothing is removed");
    fill(60);
    // The tail lies in a file that was used before, and one file may be prepared.
    assert!(range().1 > generation && kept() < generation.0, "{:?}", range());
    let (found, _) = read(&disk).unwrap();
    assert!(contents(&found).ends_with(&[record(119, 3000)]));
    for round in 2..5 {
        fill(60 * round);
    }
    assert!(kept() > 8);
    log.truncate_below(Generation(u32::MAX)).unwrap();
    assert_eq!(kept(), 8, "the current log stays, and those to be written over");
    fill(300);
    assert!(contents(&read(&disk).unwrap().0).ends_with(&[record(359, 3000)]));
}

#[test]
fn a_roll_ends_the_generation_and_an_empty_one_stays() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    log.roll().unwrap();
    assert_eq!(log.tail().generation, Generation(1));
    log.append(&batch(&[record(1, 10)])).unwrap();
    log.roll().unwrap();
    log.roll().unwrap();
    assert_eq!(log.tail(), LogPosition::new(2, 1, 40));
    assert!(
        disk.exists(&names().archived(Generation(1))).unwrap() && disk.exists(&names().current()).unwrap()
    );
    log.append(&batch(&[record(2, 10)])).unwrap();
    log.close().unwrap();
    assert_eq!(contents(&read(&disk).unwrap().0), [record(1, 10), record(2, 10)]);
}

#[test]
fn a_log_of_ese_is_continued_in_a_new_generation() {
    let Some(corpus) = testkit::corpus::Corpus::locate() else { return };
    let disk = SimVfs::new();
    for (name, stored) in [
        ("SRU00002.log", "b/SRUtmp.log"),
        ("SRU00003.log", "b/SRU00003.log"),
        ("SRU00004.log", "b/SRU00004.log"),
        ("SRU.log", "b/SRU.log"),
    ] {
        disk.put(&Path::new("/log").join(name), &corpus.read(&format!("logsets/srum-server2022/{stored}")));
    }
    let names = LogNames::new(Path::new("/log"), "SRU");
    let count = |disk: &SimVfs| {
        let reader = LogReader::open(Arc::new(disk.clone()), names.clone()).unwrap().unwrap();
        let mut count = 0;
        let tail = reader.read_from(LogPosition::new(2, 1, 0), |_| {
            count += 1;
            Ok(())
        });
        (reader.range(), count, tail.unwrap())
    };
    let (range, records, tail) = count(&disk);
    assert_eq!(range, (Generation(2), Generation(5)));
    assert!(records > 100 && tail.next_segment == 7 && !tail.marked);
    let log = LogStream::resume(LogOptions { names: names.clone(), ..options(disk.clone()) }, tail).unwrap();
    log.append(&batch(&[record(1, 10)])).unwrap();
    log.close().unwrap();
    let (range, more, tail) = count(&disk);
    assert_eq!((range.1, more, tail.marked), (Generation(6), records + 2, true), "the record and filler");
}

#[test]
fn sessions_begin_while_a_commit_waits_for_the_disk() {
    let instance = crate::btree::tests::open(&SimVfs::new(), PageSize::KIB_4, 256).unwrap();
    let db = instance.create_database(Path::new("/db/test.edb"), &CreateOptions::default()).unwrap();
    let tree = create_tree(&instance, &db, PageFlags::empty());
    let (core, commits) = (instance.core(), AtomicU64::new(0));
    jetcell_sync::thread::scope(|scope| {
        // No write of the log ends, as if the device did not answer.
        let device = core.log().head.lock();
        scope.spawn(|| {
            let mut session = ActiveTransaction::new(core.clone(), 1);
            for number in 0..2000_u32 {
                session.begin().unwrap();
                // Far longer than the commit record, so that it is the commit that finds the buffer full.
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

/// Others may open its files when it has ended.
#[test]
fn a_stream_ends_when_its_last_write_has_and_touches_no_file_afterwards() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let end = log.append(&batch(&[record(1, 100)])).unwrap().end;
    jetcell_sync::thread::scope(|scope| {
        // No write of the log ends, as if the device did not answer.
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
        log.roll(),
        log.name_generation(),
        log.prepare_next(true),
        log.truncate_below(Generation(1)),
    ];
    assert!(refused.iter().all(|result| matches!(result, Err(Error::ReadOnly(_)))), "{refused:?}");
    log.restore_reserves();
    assert_eq!(disk.operations(), operations);
    assert_eq!(read(&disk).unwrap().0.len(), 1);
}
