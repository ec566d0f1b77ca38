//! The write-ahead rule, the ledger, reading ahead, creation, memory.

use super::disk::{self, SIZE};
use super::*;
use crate::Error;
use ese_format::page::{Page, PageFlags};
use jetcell_sync::atomic::Ordering;

#[test]
fn pages_are_read_once_and_then_found() {
    let bench = Bench::new(32, 10, false);
    assert_eq!((bench.value(3), bench.value(3)), (0, 0));
    assert_eq!(*bench.disk.reads.lock(), [3]);
    let counters = bench.cache.counters();
    assert_eq!((counters.requests, counters.hits, counters.faults), (2, 1, 1));
    assert!(bench.cache.resident(bench.key(3)).is_some() && bench.cache.resident(bench.key(4)).is_none());
}

#[test]
fn a_flush_writes_log_and_undo_before_pages_and_everything_ends_clean() {
    let bench = Bench::new(64, 40, false);
    for page in 1..=30 {
        if page % 3 == 0 {
            bench.set_with_undo(page, 100 + u64::from(page));
        } else {
            bench.set(page, 100 + u64::from(page));
        }
    }
    bench.cache.flush_file(bench.file).unwrap();
    assert!((1..=30).all(|page| bench.disk.value(page) == 100 + u64::from(page)));
    assert_eq!(bench.cache.oldest_dirty(bench.file), None);
    assert_eq!(bench.cache.counters().dirty, 0);
    assert_eq!(bench.log.undo_logged.lock().len(), 10);
    let runs = bench.disk.writes.lock().clone();
    assert_eq!(runs.iter().map(|(_, pages)| pages).sum::<usize>(), 30);
    assert_eq!(bench.cache.counters().coalesced_written, 30 - runs.len() as u64);
    bench.cache.detach(bench.file).unwrap();
    assert!(bench.cache.fetch(bench.key(1)).is_err());
}

#[test]
fn undo_of_an_ended_transaction_is_not_logged() {
    let bench = Bench::new(32, 10, false);
    let undo = bench.set_with_undo(1, 5);
    crate::cache::DeferredUndo::log(&*undo).unwrap();
    let tip = bench.log.tip();
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(bench.log.tip(), tip);
}

#[test]
fn a_committed_change_is_written_behind_its_commit_record() {
    let bench = Bench::new(32, 10, false);
    let undo = bench.set_with_undo(1, 5);
    let commit = bench.log.append();
    undo.commit(commit);
    let behind = bench.log.append();
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(bench.disk.value(1), 5);
    let durable = crate::cache::WriteAhead::durable(&*bench.log);
    assert!((commit..behind).contains(&durable), "without its commit recovery would undo the change");
}

#[test]
fn undo_that_could_not_be_logged_is_logged_before_the_next_attempt_writes() {
    let bench = Bench::new(32, 10, false);
    bench.set_with_undo(1, 5);
    bench.log.refuse_undo.store(true, Ordering::SeqCst);
    assert!(matches!(bench.cache.flush_file(bench.file), Err(Error::DiskFull { .. })));
    assert_eq!(bench.disk.value(1), 0);
    bench.log.refuse_undo.store(false, Ordering::SeqCst);
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(bench.disk.value(1), 5);
}

#[test]
fn a_page_that_changes_while_the_log_is_flushed_is_written() {
    let bench = Arc::new(Bench::new(32, 10, false));
    let before = bench.log.tip();
    bench.set(3, 1);
    let (weak, mut value) = (Arc::downgrade(&bench), 1);
    *bench.log.meanwhile.lock() = Some(Box::new(move || {
        value += 1;
        weak.upgrade().unwrap().set(3, value);
    }));
    for round in 1..=9 {
        assert_eq!(bench.cache.write_below(bench.file, LogPosition::MAX, 9).unwrap(), 1);
        assert_eq!(bench.disk.value(3), round, "as it was when it was copied");
    }
    bench.cache.sync_file(bench.file).unwrap();
    assert!(bench.cache.oldest_dirty(bench.file) > Some(before));
    *bench.log.meanwhile.lock() = None;
}

#[test]
fn a_page_whose_log_cannot_be_flushed_stays_dirty_and_can_be_written_later() {
    let bench = Bench::new(32, 10, false);
    let before = bench.log.tip();
    bench.set(3, 7);
    bench.log.refuse_flush.store(true, Ordering::SeqCst);
    assert!(bench.cache.write_below(bench.file, LogPosition::MAX, 9).is_err());
    assert_eq!((bench.disk.value(3), bench.cache.oldest_dirty(bench.file)), (0, Some(before)));
    bench.log.refuse_flush.store(false, Ordering::SeqCst);
    for _ in 0..100 {
        bench.set(3, 8);
        assert_eq!(bench.cache.write_below(bench.file, LogPosition::MAX, 9).unwrap(), 1);
    }
    assert_eq!((bench.disk.value(3), bench.cache.dirty_pages(bench.file)), (8, 0));
}

