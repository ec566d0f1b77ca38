//! Tests of the write-ahead rule, the dirty page table, read-ahead, creation of pages, and memory limits.

use super::disk::{self, SIZE};
use super::*;
use crate::Error;
use ese_format::page::{Page, PageFlags};
use jetcell_sync::atomic::Ordering;

#[test]
fn a_page_is_read_once_and_then_found_in_memory() {
    let fixture = CacheFixture::new(32, 10, false);
    assert_eq!((fixture.value(3), fixture.value(3)), (0, 0));
    assert_eq!(*fixture.disk.reads.lock(), [3]);
    let counters = fixture.cache.counters();
    assert_eq!((counters.requests, counters.hits, counters.faults), (2, 1, 1));
    assert!(
        fixture.cache.resident(fixture.key(3)).is_some() && fixture.cache.resident(fixture.key(4)).is_none()
    );
}

#[test]
fn a_flush_writes_log_and_undo_before_pages_and_leaves_all_pages_clean() {
    let fixture = CacheFixture::new(64, 40, false);
    for page in 1..=30 {
        if page % 3 == 0 {
            fixture.set_with_undo(page, 100 + u64::from(page));
        } else {
            fixture.set(page, 100 + u64::from(page));
        }
    }
    fixture.cache.flush_file(fixture.file).unwrap();
    assert!((1..=30).all(|page| fixture.disk.value(page) == 100 + u64::from(page)));
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), None);
    assert_eq!(fixture.cache.counters().dirty, 0);
    assert_eq!(fixture.log.undo_logged.lock().len(), 10);
    let runs = fixture.disk.writes.lock().clone();
    assert_eq!(runs.iter().map(|(_, pages)| pages).sum::<usize>(), 30);
    assert_eq!(fixture.cache.counters().coalesced_written, 30 - runs.len() as u64);
    fixture.cache.detach(fixture.file).unwrap();
    assert!(fixture.cache.fetch(fixture.key(1)).is_err());
}

#[test]
fn undo_for_a_completed_transaction_is_not_logged() {
    let fixture = CacheFixture::new(32, 10, false);
    let undo = fixture.set_with_undo(1, 5);
    crate::cache::DeferredUndo::log(&*undo).unwrap();
    let tip = fixture.log.tip();
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(fixture.log.tip(), tip);
}

#[test]
fn a_committed_change_is_written_after_its_commit_record() {
    let fixture = CacheFixture::new(32, 10, false);
    let undo = fixture.set_with_undo(1, 5);
    let commit = fixture.log.append();
    undo.commit(commit);
    let behind = fixture.log.append();
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(fixture.disk.value(1), 5);
    let durable = crate::cache::WriteAhead::durable(&*fixture.log);
    assert!((commit..behind).contains(&durable), "without its commit recovery would undo the change");
}

#[test]
fn undo_that_could_not_be_logged_is_logged_before_the_page_is_written() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set_with_undo(1, 5);
    fixture.log.refuse_undo.store(true, Ordering::SeqCst);
    assert!(matches!(fixture.cache.flush_file(fixture.file), Err(Error::DiskFull { .. })));
    assert_eq!(fixture.disk.value(1), 0);
    fixture.log.refuse_undo.store(false, Ordering::SeqCst);
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(fixture.disk.value(1), 5);
}

#[test]
fn a_page_that_changes_while_the_log_is_flushed_is_written() {
    let fixture = Arc::new(CacheFixture::new(32, 10, false));
    let before = fixture.log.tip();
    fixture.set(3, 1);
    let (weak, mut value) = (Arc::downgrade(&fixture), 1);
    *fixture.log.during_flush.lock() = Some(Box::new(move || {
        value += 1;
        weak.upgrade().unwrap().set(3, value);
    }));
    for round in 1..=9 {
        assert_eq!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 9).unwrap(), 1);
        assert_eq!(fixture.disk.value(3), round, "the state that was copied");
    }
    fixture.cache.sync_file(fixture.file).unwrap();
    assert!(fixture.cache.oldest_dirty(fixture.file) > Some(before));
    *fixture.log.during_flush.lock() = None;
}

#[test]
fn a_page_whose_log_cannot_be_flushed_stays_dirty_and_can_be_written_later() {
    let fixture = CacheFixture::new(32, 10, false);
    let before = fixture.log.tip();
    fixture.set(3, 7);
    fixture.log.refuse_flush.store(true, Ordering::SeqCst);
    assert!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 9).is_err());
    assert_eq!((fixture.disk.value(3), fixture.cache.oldest_dirty(fixture.file)), (0, Some(before)));
    fixture.log.refuse_flush.store(false, Ordering::SeqCst);
    for _ in 0..100 {
        fixture.set(3, 8);
        assert_eq!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 9).unwrap(), 1);
    }
    assert_eq!((fixture.disk.value(3), fixture.cache.dirty_pages(fixture.file)), (8, 0));
}

