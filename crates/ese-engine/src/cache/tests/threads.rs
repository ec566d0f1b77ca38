//! Many sessions on a tiny cache, against a model.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const PAGES: u32 = 120;
const SESSIONS: u64 = 8;

fn hammer(cache_pages: usize, with_cleaner: bool, operations: u64) {
    let bench = Bench::new(cache_pages, PAGES, true);
    if with_cleaner {
        bench.cache.start_threads().unwrap();
    }
    let model: Vec<AtomicU64> = (0..=PAGES).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let (bench, model) = (&bench, &model);
            scope.spawn(move || {
                let mut seed = session << 32;
                for _ in 0..operations {
                    seed += 1;
                    let random = crate::mix::mix(seed);
                    let page = random as u32 % PAGES + 1;
                    let key = bench.key(page);
                    match random >> 32 & 15 {
                        0..7 => {
                            let latch = bench.cache.fetch(key).unwrap().read();
                            assert_eq!(disk::value(&latch), model[page as usize].load(Ordering::SeqCst));
                        }
                        7 => bench.cache.preread(&[
                            key,
                            bench.key(page % PAGES + 1),
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
    for page in 1..=PAGES {
        assert_eq!(bench.disk.value(page), model[page as usize].load(Ordering::SeqCst), "page {page}");
    }
    bench.cache.detach(bench.file).unwrap();
    let counters = bench.cache.counters();
    assert_eq!((counters.available, counters.clean), (counters.frames, 0), "every frame came back");
}

#[test]
fn sessions_without_a_cleaner_lose_nothing() {
    hammer(32, false, 4000);
}

#[test]
fn sessions_with_a_cleaner_lose_nothing() {
    hammer(48, true, 4000);
}

#[test]
fn sessions_that_miss_the_same_page_cause_one_read() {
    let bench = Bench::new(64, 50, true);
    std::thread::scope(|scope| {
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
