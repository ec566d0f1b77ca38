//! Tests of files that are discarded while a writer is about to write their pages.

use std::time::Duration;

use jetcell_sync::atomic::Ordering;

use super::*;

#[test]
fn a_discard_waits_for_a_writer_that_waits_for_the_log() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set(3, 7);
    let gate = fixture.log.gate.lock();
    let (early, written_by_then) = jetcell_sync::thread::scope(|scope| {
        let writer = scope.spawn(|| fixture.cache.write_below(fixture.file, LogPosition::MAX, 9));
        while fixture.log.flushes.load(Ordering::SeqCst) == 0 {
            jetcell_sync::thread::yield_now();
        }
        let discard = scope.spawn(|| {
            fixture.cache.discard(fixture.file).unwrap();
            fixture.disk.writes.lock().len()
        });
        jetcell_sync::thread::sleep(Duration::from_millis(100));
        let early = discard.is_finished();
        drop(gate);
        let written_by_then = discard.join().unwrap();
        writer.join().unwrap().unwrap();
        (early, written_by_then)
    });
    assert!(!early, "the log is still being flushed for a page of the file");
    assert_eq!(fixture.disk.writes.lock().len(), written_by_then, "a page was written after the discard");
    assert_eq!(fixture.cache.counters().dirty, 0);
}

#[test]
fn a_writer_that_starts_after_the_discard_writes_nothing() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set(3, 7);
    let attached = fixture.cache.shared.file(fixture.file).unwrap();
    // The first step of a discard: the file is still attached, and its pages are dirty.
    attached.in_flight.close();
    assert_eq!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 9).unwrap(), 0);
    assert_eq!(fixture.log.flushes.load(Ordering::SeqCst), 0, "nothing is written to its log");
    fixture.cache.discard(fixture.file).unwrap();
    assert!(attached.in_flight.enter().is_none(), "the file stays closed");
    fixture.attach_again();
    fixture.set(3, 8);
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(fixture.disk.value(3), 8);
}