#[test]
fn a_written_page_holds_the_checkpoint_until_the_sync() {
    let fixture = CacheFixture::new(32, 10, false);
    let before = fixture.log.tip();
    fixture.set(1, 7);
    let later = fixture.log.tip();
    fixture.set(2, 8);
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(before));
    assert_eq!(fixture.cache.write_below(fixture.file, later, 10).unwrap(), 1);
    assert_eq!(fixture.disk.value(1), 7, "page 1 is written, page 2 is not old enough");
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(before));
    fixture.cache.sync_file(fixture.file).unwrap();
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(later));
    assert_eq!(fixture.cache.write_below(fixture.file, later, 10).unwrap(), 0);
}

#[test]
fn a_page_changed_during_a_write_is_not_written_concurrently() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set(1, 7);
    fixture.disk.hold.store(true, Ordering::SeqCst);
    assert_eq!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 10).unwrap(), 1);
    let again = fixture.log.tip();
    fixture.set(1, 9);
    assert_eq!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 10).unwrap(), 0);
    fixture.disk.release();
    assert_eq!((fixture.disk.value(1), fixture.cache.dirty_pages(fixture.file)), (7, 1));
    fixture.cache.sync_file(fixture.file).unwrap();
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(again));
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(fixture.disk.value(1), 9);
}

#[test]
fn each_write_of_a_page_carries_the_next_flush_type() {
    let fixture = CacheFixture::new(32, 10, false);
    let types: Vec<u32> = (1..=5)
        .map(|value| {
            fixture.set(1, value);
            fixture.cache.flush_file(fixture.file).unwrap();
            (Page::new(&fixture.disk.stored(1), SIZE).flags() & PageFlags::FLUSH_TYPE).bits() >> 15
        })
        .collect();
    assert_eq!(types, [1, 2, 3, 1, 2]);
}

#[test]
fn background_writes_skip_a_latched_page() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.set(1, 1);
    fixture.set(2, 2);
    let latch = fixture.cache.fetch(fixture.key(1)).unwrap().write();
    assert_eq!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 10).unwrap(), 1);
    drop(latch);
    assert_eq!(fixture.cache.write_below(fixture.file, LogPosition::MAX, 10).unwrap(), 1);
}

#[test]
fn adjacent_pages_are_read_ahead_together_and_a_fetch_waits_for_them() {
    let fixture = CacheFixture::new(64, 60, false);
    fixture.disk.hold.store(true, Ordering::SeqCst);
    fixture.cache.preread(&[8, 4, 5, 6, 30].map(|page| fixture.key(page)));
    assert!(fixture.cache.resident(fixture.key(5)).is_none());
    jetcell_sync::thread::scope(|scope| {
        let waiting = scope.spawn(|| fixture.value(5));
        while fixture.cache.counters().preread_stalls == 0 {
            jetcell_sync::thread::yield_now();
        }
        fixture.disk.release();
        assert_eq!(waiting.join().unwrap(), 0);
    });
    assert!([4, 5, 6, 8, 30].iter().all(|page| fixture.cache.resident(fixture.key(*page)).is_some()));
    let counters = fixture.cache.counters();
    assert_eq!((counters.prereads, counters.faults, counters.preread_stalls), (5, 0, 1));
    assert_eq!(fixture.disk.reads.lock().len(), 5);
}

#[test]
fn a_created_page_needs_no_read_unless_it_was_never_changed() {
    let fixture = CacheFixture::new(32, 10, false);
    let page = fixture.cache.create(fixture.key(2)).unwrap();
    assert!(page.read()[..40].iter().all(|byte| *byte == 0) && fixture.disk.reads.lock().is_empty());
    assert!(fixture.cache.resident(fixture.key(2)).is_some(), "its creator has it pinned");
    drop(page);
    assert!(fixture.cache.resident(fixture.key(2)).is_none());
    assert_eq!(fixture.value(2), 0);
    assert_eq!(*fixture.disk.reads.lock(), [2]);

    let mut latch = fixture.cache.create(fixture.key(3)).unwrap().write();
    disk::format(&mut latch, PageNumber::fixed(3));
    latch.mark_dirty(fixture.log.tip());
    drop(latch);
    assert!(fixture.cache.resident(fixture.key(3)).is_some());
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(*fixture.disk.reads.lock(), [2]);
}

#[test]
fn redo_gets_zeros_for_pages_that_never_reached_the_disk() {
    let fixture = CacheFixture::new(32, 10, false);
    fixture.disk.damage(4, |page| page.fill(0));
    for page in [4, 11] {
        assert!(fixture.cache.fetch(fixture.key(page)).is_err());
        let pinned = fixture.cache.fetch_or_zero(fixture.key(page)).unwrap();
        assert!(pinned.read().iter().all(|byte| *byte == 0));
        drop(pinned);
        assert!(fixture.cache.fetch(fixture.key(page)).is_err(), "a normal fetch reports the damage");
    }
}

