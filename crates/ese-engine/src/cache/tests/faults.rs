//! Tests of damaged pages and failing devices.

use ese_format::page::Page;
use jetcell_sync::atomic::Ordering;

use super::*;
use crate::error::FailedOperation;
use crate::{Error, InstanceFailure};

fn message(error: Error) -> String {
    assert!(matches!(error, Error::Corrupt { page: Some(_), .. }), "{error:?}");
    error.to_string()
}

#[test]
fn damage_is_reported_and_the_next_fetch_reads_the_page_again() {
    let fixture = CacheFixture::new(32, 10, false);
    let sound = fixture.disk.stored(3);
    let found = |change: fn(&mut [u8])| {
        fixture.disk.damage(3, change);
        let error = message(fixture.cache.fetch(fixture.key(3)).unwrap_err());
        fixture.disk.damage(3, |page| page.copy_from_slice(&sound));
        error
    };
    assert_eq!(found(|page| page.fill(0)), "test.edb: page 3: never written (all zeros) (-1019)");
    assert_eq!(
        found(|page| (200..300).for_each(|at| page[at] ^= (at * at) as u8 | 1)),
        "test.edb: page 3: wrong checksum (-1018)"
    );
    let structure = found(|page| {
        page[32..34].fill(0xff);
        ese_format::checksum::seal_page(page, PageSize::KIB_4, PageNumber::fixed(3));
    });
    assert!(structure.contains("structure is invalid"), "{structure}");
    let moved = found(|page| ese_format::checksum::seal_page(page, PageSize::KIB_4, PageNumber::fixed(9)));
    assert_eq!(moved, "test.edb: page 3: contains page 9 (-1118)");
    assert_eq!(fixture.value(3), 0);
}

/// Only pages that were returned to the file system read as unused. Zeros on other pages are damage.
#[test]
fn zeros_from_a_hole_are_read_as_an_unused_page() {
    let fixture = CacheFixture::new(32, 10, false);
    [3, 4].into_iter().for_each(|page| fixture.disk.damage(page, |bytes| bytes.fill(0)));
    fixture.cache.shared.file(fixture.file).unwrap().released.add(3, 3);
    let hole = fixture.cache.fetch(fixture.key(3)).unwrap().read();
    assert_eq!(Page::new(&hole, PageSize::KIB_4).node_count(), 0);
    drop(hole);
    assert!(message(fixture.cache.fetch(fixture.key(4)).unwrap_err()).contains("never written"));
}

#[test]
fn a_flipped_bit_is_repaired_and_counted() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.disk.damage(3, |page| page[500] ^= 4);
    assert_eq!(fixture.value(3), 0);
    assert_eq!(fixture.cache.counters().bits_repaired, 1);
}

#[test]
fn a_bad_transfer_is_retried_even_after_read_ahead() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.disk.bad_reads.store(2, Ordering::SeqCst);
    assert_eq!(fixture.value(3), 0);
    assert_eq!(fixture.cache.counters().read_retries, 2);
    fixture.disk.bad_reads.store(1, Ordering::SeqCst);
    fixture.cache.preread(&[fixture.key(5)]);
    assert_eq!(fixture.value(5), 0);
    fixture.disk.bad_reads.store(100, Ordering::SeqCst);
    assert!(fixture.cache.fetch(fixture.key(6)).is_err());
}

#[test]
fn a_failed_read_is_reported_and_changes_nothing() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.disk.fail_reads.store(true, Ordering::SeqCst);
    fixture.cache.preread(&[1, 2, 3].map(|page| fixture.key(page)));
    assert!(matches!(fixture.cache.fetch(fixture.key(1)), Err(Error::Io { .. })));
    fixture.disk.fail_reads.store(false, Ordering::SeqCst);
    assert_eq!((fixture.value(1), fixture.value(2)), (0, 0));
    fixture.set(1, 3);
    fixture.cache.flush_file(fixture.file).unwrap();
}

