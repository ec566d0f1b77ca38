//! Damaged pages and failing devices.

use jetcell_sync::atomic::Ordering;

use super::*;
use crate::Error;

fn message(error: Error) -> String {
    assert!(matches!(error, Error::Corrupt { page: Some(_), .. }), "{error:?}");
    error.to_string()
}

#[test]
fn damage_is_named_and_the_page_is_read_again_next_time() {
    let bench = Bench::new(32, 10, false);
    let sound = bench.disk.stored(3);
    let found = |change: fn(&mut [u8])| {
        bench.disk.damage(3, change);
        let error = message(bench.cache.fetch(bench.key(3)).unwrap_err());
        bench.disk.damage(3, |page| page.copy_from_slice(&sound));
        error
    };
    assert_eq!(found(|page| page.fill(0)), "test.edb: page 3: never written, all zeros (-1019)");
    assert_eq!(
        found(|page| (200..300).for_each(|at| page[at] ^= (at * at) as u8 | 1)),
        "test.edb: page 3: wrong checksum (-1018)"
    );
    let structure = found(|page| {
        page[32..34].fill(0xff);
        ese_format::checksum::seal_page(page, PageSize::KIB_4, PageNumber::fixed(3));
    });
    assert!(structure.contains("structure is wrong"), "{structure}");
    let moved = found(|page| ese_format::checksum::seal_page(page, PageSize::KIB_4, PageNumber::fixed(9)));
    assert_eq!(moved, "test.edb: page 3: holds page 9 (-1118)");
    assert_eq!(bench.value(3), 0);
}

#[test]
fn a_flipped_bit_is_repaired_and_counted() {
    let bench = Bench::new(32, 10, false);
    bench.disk.damage(3, |page| page[500] ^= 4);
    assert_eq!(bench.value(3), 0);
    assert_eq!(bench.cache.counters().bits_repaired, 1);
}

#[test]
fn a_bad_transfer_is_repeated_also_after_reading_ahead() {
    let bench = Bench::new(32, 10, false);
    bench.disk.bad_reads.store(2, Ordering::SeqCst);
    assert_eq!(bench.value(3), 0);
    assert_eq!(bench.cache.counters().read_retries, 2);
    bench.disk.bad_reads.store(1, Ordering::SeqCst);
    bench.cache.preread(&[bench.key(5)]);
    assert_eq!(bench.value(5), 0);
    bench.disk.bad_reads.store(100, Ordering::SeqCst);
    assert!(bench.cache.fetch(bench.key(6)).is_err());
}

#[test]
fn a_failed_read_is_reported_and_changes_nothing() {
    let bench = Bench::new(32, 10, false);
    bench.disk.fail_reads.store(true, Ordering::SeqCst);
    bench.cache.preread(&[1, 2, 3].map(|page| bench.key(page)));
    assert!(matches!(bench.cache.fetch(bench.key(1)), Err(Error::Io { .. })));
    bench.disk.fail_reads.store(false, Ordering::SeqCst);
    assert_eq!((bench.value(1), bench.value(2)), (0, 0));
    bench.set(1, 3);
    bench.cache.flush_file(bench.file).unwrap();
}

#[test]
fn after_a_failed_write_nothing_is_written_and_the_page_stays_dirty() {
    let bench = Bench::new(32, 10, false);
    bench.set(1, 3);
    bench.disk.fail_writes.store(true, Ordering::SeqCst);
    assert!(matches!(bench.cache.flush_file(bench.file), Err(Error::ReadOnly(_))));
    bench.disk.fail_writes.store(false, Ordering::SeqCst);
    assert!(matches!(bench.cache.flush_file(bench.file), Err(Error::ReadOnly(_))));
    assert!(matches!(bench.cache.write_below(bench.file, LogPosition::MAX, 9), Err(Error::ReadOnly(_))));
    assert!(matches!(bench.cache.create(bench.key(2)), Err(Error::ReadOnly(_))));
    assert!(matches!(bench.cache.check_writable(), Err(Error::ReadOnly(_))));
    assert_eq!((bench.value(1), bench.disk.value(1)), (3, 0));
    assert!(bench.cache.oldest_dirty(bench.file).is_some());
    bench.cache.detach(bench.file).unwrap();
}

#[test]
fn pages_that_cannot_be_protected_are_not_written_and_the_reason_is_told_once() {
    let bench = Bench::new(32, 10, false);
    bench.set(1, 5);
    bench.log.refuse_protection.store(true, Ordering::SeqCst);
    let Err(error @ Error::ReadOnly(_)) = bench.cache.flush_file(bench.file) else {
        panic!("it was flushed")
    };
    assert_eq!(error.to_string(), Error::ReadOnly("images: no".to_string()).to_string());
    assert_eq!((bench.disk.writes.lock().len(), bench.cache.dirty_pages(bench.file)), (0, 1));
}

#[test]
fn a_failed_sync_keeps_the_checkpoint_back_for_good() {
    let bench = Bench::new(32, 10, false);
    let first = bench.log.tip();
    bench.set(1, 3);
    bench.disk.fail_sync.store(true, Ordering::SeqCst);
    assert!(matches!(bench.cache.flush_file(bench.file), Err(Error::ReadOnly(_))));
    bench.disk.fail_sync.store(false, Ordering::SeqCst);
    assert!(matches!(bench.cache.sync_file(bench.file), Err(Error::ReadOnly(_))));
    assert_eq!(bench.cache.oldest_dirty(bench.file), Some(first));
}

#[test]
fn a_session_that_needs_room_fails_when_nothing_can_be_written() {
    let bench = Bench::new(16, 40, false);
    bench.disk.fail_writes.store(true, Ordering::SeqCst);
    let failed = (1..=40).find_map(|page| {
        let mut latch = match bench.cache.fetch(bench.key(page)) {
            Ok(page) => page.write(),
            Err(error) => return Some(error),
        };
        latch.mark_dirty(bench.log.tip());
        None
    });
    assert!(matches!(failed, Some(Error::ReadOnly(_))), "{failed:?}");
}

#[test]
fn a_discarded_file_leaves_no_trace() {
    let bench = Bench::new(32, 10, false);
    let pinned = bench.cache.fetch(bench.key(4)).unwrap();
    bench.set(4, 9);
    bench.set(5, 9);
    bench.cache.discard(bench.file).unwrap();
    assert_eq!(bench.cache.counters().dirty, 0);
    pinned.write().mark_dirty(LogPosition::MIN);
    drop(pinned);
    let other = bench.cache.attach(bench.disk.clone(), bench.log.clone());
    assert!(
        other != bench.file && bench.cache.fetch(bench.key(4)).is_err(),
        "who still has the id meets another file"
    );
    bench.attach_again();
    assert_eq!((bench.value(4), bench.value(5)), (0, 0));
    assert_eq!(bench.cache.counters().dirty, 0);
}