#[test]
fn memory_stays_within_the_limit_for_any_database_size() {
    let fixture = CacheFixture::new(64, 5000, false);
    for page in 1..=5000 {
        if page % 2 == 0 {
            fixture.set(page, 1);
        } else {
            fixture.value(page);
        }
        if page % 50 == 0 {
            fixture
                .cache
                .preread(&(page..page + 8).map(|page| fixture.key(page.min(5000))).collect::<Vec<_>>());
        }
        let counters = fixture.cache.counters();
        assert!(counters.resident_bytes <= counters.max_bytes && counters.max_bytes == 64 * 4096);
    }
    fixture.cache.flush_file(fixture.file).unwrap();
    assert!((1..=5000).all(|page| fixture.disk.value(page) == u64::from(page % 2 == 0)));
}

#[test]
fn granted_memory_caches_no_pages_until_the_grant_is_returned() {
    let fixture = CacheFixture::new(64, 200, false);
    let frames = fixture.cache.counters().frames;
    let page_bytes = fixture.cache.page_size().bytes();
    let grant = fixture.cache.grant_memory(20 * page_bytes + 1);
    assert_eq!(grant.bytes(), 20 * page_bytes);
    for page in 1..=200 {
        fixture.cache.fetch(fixture.key(page)).unwrap();
    }
    assert!(fixture.cache.counters().resident_bytes <= (frames - 20) * page_bytes as u64);
    drop(grant);
    assert!(fixture.cache.counters().available >= 20);
    for page in 1..=200 {
        fixture.cache.fetch(fixture.key(page)).unwrap();
    }
    assert!(fixture.cache.counters().resident_bytes > (frames - 20) * page_bytes as u64);
}

#[test]
fn concurrent_memory_grants_leave_half_the_frames_for_pages() {
    let fixture = CacheFixture::new(64, 200, false);
    let (frames, page_bytes) = (fixture.cache.counters().frames as usize, fixture.cache.page_size().bytes());
    let grant = || fixture.cache.grant_memory(frames / 3 * page_bytes);
    let grants: Vec<_> = (0..12).map(|_| grant()).collect();
    let granted: usize = grants.iter().map(|grant| grant.bytes() / page_bytes).sum();
    assert_eq!((grants[0].bytes(), granted), (frames / 3 * page_bytes, frames / 2));
    for page in 1..=200 {
        fixture.cache.fetch(fixture.key(page)).unwrap();
    }
}

#[test]
fn a_fetch_fails_while_all_pages_are_pinned_and_succeeds_afterwards() {
    let fixture = CacheFixture::new(16, 40, false);
    let frames = fixture.cache.counters().frames as u32;
    let pins: Vec<_> = (1..=frames).map(|page| fixture.cache.fetch(fixture.key(page)).unwrap()).collect();
    assert!(matches!(fixture.cache.fetch(fixture.key(frames + 1)), Err(Error::Usage(_))));
    drop(pins);
    assert_eq!(fixture.value(frames + 1), 0);
}

#[test]
fn files_with_their_own_logs_share_the_cache() {
    let first = CacheFixture::new(32, 20, false);
    let log = Arc::new(TestLog::default());
    let disk = TestDisk::new(20, log.clone(), false);
    let file = first.cache.attach(disk.clone(), log.clone());
    assert_ne!(file, first.file);
    let second = CacheFixture { cache: first.cache.clone(), disk, log, file };
    for page in 1..=20 {
        first.set(page, 1);
        second.set(page, 2);
    }
    first.cache.flush_file(first.file).unwrap();
    assert!(second.cache.detach(file).is_err(), "a file with dirty pages is not detached");
    second.cache.flush_file(file).unwrap();
    second.cache.detach(file).unwrap();
    assert!((1..=20).all(|page| first.disk.value(page) == 1 && second.disk.value(page) == 2));
    assert_eq!(first.value(7), 1);
}

#[test]
fn a_failed_log_does_not_block_writes_to_other_files() {
    let first = CacheFixture::new(32, 40, false);
    let log = Arc::new(TestLog::default());
    let disk = TestDisk::new(40, log.clone(), false);
    let file = first.cache.attach(disk.clone(), log.clone());
    let second = CacheFixture { cache: first.cache.clone(), disk, log, file };
    for page in 1..=5 {
        first.set(page, 1);
    }
    first.log.refuse_flush.store(true, Ordering::SeqCst);
    for page in 1..=40 {
        second.set(page, 2);
    }
    second.cache.flush_file(file).unwrap();
    assert!((1..=40).all(|page| second.disk.value(page) == 2));
    assert!(first.cache.flush_file(first.file).is_err());
}