#[test]
fn a_written_page_counts_until_the_sync() {
    let bench = Bench::new(32, 10, false);
    let before = bench.log.tip();
    bench.set(1, 7);
    let later = bench.log.tip();
    bench.set(2, 8);
    assert_eq!(bench.cache.oldest_dirty(bench.file), Some(before));
    assert_eq!(bench.cache.write_below(bench.file, later, 10).unwrap(), 1);
    assert_eq!(bench.disk.value(1), 7, "page 1 is written, page 2 is not old enough");
    assert_eq!(bench.cache.oldest_dirty(bench.file), Some(before));
    bench.cache.sync_file(bench.file).unwrap();
    assert_eq!(bench.cache.oldest_dirty(bench.file), Some(later));
    assert_eq!(bench.cache.write_below(bench.file, later, 10).unwrap(), 0);
}

#[test]
fn a_page_changed_during_its_write_stays_dirty_and_is_not_written_twice_at_once() {
    let bench = Bench::new(32, 10, false);
    bench.set(1, 7);
    bench.disk.hold.store(true, Ordering::SeqCst);
    assert_eq!(bench.cache.write_below(bench.file, LogPosition::MAX, 10).unwrap(), 1);
    let again = bench.log.tip();
    bench.set(1, 9);
    assert_eq!(bench.cache.write_below(bench.file, LogPosition::MAX, 10).unwrap(), 0);
    bench.disk.release();
    assert_eq!((bench.disk.value(1), bench.cache.dirty_pages(bench.file)), (7, 1));
    bench.cache.sync_file(bench.file).unwrap();
    assert_eq!(bench.cache.oldest_dirty(bench.file), Some(again));
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(bench.disk.value(1), 9);
}

#[test]
fn each_write_of_a_page_carries_the_next_flush_type() {
    let bench = Bench::new(32, 10, false);
    let types: Vec<u32> = (1..=5)
        .map(|value| {
            bench.set(1, value);
            bench.cache.flush_file(bench.file).unwrap();
            (Page::new(&bench.disk.stored(1), SIZE).flags() & PageFlags::FLUSH_TYPE).bits() >> 15
        })
        .collect();
    assert_eq!(types, [1, 2, 3, 1, 2]);
}

#[test]
fn a_latched_page_is_passed_over_by_background_writes() {
    let bench = Bench::new(32, 10, false);
    bench.set(1, 1);
    bench.set(2, 2);
    let latch = bench.cache.fetch(bench.key(1)).unwrap().write();
    assert_eq!(bench.cache.write_below(bench.file, LogPosition::MAX, 10).unwrap(), 1);
    drop(latch);
    assert_eq!(bench.cache.write_below(bench.file, LogPosition::MAX, 10).unwrap(), 1);
}

#[test]
fn adjacent_pages_are_read_ahead_together_and_waited_for() {
    let bench = Bench::new(64, 60, false);
    bench.disk.hold.store(true, Ordering::SeqCst);
    bench.cache.preread(&[8, 4, 5, 6, 30].map(|page| bench.key(page)));
    assert!(bench.cache.resident(bench.key(5)).is_none());
    jetcell_sync::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.value(5));
        while bench.cache.counters().preread_stalls == 0 {
            jetcell_sync::thread::yield_now();
        }
        bench.disk.release();
        assert_eq!(waiting.join().unwrap(), 0);
    });
    assert!([4, 5, 6, 8, 30].iter().all(|page| bench.cache.resident(bench.key(*page)).is_some()));
    let counters = bench.cache.counters();
    assert_eq!((counters.prereads, counters.faults, counters.preread_stalls), (5, 0, 1));
    assert_eq!(bench.disk.reads.lock().len(), 5);
}

