//! Single-threaded tests of the stream: appends, generations, failures, and logs written by Windows.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::{Generation, LogPosition, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, FileStem, InjectedFault, SimVfs, Vfs};

use super::{FILE_SIZE, batch, contents, create, names, options, options_on, read, record};
use crate::Error;
use crate::log::segment_buffer::SegmentBuffer;
use crate::log::{LogNames, LogReader, LogStream, LogStreamOptions};

#[test]
fn records_of_every_size_are_read_in_log_order() {
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
fn a_commit_that_starts_a_generation_costs_one_extra_sync() {
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
fn a_stream_rejects_appends_after_a_failed_write_or_sync() {
    for target in [FaultTarget::Write, FaultTarget::Sync] {
        let disk = Arc::new(FaultVfs::new(Arc::new(SimVfs::new())));
        let log = LogStream::create(options_on(disk.clone()), Signature::default()).unwrap();
        let first = log.append(&batch(&[record(1, 10)])).unwrap().end;
        log.flush(first).unwrap();
        let durable = log.durable();
        disk.inject(
            InjectedFault::new(target, FaultEffect::IoError).for_reason(jetcell_vfs::IoReason::LogWrite),
        );
        let second = log.append(&batch(&[record(2, 10)])).unwrap().end;
        for result in [log.flush(second), log.flush(second), log.append(&batch(&[record(3, 10)])).map(|_| ())]
        {
            let Err(error @ Error::ReadOnly(_)) = result else { panic!("{target:?}: {result:?}") };
            assert_eq!(error.to_string().matches("read-only").count(), 1, "{error}");
            let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
            assert!(causes.any(<dyn std::error::Error>::is::<Arc<std::io::Error>>), "{error:?}");
        }
        assert_eq!(log.durable(), durable);
        log.flush(first).unwrap();
    }
}

#[test]
fn logs_below_the_checkpoint_are_overwritten_or_removed() {
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
    // The tail is in a reused file, and one more file may be prepared.
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

/// An interrupted backup may resume from logs that the checkpoint no longer needs. If these logs still exist, they
/// must be retained for it.
#[test]
fn a_hold_keeps_released_logs_that_are_not_yet_reused() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let fill = || {
        for number in 0..60 {
            let end = log.append(&batch(&[record(number, 3000)])).unwrap().end;
            log.flush(end).unwrap();
        }
    };
    fill();
    log.name_generation().unwrap();
    log.truncate_below(log.tail().generation).unwrap();
    let oldest = archived(&disk)[0];
    let hold = log.hold(Generation(oldest));
    fill();
    log.truncate_below(log.tail().generation).unwrap();
    fill();
    assert_eq!(archived(&disk)[0], oldest);
    drop(hold);
    log.truncate_below(log.tail().generation).unwrap();
    fill();
    assert!(archived(&disk)[0] > oldest);
}

/// Returns the generations of the archived logs, in order.
fn archived(disk: &SimVfs) -> Vec<u32> {
    let paths = disk.list(Path::new("/log")).unwrap();
    let mut found: Vec<u32> =
        paths.iter().filter_map(|path| names().generation_of(path)).map(|generation| generation.0).collect();
    found.sort_unstable();
    found
}

#[test]
fn a_failed_rename_or_removal_leaves_no_gap_in_the_archived_logs() {
    let (rename, remove) = (FaultTarget::Rename, FaultTarget::Remove);
    for (target, path) in [(rename, "E000"), (rename, "E00.log"), (rename, "E00tmp"), (remove, "E000")] {
        for skipped in [0, 1, 2] {
            let disk = SimVfs::new();
            let faulty = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
            let options = LogStreamOptions { retained_files: 2, ..options_on(faulty.clone()) };
            let log = LogStream::create(options, Signature::default()).unwrap();
            let fault =
                InjectedFault::new(target, FaultEffect::IoError).on_path(path).after_operations(skipped);
            faulty.inject(fault);
            let mut failures = 0;
            for number in 0..400 {
                if number % 60 == 59 {
                    failures += u32::from(log.truncate_below(log.tail().generation).is_err());
                }
                while let Err(error) = log.append(&batch(&[record(number, 3000)])) {
                    failures += 1;
                    assert!(failures < 9, "{error}");
                }
                failures += u32::from(log.step().is_err());
                let kept = archived(&disk);
                assert!(
                    kept.windows(2).all(|two| two[0] + 1 == two[1]),
                    "{target:?} {path} {skipped}: {kept:?}"
                );
            }
            assert!(failures > 0 && faulty.fired_count() == 1, "{target:?} {path} {skipped}");
            log.close().unwrap();
            assert!(contents(&read(&disk).unwrap().0).ends_with(&[record(399, 3000)]));
        }
    }
}

#[test]
fn a_batch_larger_than_half_a_log_file_is_rejected() {
    let log = create(SimVfs::new());
    let half = FILE_SIZE as usize / SEGMENT_BYTES / 2;
    let mut refused = 0;
    for len in (half - 3) * SEGMENT_BYTES..(half + 1) * SEGMENT_BYTES {
        // Appending a record of each length would take too long.
        let needed = SegmentBuffer::segments_for(len);
        match log.append_with(len, false, |_| ()) {
            Ok(()) => assert!(needed <= half, "{len} bytes"),
            Err(Error::Usage(_)) => {
                assert!(needed > half, "{len} bytes");
                refused += 1;
            }
            Err(error) => panic!("{len} bytes: {error}"),
        }
    }
    assert!(refused > 0);
}

#[test]
fn file_work_covers_preparing_files_and_naming_generations() {
    let log = create(SimVfs::new());
    let has_work = || log.wait_for_file_work(Duration::ZERO);
    let mut generation = log.tail().generation;
    for number in 0..40 {
        assert!(log.prepare_files().unwrap());
        assert!(!has_work(), "a file is prepared");
        log.request_name_generation();
        assert!(has_work(), "a name is requested");
        assert!(log.prepare_files().unwrap() && !has_work());
        let end = log.append(&batch(&[record(number, 5000)])).unwrap().end;
        log.flush(end).unwrap();
        assert_eq!(has_work(), end.generation > generation, "the prepared file is in use");
        generation = end.generation;
    }
    assert!(generation > Generation(3));
}

#[test]
fn a_rollover_closes_the_generation_unless_the_generation_is_empty() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    log.roll_over().unwrap();
    assert_eq!(log.tail().generation, Generation(1));
    log.append(&batch(&[record(1, 10)])).unwrap();
    log.roll_over().unwrap();
    log.roll_over().unwrap();
    assert_eq!(log.tail(), LogPosition::new(2, 1, 40));
    assert!(disk.exists(&names().archived(Generation(1))).unwrap());
    assert!(disk.exists(&names().current()).unwrap());
    log.append(&batch(&[record(2, 10)])).unwrap();
    log.close().unwrap();
    assert_eq!(contents(&read(&disk).unwrap().0), [record(1, 10), record(2, 10)]);
}

#[test]
fn a_log_from_ese_continues_in_a_new_generation() {
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
    let names = LogNames::new(Path::new("/log"), FileStem::new("SRU").unwrap());
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
    let log =
        LogStream::resume(LogStreamOptions { names: names.clone(), ..options(disk.clone()) }, tail).unwrap();
    log.append(&batch(&[record(1, 10)])).unwrap();
    log.close().unwrap();
    let (range, more, tail) = count(&disk);
    assert_eq!((range.1, more, tail.marked), (Generation(6), records + 2, true), "the record and filler");
}
