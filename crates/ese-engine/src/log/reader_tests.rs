//! Streams whose files were moved about, or cannot be read, or grow while they are read.

use std::sync::Arc;

use ese_format::Generation;
use vfs::{Fault, FaultEffect, FaultTarget, FaultVfs, SimVfs, Vfs};

use super::tests::{batch, contents, create, names, options, read, record};
use super::*;
use crate::Error;

/// Appends records of 3000 bytes, each durable, until `done`.
fn fill(log: &LogStream, next: &mut u64, done: impl Fn(&LogStream) -> bool) {
    while !done(log) {
        let end = log.append(&batch(&[record(*next, 3000)])).unwrap().end;
        log.flush(end).unwrap();
        *next += 1;
    }
}

#[test]
fn an_older_current_log_does_not_replace_the_newest_archived_one() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let mut next = 0;
    fill(&log, &mut next, |log| log.tip().generation == Generation(3) && log.tip().segment > 2);
    log.settle().unwrap();
    let old = disk.contents(&names().current()).unwrap();
    fill(&log, &mut next, |log| log.tip().generation == Generation(9) && log.tip().segment > 2);
    log.settle().unwrap();
    let disk = disk.process_kill();
    let renamed = disk.clone_disk();
    renamed.rename(&names().current(), &names().archived(Generation(9))).unwrap();
    for (disk, newest) in [(renamed, Generation(9)), (disk, Generation(8))] {
        disk.put(&names().current(), &old);
        let newest = names().archived(newest);
        let whole = disk.contents(&newest).unwrap();
        match read(&disk) {
            Ok((_, tail)) => {
                // What it comes to.
                let log = LogStream::resume(options(disk.clone()), tail).unwrap();
                let begun = log.tip().generation;
                fill(&log, &mut next, |log| log.tip().generation.0 > begun.0 + 2);
                log.step().unwrap();
                let kept = disk.contents(&newest).unwrap() == whole;
                panic!("the log goes on at {begun:?}; the newest archived one is still there: {kept}");
            }
            Err(Error::Corrupt { path, what, .. }) => {
                assert!(path == names().current() && what.contains("generation 3 "), "{what}");
                assert!(what.contains(newest.to_str().unwrap()), "{what}");
            }
            Err(other) => panic!("{other}"),
        }
        assert!(disk.contents(&newest).unwrap() == whole);
        assert!(disk.contents(&names().current()).unwrap() == old);
    }
}

#[test]
fn a_generation_that_cannot_be_read_is_not_taken_for_one_that_was_not_entered() {
    let disk = SimVfs::new();
    let log = create(disk.clone());
    let mut next = 0;
    // Nobody settles, so it has no name.
    fill(&log, &mut next, |log| log.tip().segment > 2 && log.tip().generation > log.named().0);
    let disk = disk.process_kill();
    assert_eq!(read(&disk).unwrap().1.path, names().next());

    for fault in [FaultTarget::Read, FaultTarget::Open] {
        let faulty = Arc::new(FaultVfs::new(Arc::new(disk.clone())));
        faulty.inject(Fault::new(fault, FaultEffect::IoError).on_path("tmp.log"));
        let opened =
            LogReader::open(faulty.clone(), names()).map(|reader| reader.map(|reader| reader.range()));
        assert!(matches!(opened, Err(Error::Io { .. })), "{fault:?}: {opened:?}");
        assert_eq!(faulty.fired(), 1);
    }
    let (found, tail) = read(&disk).unwrap();
    assert_eq!(contents(&found), (0..next).map(|number| record(number, 3000)).collect::<Vec<_>>());
    // A header that a crash cut off is still no error.
    let cut = disk.clone_disk();
    cut.put(&names().next(), &[0; 512]);
    assert!(read(&cut).is_ok());
    LogStream::resume(options(disk.clone()), tail).unwrap();
    assert_eq!(read(&disk).unwrap().0.len(), found.len());
}