#[test]
fn a_failed_write_stops_all_writes_and_keeps_pages_dirty() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set(1, 3);
    fixture.disk.fail_writes.store(true, Ordering::SeqCst);
    assert!(matches!(fixture.cache.flush_file(fixture.file), Err(Error::ReadOnly(_))));
    fixture.disk.fail_writes.store(false, Ordering::SeqCst);
    assert!(matches!(fixture.cache.flush_file(fixture.file), Err(Error::ReadOnly(_))));
    assert!(matches!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 9), Err(Error::ReadOnly(_))));
    assert!(matches!(fixture.cache.create(fixture.key(2)), Err(Error::ReadOnly(_))));
    assert!(matches!(fixture.cache.check_writable(), Err(Error::ReadOnly(_))));
    assert_eq!((fixture.value(1), fixture.disk.value(1)), (3, 0));
    assert!(fixture.cache.oldest_dirty(fixture.file).is_some());
    fixture.cache.detach(fixture.file).unwrap();
}

#[test]
fn unprotected_pages_are_not_written_and_the_error_states_why() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set(1, 5);
    fixture.log.refuse_protection.store(true, Ordering::SeqCst);
    let Err(error @ Error::ReadOnly(_)) = fixture.cache.flush_file(fixture.file) else {
        panic!("it was flushed")
    };
    assert_eq!(error.to_string(), Error::ReadOnly(InstanceFailure::NoPreparedLog).to_string());
    assert_eq!((fixture.disk.writes.lock().len(), fixture.cache.dirty_pages(fixture.file)), (0, 1));
}

#[test]
fn a_failed_sync_holds_the_checkpoint_permanently() {
    let fixture = CacheFixture::new(32, 10, false);
    let first = fixture.log.tip();
    fixture.set(1, 3);
    fixture.disk.fail_sync.store(true, Ordering::SeqCst);
    assert!(matches!(fixture.cache.flush_file(fixture.file), Err(Error::ReadOnly(_))));
    fixture.disk.fail_sync.store(false, Ordering::SeqCst);
    assert!(matches!(fixture.cache.sync_file(fixture.file), Err(Error::ReadOnly(_))));
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(first));
}

#[test]
fn a_frame_request_fails_when_no_page_can_be_written() {
    let fixture = CacheFixture::new(16, 40, false);
    fixture.disk.fail_writes.store(true, Ordering::SeqCst);
    let failed = (1..=40).find_map(|page| {
        let mut latch = match fixture.cache.fetch(fixture.key(page)) {
            Ok(page) => page.write(),
            Err(error) => return Some(error),
        };
        latch.mark_dirty(fixture.log.tip());
        None
    });
    assert!(matches!(failed, Some(Error::ReadOnly(_))), "{failed:?}");
}

#[test]
fn a_discarded_file_leaves_no_pages_or_changes() {
    let fixture = CacheFixture::new(32, 10, false);
    let pinned = fixture.cache.fetch(fixture.key(4)).unwrap();
    fixture.set(4, 9);
    fixture.set(5, 9);
    fixture.cache.discard(fixture.file).unwrap();
    assert_eq!(fixture.cache.counters().dirty, 0);
    pinned.write().mark_dirty(LogPosition::MIN);
    drop(pinned);
    let other = fixture.cache.attach(fixture.disk.clone(), fixture.log.clone());
    assert!(
        other != fixture.file && fixture.cache.fetch(fixture.key(4)).is_err(),
        "the old id is not reused at once"
    );
    fixture.attach_again();
    assert_eq!((fixture.value(4), fixture.value(5)), (0, 0));
    assert_eq!(fixture.cache.counters().dirty, 0);
}

#[test]
fn the_error_of_a_failed_instance_has_the_advice_of_the_failure() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.cache.fail(
        Error::DiskFull { path: "a.edb".into(), advice: None }.cause().during(FailedOperation::SyncFiles),
    );
    let error = fixture.cache.check_writable().unwrap_err();
    assert_eq!(
        error.full_text(),
        "instance is read-only after a failure: failed to make the files durable: a.edb: the disk is full, and nothing was \
         changed; free some space and retry"
    );
}

#[test]
fn no_page_is_written_after_a_failure_outside_the_cache() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set(1, 7);
    fixture.cache.check_writable().unwrap();
    fixture.cache.fail(InstanceFailure::NoPreparedLog);
    fixture.cache.fail(InstanceFailure::Ended);
    let error = fixture.cache.check_writable().unwrap_err();
    assert!(matches!(error, Error::ReadOnly(InstanceFailure::NoPreparedLog)), "{error}");
    assert!(fixture.cache.flush_file(fixture.file).is_err());
    assert_eq!((fixture.disk.value(1), fixture.value(1)), (0, 7));
    fixture.cache.detach(fixture.file).unwrap();
}
