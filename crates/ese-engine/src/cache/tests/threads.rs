//! Many sessions on a tiny cache, against a model.

use jetcell_sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::cache::CacheCounters;

const SESSIONS: u64 = 8;

/// Most changes are edits, which pages keep when they go, or none is.
#[derive(Clone, Copy, PartialEq)]
enum Changes {
    Edits,
    Whole,
}

fn hammer(
    cache_pages: usize,
    pages: u32,
    with_cleaner: bool,
    changes: Changes,
    operations: u64,
) -> CacheCounters {
    let bench = Bench::new(cache_pages, pages, true);
    if with_cleaner {
        bench.cache.start_threads().unwrap();
    }
    let model: Vec<AtomicU64> = (0..=pages).map(|_| AtomicU64::new(0)).collect();
    jetcell_sync::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let (bench, model) = (&bench, &model);
            scope.spawn(move || {
                let mut seed = session << 32;
                for _ in 0..operations {
                    seed += 1;
                    let random = crate::splitmix::mix64(seed);
                    let page = random as u32 % pages + 1;
                    let key = bench.key(page);
                    match random >> 32 & 15 {
                        0..7 => {
                            let latch = bench.cache.fetch(key).unwrap().read();
                            assert_eq!(disk::value(&latch), model[page as usize].load(Ordering::SeqCst));
                        }
                        7 => bench.cache.preread(&[
                            key,
                            bench.key(page % pages + 1),
                            bench.key(random as u32 % 7 + 1),
                        ]),
                        8 => drop(bench.cache.write_below(bench.file, bench.log.tip(), 4).unwrap()),
                        9 => drop(bench.cache.clean_step().unwrap()),
                        10 if random >> 60 == 0 => bench.cache.flush_file(bench.file).unwrap(),
                        11 if random >> 62 == 0 => bench.cache.sync_file(bench.file).unwrap(),
                        other => {
                            let mut latch = bench.cache.fetch(key).unwrap().write();
                            let value = model[page as usize].fetch_add(1, Ordering::SeqCst) + 1;
                            assert_eq!(disk::value(&latch), value - 1, "page {page} lost a change");
                            if changes == Changes::Edits && other < 14 {
                                bench.edit_latched(&mut latch, value);
                                continue;
                            }
                            latch.mark_dirty(bench.log.tip());
                            let end = bench.log.append();
                            let undo = (other == 15).then(|| bench.log.undo());
                            disk::set_value(&mut latch, value, end, undo.as_ref().map_or(0, |undo| undo.id));
                            undo.into_iter().for_each(|undo| latch.defer_undo(undo));
                            latch.set_last(end);
                        }
                    }
                }
            });
        }
    });
    bench.cache.shutdown();
    bench.cache.flush_file(bench.file).unwrap();
    let counters = bench.cache.counters();
    assert_eq!((counters.dirty, bench.cache.oldest_dirty(bench.file)), (0, None));
    assert!(counters.resident_bytes <= counters.max_bytes);
    assert!(counters.evictions > 100, "{counters:?}");
    for page in 1..=pages {
        assert_eq!(bench.disk.value(page), model[page as usize].load(Ordering::SeqCst), "page {page}");
    }
    bench.cache.detach(bench.file).unwrap();
    let after = bench.cache.counters();
    let for_edits = bench.cache.books.kept.lent() as u64;
    assert_eq!((after.available + for_edits, after.clean), (after.frames, 0), "every frame came back");
    counters
}

#[test]
fn sessions_without_a_cleaner_lose_nothing() {
    hammer(32, 120, false, Changes::Whole, 4000);
}

#[test]
fn sessions_with_a_cleaner_lose_nothing() {
    hammer(48, 120, true, Changes::Whole, 4000);
}

#[test]
fn sessions_whose_pages_go_and_come_back_with_their_edits_lose_nothing() {
    let counters = hammer(128, 2000, true, Changes::Edits, 6000);
    assert!(counters.delta_evictions > 1000, "{counters:?}");
}

#[test]
fn sessions_that_miss_the_same_page_cause_one_read() {
    let bench = Bench::new(64, 50, true);
    jetcell_sync::thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| (1..=50).for_each(|page| assert_eq!(bench.value(page), 0)));
        }
    });
    assert_eq!(bench.disk.reads.lock().len(), 50);
}

#[test]
fn the_cleaner_stops_with_its_cache() {
    let bench = Bench::new(32, 50, true);
    bench.cache.start_threads().unwrap();
    bench.cache.start_threads().unwrap();
    let weak = Arc::downgrade(&bench.cache);
    (1..=50).for_each(|page| {
        bench.set(page, 1);
    });
    bench.cache.flush_file(bench.file).unwrap();
    bench.cache.shutdown();
    drop(bench);
    assert!(weak.upgrade().is_none());
}
