//! Files that leave the cache while somebody is about to write their pages.

use std::time::Duration;

use jetcell_sync::atomic::Ordering;

use super::*;

#[test]
fn a_discard_waits_for_the_writer_that_waits_for_the_log() {
    let bench = Bench::new(32, 10, false);
    bench.set(3, 7);
    let gate = bench.log.gate.lock();
    let (early, written_by_then) = jetcell_sync::thread::scope(|scope| {
        let writer = scope.spawn(|| bench.cache.write_below(bench.file, LogPosition::MAX, 9));
        while bench.log.flushes.load(Ordering::SeqCst) == 0 {
            jetcell_sync::thread::yield_now();
        }
        let discard = scope.spawn(|| {
            bench.cache.discard(bench.file).unwrap();
            bench.disk.writes.lock().len()
        });
        jetcell_sync::thread::sleep(Duration::from_millis(100));
        let early = discard.is_finished();
        drop(gate);
        let written_by_then = discard.join().unwrap();
        writer.join().unwrap().unwrap();
        (early, written_by_then)
    });
    assert!(!early, "the log is still being flushed for a page of the file");
    assert_eq!(bench.disk.writes.lock().len(), written_by_then, "a page was written after the discard");
    assert_eq!(bench.cache.counters().dirty, 0);
}

#[test]
fn who_found_the_file_before_its_discard_and_comes_to_write_afterwards_writes_nothing() {
    let bench = Bench::new(32, 10, false);
    bench.set(3, 7);
    let attached = bench.cache.books.file(bench.file).unwrap();
    // What a discard does first: the file is still found, and its pages are dirty.
    attached.in_flight.close();
    assert_eq!(bench.cache.write_below(bench.file, LogPosition::MAX, 9).unwrap(), 0);
    assert_eq!(bench.log.flushes.load(Ordering::SeqCst), 0, "its log is not written to");
    bench.cache.discard(bench.file).unwrap();
    assert!(attached.in_flight.enter().is_none(), "it stays closed to who still has it");
    bench.attach_again();
    bench.set(3, 8);
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(bench.disk.value(3), 8);
}