#[test]
fn a_created_page_needs_no_read_and_is_read_if_it_was_never_changed() {
    let bench = Bench::new(32, 10, false);
    let page = bench.cache.create(bench.key(2)).unwrap();
    assert!(page.read()[..40].iter().all(|byte| *byte == 0) && bench.disk.reads.lock().is_empty());
    assert!(bench.cache.resident(bench.key(2)).is_some(), "for its creator it is there");
    drop(page);
    assert!(bench.cache.resident(bench.key(2)).is_none());
    assert_eq!(bench.value(2), 0);
    assert_eq!(*bench.disk.reads.lock(), [2]);

    let mut latch = bench.cache.create(bench.key(3)).unwrap().write();
    disk::format(&mut latch, PageNumber::fixed(3));
    latch.mark_dirty(bench.log.tip());
    drop(latch);
    assert!(bench.cache.resident(bench.key(3)).is_some());
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(*bench.disk.reads.lock(), [2]);
}

#[test]
fn redo_gets_zeros_for_pages_that_never_reached_the_disk() {
    let bench = Bench::new(32, 10, false);
    bench.disk.damage(4, |page| page.fill(0));
    for page in [4, 11] {
        assert!(bench.cache.fetch(bench.key(page)).is_err());
        let pinned = bench.cache.fetch_or_zero(bench.key(page)).unwrap();
        assert!(pinned.read().iter().all(|byte| *byte == 0));
        drop(pinned);
        assert!(bench.cache.fetch(bench.key(page)).is_err(), "others are not told that it is sound");
    }
}

#[test]
fn memory_stays_within_the_limit_whatever_the_size_of_the_database() {
    let bench = Bench::new(64, 5000, false);
    for page in 1..=5000 {
        if page % 2 == 0 {
            bench.set(page, 1);
        } else {
            bench.value(page);
        }
        if page % 50 == 0 {
            bench.cache.preread(&(page..page + 8).map(|page| bench.key(page.min(5000))).collect::<Vec<_>>());
        }
        let counters = bench.cache.counters();
        assert!(counters.resident_bytes <= counters.max_bytes && counters.max_bytes == 64 * 4096);
    }
    bench.cache.flush_file(bench.file).unwrap();
    assert!((1..=5000).all(|page| bench.disk.value(page) == u64::from(page % 2 == 0)));
}

#[test]
fn what_the_cache_lends_holds_no_page_until_it_comes_back() {
    let bench = Bench::new(64, 200, false);
    let frames = bench.cache.counters().frames;
    let page_bytes = bench.cache.page_size().bytes();
    let lent = bench.cache.grant_memory(20 * page_bytes + 1);
    assert_eq!(lent.bytes(), 20 * page_bytes);
    for page in 1..=200 {
        bench.cache.fetch(bench.key(page)).unwrap();
    }
    assert!(bench.cache.counters().resident_bytes <= (frames - 20) * page_bytes as u64);
    drop(lent);
    assert!(bench.cache.counters().available >= 20);
    for page in 1..=200 {
        bench.cache.fetch(bench.key(page)).unwrap();
    }
    assert!(bench.cache.counters().resident_bytes > (frames - 20) * page_bytes as u64);
}

#[test]
fn when_all_pages_are_pinned_a_session_is_told_and_can_go_on_afterwards() {
    let bench = Bench::new(16, 40, false);
    let frames = bench.cache.counters().frames as u32;
    let pins: Vec<_> = (1..=frames).map(|page| bench.cache.fetch(bench.key(page)).unwrap()).collect();
    assert!(matches!(bench.cache.fetch(bench.key(frames + 1)), Err(Error::Usage(_))));
    drop(pins);
    assert_eq!(bench.value(frames + 1), 0);
}

#[test]
fn files_with_their_own_logs_share_the_cache() {
    let first = Bench::new(32, 20, false);
    let log = Arc::new(Log::default());
    let disk = Disk::new(20, log.clone(), false);
    let file = first.cache.attach(disk.clone(), log.clone());
    assert_ne!(file, first.file);
    let second = Bench { cache: first.cache.clone(), disk, log, file };
    for page in 1..=20 {
        first.set(page, 1);
        second.set(page, 2);
    }
    first.cache.flush_file(first.file).unwrap();
    assert!(second.cache.detach(file).is_err(), "dirty pages are not thrown away");
    second.cache.flush_file(file).unwrap();
    second.cache.detach(file).unwrap();
    assert!((1..=20).all(|page| first.disk.value(page) == 1 && second.disk.value(page) == 2));
    assert_eq!(first.value(7), 1);
}

#[test]
fn a_log_that_is_down_does_not_keep_the_pages_of_others_in_memory() {
    let first = Bench::new(32, 40, false);
    let log = Arc::new(Log::default());
    let disk = Disk::new(40, log.clone(), false);
    let file = first.cache.attach(disk.clone(), log.clone());
    let second = Bench { cache: first.cache.clone(), disk, log, file };
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
