//! Runs many sessions on a tiny cache and compares the result with a model.

use jetcell_sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::cache::CacheCounters;

const SESSIONS: u64 = 8;

/// Whether most changes are recorded as deltas.
#[derive(Clone, Copy, PartialEq)]
enum ChangeRecording {
    Deltas,
    Whole,
}

fn hammer(
    cache_pages: usize,
    pages: u32,
    with_cleaner: bool,
    changes: ChangeRecording,
    operations: u64,
) -> CacheCounters {
    let fixture = CacheFixture::new(cache_pages, pages, true);
    if with_cleaner {
        fixture.cache.start_threads().unwrap();
    }
    let model: Vec<AtomicU64> = (0..=pages).map(|_| AtomicU64::new(0)).collect();
    jetcell_sync::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let (fixture, model) = (&fixture, &model);
            scope.spawn(move || {
                let mut seed = session << 32;
                for _ in 0..operations {
                    seed += 1;
                    let random = crate::splitmix::mix64(seed);
                    let page = random as u32 % pages + 1;
                    let key = fixture.key(page);
                    match random >> 32 & 15 {
                        0..7 => {
                            let latch = fixture.cache.fetch(key).unwrap().read();
                            assert_eq!(disk::value(&latch), model[page as usize].load(Ordering::SeqCst));
                        }
                        7 => fixture.cache.preread(&[
                            key,
                            fixture.key(page % pages + 1),
                            fixture.key(random as u32 % 7 + 1),
                        ]),
                        8 => drop(fixture.cache.write_below(fixture.file, fixture.log.tip(), 4).unwrap()),
                        9 => drop(fixture.cache.clean_step().unwrap()),
                        10 if random >> 60 == 0 => fixture.cache.flush_file(fixture.file).unwrap(),
                        11 if random >> 62 == 0 => fixture.cache.sync_file(fixture.file).unwrap(),
                        other => {
                            let mut latch = fixture.cache.fetch(key).unwrap().write();
                            let value = model[page as usize].fetch_add(1, Ordering::SeqCst) + 1;
                            assert_eq!(disk::value(&latch), value - 1, "page {page} lost a change");
                            if changes == ChangeRecording::Deltas && other < 14 {
                                fixture.apply_delta_latched(&mut latch, value);
                                continue;
                            }
                            latch.mark_dirty(fixture.log.tip());
                            let end = fixture.log.append();
                            let undo = (other == 15).then(|| fixture.log.undo());
                            disk::set_value(&mut latch, value, end, undo.as_ref().map_or(0, |undo| undo.id));
                            undo.into_iter().for_each(|undo| latch.defer_undo(undo));
                            latch.set_last(end);
                        }
                    }
                }
            });
        }
    });
    fixture.cache.shutdown();
    fixture.cache.flush_file(fixture.file).unwrap();
    let counters = fixture.cache.counters();
    assert_eq!((counters.dirty, fixture.cache.oldest_dirty(fixture.file)), (0, None));
    assert!(counters.resident_bytes <= counters.max_bytes);
    assert!(counters.evictions > 100, "{counters:?}");
    for page in 1..=pages {
        assert_eq!(fixture.disk.value(page), model[page as usize].load(Ordering::SeqCst), "page {page}");
    }
    fixture.cache.detach(fixture.file).unwrap();
    let after = fixture.cache.counters();
    let for_deltas = fixture.cache.shared.deltas.frames() as u64;
    assert_eq!((after.available + for_deltas, after.clean), (after.frames, 0), "every frame is free");
    counters
}

#[test]
fn sessions_without_a_cleaner_lose_no_changes() {
    hammer(32, 120, false, ChangeRecording::Whole, 4000);
}

#[test]
fn sessions_with_a_cleaner_lose_no_changes() {
    hammer(48, 120, true, ChangeRecording::Whole, 4000);
}

#[test]
fn sessions_lose_no_changes_when_pages_are_evicted_with_deltas() {
    let counters = hammer(128, 2000, true, ChangeRecording::Deltas, 6000);
    assert!(counters.delta_evictions > 1000, "{counters:?}");
}

#[test]
fn sessions_that_miss_the_same_page_cause_one_read() {
    let fixture = CacheFixture::new(64, 50, true);
    jetcell_sync::thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| (1..=50).for_each(|page| assert_eq!(fixture.value(page), 0)));
        }
    });
    assert_eq!(fixture.disk.reads.lock().len(), 50);
}

#[test]
fn the_cleaner_stops_when_the_cache_is_dropped() {
    let fixture = CacheFixture::new(32, 50, true);
    fixture.cache.start_threads().unwrap();
    fixture.cache.start_threads().unwrap();
    let weak = Arc::downgrade(&fixture.cache);
    (1..=50).for_each(|page| {
        fixture.set(page, 1);
    });
    fixture.cache.flush_file(fixture.file).unwrap();
    fixture.cache.shutdown();
    drop(fixture);
    assert!(weak.upgrade().is_none());
}
