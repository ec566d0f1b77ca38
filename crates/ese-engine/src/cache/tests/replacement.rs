//! What is evicted, and that it is the same every time.

use super::*;

/// A stream of numbers that repeats.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    crate::splitmix::mix64(*seed)
}

#[test]
fn a_scan_does_not_displace_the_working_set() {
    for cold in [false, true] {
        let bench = Bench::new(256, 4000, false);
        let working_set: Vec<u32> = (1..=100).collect();
        // Used again and again, with other pages in between.
        for round in 0..6 {
            working_set.iter().for_each(|page| assert_eq!(bench.value(*page), 0));
            (0..40).for_each(|n| assert_eq!(bench.value(3000 + round * 40 + n), 0));
        }
        for page in 200..900 {
            let key = bench.key(page);
            if cold {
                bench.cache.fetch_cold(key).unwrap()
            } else {
                bench.cache.fetch(key).unwrap()
            };
        }
        let kept =
            working_set.iter().filter(|page| bench.cache.resident(bench.key(**page)).is_some()).count();
        assert!(kept >= 95, "{kept} of 100 pages are left (cold: {cold})");
    }
}

#[test]
fn an_evicted_page_that_comes_back_is_known() {
    let bench = Bench::new(64, 4000, false);
    let hot = 1;
    // Too far apart for one stay in the cache to see both uses, close enough for the history.
    for round in 0..8 {
        bench.value(hot);
        (0..70).for_each(|n| drop(bench.cache.fetch(bench.key(100 + round * 70 + n)).unwrap()));
    }
    bench.value(hot);
    (0..50).for_each(|n| drop(bench.cache.fetch(bench.key(1000 + n)).unwrap()));
    assert!(bench.cache.resident(bench.key(hot)).is_some());
}

#[test]
fn popularity_fades() {
    let bench = Bench::new(64, 4000, false);
    for _ in 0..20 {
        (1..=30).for_each(|page| assert_eq!(bench.value(page), 0));
        (40..60).for_each(|page| assert_eq!(bench.value(page), 0));
        (100..110).for_each(|page| assert_eq!(bench.value(page), 0));
    }
    (0..1500).for_each(|n| drop(bench.cache.fetch(bench.key(200 + n)).unwrap()));
    let kept = (1..=30).filter(|page| bench.cache.resident(bench.key(*page)).is_some()).count();
    assert!(kept <= 3, "{kept} pages of the past are still there");
}

#[test]
fn clean_steps_keep_frames_available_so_that_faults_do_not_stall() {
    let bench = Bench::new(256, 2000, false);
    let mut seed = 1;
    for _ in 0..5000 {
        let page = random(&mut seed) as u32 % 2000 + 1;
        bench.set(page, 1);
        while bench.cache.clean_step().unwrap() > 0 {}
    }
    let counters = bench.cache.counters();
    assert_eq!(counters.fault_stalls, 0);
    assert!(counters.written_eviction > 1000 && counters.available > 0, "{counters:?}");
}

#[test]
fn the_cleaner_is_called_before_many_victims_wait_for_it() {
    let bench = Bench::new(2048, 12_000, false);
    let cache = &bench.cache;
    let (mut seed, mut most) = (1, 0);
    for _ in 0..30_000 {
        let page = random(&mut seed) as u32 % 12_000 + 1;
        match random(&mut seed) % 8 {
            0 => drop(bench.set(page, 1)),
            _ => drop(cache.fetch(bench.key(page)).unwrap()),
        }
        if cache.books.wake.answer() {
            while cache.clean_step().unwrap() > 0 {}
        }
        most = most.max(cache.wanted.lock().len());
    }
    assert!(cache.counters().written_eviction > 1000, "{:?}", cache.counters());
    assert!(most < 24, "{most} pages waited to be written");
}

#[test]
fn pages_filled_one_after_the_other_are_written_together_and_others_are_not() {
    let written = |page_of: fn(u32, &mut u64) -> u32| {
        let bench = Bench::new(256, 4000, false);
        let mut seed = 1;
        for number in 1..=3000 {
            bench.set(page_of(number, &mut seed), 1);
            while bench.cache.clean_step().unwrap() > 0 {}
        }
        let counters = bench.cache.counters();
        assert!(counters.written_eviction > 1000, "{counters:?}");
        counters.coalesced_written * 100 / counters.written_eviction
    };
    let (in_order, at_random) =
        (written(|number, _| number), written(|_, seed| random(seed) as u32 % 4000 + 1));
    assert!(in_order > 70, "{in_order} % in the transfer of another page");
    assert!(at_random < 5, "{at_random} %");
}

#[test]
fn one_thread_repeats_itself_exactly() {
    let run = || {
        let bench = Bench::new(100, 1000, false);
        let mut seed = 7;
        for step in 0..6000 {
            let page = (random(&mut seed) % 1000 * (random(&mut seed) % 1000) / 1000) as u32 + 1;
            match random(&mut seed) % 8 {
                0..3 => drop(bench.set(page, step)),
                3 => bench.cache.preread(&[bench.key(page), bench.key(page % 1000 + 1)]),
                4 => drop(bench.cache.clean_step().unwrap()),
                5 => drop(bench.cache.write_below(bench.file, bench.log.tip(), 5).unwrap()),
                _ => drop(bench.value(page)),
            }
        }
        let (reads, writes) = (bench.disk.reads.lock().clone(), bench.disk.writes.lock().clone());
        (reads, writes, bench.cache.counters())
    };
    let (first, second) = (run(), run());
    assert!(first.0.len() > 1000 && first.1.len() > 500);
    assert!(first == second);
}
