//! Tests of reading streams whose files were moved, cannot be read, or grow while they are being read.

use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, InjectedFault, SimVfs, Vfs};

use super::{batch, contents, create, names, options, read, record};
use crate::log::{LogReader, LogStream, PositionedRecord};
use crate::{Corruption, Error};

/// Appends records of 3000 bytes and makes each of them durable, until `done` returns true.
fn fill(log: &LogStream, next: &mut u64, done: impl Fn(&LogStream) -> bool) {
    while !done(log) {
        let end = log.append(&batch(&[record(*next, 3000)])).unwrap().end;
        log.flush(end).unwrap();
        *next += 1;
    }
}

#[test]
fn an_older_current_log_does_not_replace_the_newest_archive() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let mut next = 0;
    fill(&log, &mut next, |log| log.tail().generation == Generation(3) && log.tail().segment > 2);
    log.name_generation().unwrap();
    let old = disk.contents(&names().current()).unwrap();
    fill(&log, &mut next, |log| log.tail().generation == Generation(9) && log.tail().segment > 2);
    log.name_generation().unwrap();
    let disk = disk.process_kill();
    let renamed = disk.clone_disk();
    renamed.rename(&names().current(), &names().archived(Generation(9))).unwrap();
    for (disk, newest) in [(renamed, Generation(9)), (disk, Generation(8))] {
        disk.put(&names().current(), &old);
        let newest = names().archived(newest);
        let whole = disk.contents(&newest).unwrap();
        match read(&disk) {
            Ok((_, tail)) => {
                // The log was wrongly accepted. The panic message tells how the stream continues in this situation.
                let log = LogStream::resume(options(disk.clone()), tail).unwrap();
                let begun = log.tail().generation;
                fill(&log, &mut next, |log| log.tail().generation.0 > begun.0 + 2);
                log.step().unwrap();
                let kept = disk.contents(&newest).unwrap() == whole;
                panic!("the log goes on at {begun:?}; the newest archived one is still there: {kept}");
            }
            Err(Error::Corrupt { path, fault, .. }) => {
                let Corruption::NotNewestLog { found, archived, .. } = &fault else { panic!("{fault}") };
                assert_eq!((path, *found, archived), (names().current(), Generation(3), &newest));
            }
            Err(other) => panic!("{other}"),
        }
        assert!(disk.contents(&newest).unwrap() == whole);
        assert!(disk.contents(&names().current()).unwrap() == old);
    }
}

#[test]
fn an_unreadable_prepared_log_file_is_reported_as_an_error() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let mut next = 0;
    // The last generation does not have its final name.
    fill(&log, &mut next, |log| log.tail().segment > 2 && log.tail().generation > log.named_generation().0);
    let disk = disk.process_kill();
    assert_eq!(read(&disk).unwrap().1.path, names().next());

    for fault in [FaultTarget::Read, FaultTarget::Open] {
        let faulty = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
        faulty.inject(InjectedFault::new(fault, FaultEffect::IoError).on_path("tmp.log"));
        let opened =
            LogReader::open(faulty.clone(), names()).map(|reader| reader.map(|reader| reader.range()));
        assert!(matches!(opened, Err(Error::Io { .. })), "{fault:?}: {opened:?}");
        assert_eq!(faulty.fired_count(), 1);
    }
    let (found, tail) = read(&disk).unwrap();
    assert_eq!(contents(&found), (0..next).map(|number| record(number, 3000)).collect::<Vec<_>>());
    // A header that a crash truncated is not an error.
    let cut = disk.clone_disk();
    cut.put(&names().next(), &[0; 512]);
    assert!(read(&cut).is_ok());
    LogStream::resume(options(disk.clone()), tail).unwrap();
    assert_eq!(read(&disk).unwrap().0.len(), found.len());
}

/// Recovery may read the end of the log a second time after the stream has been resumed. By then the files have other
/// names and more records, and a write may be in progress.
#[test]
fn a_second_read_returns_the_same_records_after_a_resume() {
    for unnamed in [false, true] {
        let disk = SimVfs::new();
        let log = create(disk.clone());
        let mut next = 0;
        fill(&log, &mut next, |log| log.tail().generation.0 == 3 && log.tail().segment > 5);
        if unnamed {
            fill(&log, &mut next, |log| {
                log.tail().segment == 4 && log.tail().generation > log.named_generation().0
            });
        } else {
            log.name_generation().unwrap();
        }
        let disk = disk.process_kill();
        let reader = LogReader::open(Arc::new(disk.clone()), names()).unwrap().unwrap();
        let from = LogPosition::new(2, 3, 0);
        let mut first = Vec::new();
        let keep = |kept: &mut Vec<PositionedRecord>, record| {
            kept.push(record);
            Ok(())
        };
        let tail = reader.read_from(from, |record| keep(&mut first, record)).unwrap();
        assert_eq!(tail.path == names().next(), unnamed);
        let (generation, end) = (tail.header.generation, tail.next_segment);
        reader.pin_tail(&tail).unwrap();
        let again = || {
            let mut again = Vec::new();
            reader.read_to_pinned_tail(from, |record| keep(&mut again, record)).unwrap();
            let [first, again] = [&first, &again].map(|records| {
                records.iter().map(|one| (one.start, one.end, one.bytes.clone())).collect::<Vec<_>>()
            });
            assert!(first == again, "unnamed: {unnamed}");
        };
        let log = LogStream::resume(options(disk.clone()), tail).unwrap();
        again();
        fill(&log, &mut next, |log| log.tail().generation > generation);
        again();
        fill(&log, &mut next, |log| log.tail().generation.0 > generation.0 + 1 && log.tail().segment > 2);
        log.name_generation().unwrap();
        again();
        // Simulates a read during a write: a segment is missing although the next one exists.
        let archived = names().archived(generation);
        disk.corrupt(&archived, u64::from(end + 1) * 4096, &[0; 4096]).unwrap();
        assert!(read(&disk).is_err());
        again();
        // Records can be read by position, regardless of how many files are open.
        let last = first.iter().rfind(|record| record.start.generation == generation).unwrap();
        assert_eq!(reader.read_record(last.start, last.end).unwrap(), last.bytes);
        let damaged = u64::from(end - 1) * 4096 + 600;
        disk.corrupt(&archived, damaged, &[0xA5; 64]).unwrap();
        assert!(reader.read_to_pinned_tail(from, |_| Ok(())).is_err());
    }
}

/// An operator removes the current log manually, leaving the older logs. The checkpoint may then be after these logs.
#[test]
fn a_stream_without_the_newest_log_is_rejected() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    fill(&log, &mut 0, |log| log.tail().generation == Generation(3) && log.tail().segment > 2);
    log.close().unwrap();
    disk.remove(&names().current()).unwrap();
    let error = read(&disk).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, Error::LogMissing { path, generation: Generation(3) } if *path == names().current()),
        "{error}"
    );
}
