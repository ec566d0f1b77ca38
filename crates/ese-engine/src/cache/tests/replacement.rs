//! Tests which pages are evicted and checks that the choice is the same in every run.

use super::*;

/// Returns the next number of a reproducible pseudorandom sequence.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    crate::splitmix::mix64(*seed)
}

#[test]
fn a_scan_does_not_displace_the_working_set() {
    for cold in [false, true] {
        let fixture = CacheFixture::new(256, 4000, false);
        let working_set: Vec<u32> = (1..=100).collect();
        // The working set is used repeatedly, with other pages in between.
        for round in 0..6 {
            working_set.iter().for_each(|page| assert_eq!(fixture.value(*page), 0));
            (0..40).for_each(|n| assert_eq!(fixture.value(3000 + round * 40 + n), 0));
        }
        for page in 200..900 {
            let key = fixture.key(page);
            if cold {
                fixture.cache.fetch_cold(key).unwrap()
            } else {
                fixture.cache.fetch(key).unwrap()
            };
        }
        let resident =
            working_set.iter().filter(|page| fixture.cache.resident(fixture.key(**page)).is_some()).count();
        assert!(resident >= 95, "{resident} of 100 pages are left (cold: {cold})");
    }
}

#[test]
fn the_history_ranks_a_page_that_is_read_again() {
    let fixture = CacheFixture::new(64, 4000, false);
    let hot = 1;
    // The page is evicted between two uses, but it is still in the history.
    for round in 0..8 {
        fixture.value(hot);
        (0..70).for_each(|n| drop(fixture.cache.fetch(fixture.key(100 + round * 70 + n)).unwrap()));
    }
    fixture.value(hot);
    (0..50).for_each(|n| drop(fixture.cache.fetch(fixture.key(1000 + n)).unwrap()));
    assert!(fixture.cache.resident(fixture.key(hot)).is_some());
}

#[test]
fn pages_that_were_popular_long_ago_are_evicted() {
    let fixture = CacheFixture::new(64, 4000, false);
    for _ in 0..20 {
        (1..=30).for_each(|page| assert_eq!(fixture.value(page), 0));
        (40..60).for_each(|page| assert_eq!(fixture.value(page), 0));
        (100..110).for_each(|page| assert_eq!(fixture.value(page), 0));
    }
    (0..1500).for_each(|n| drop(fixture.cache.fetch(fixture.key(200 + n)).unwrap()));
    let resident = (1..=30).filter(|page| fixture.cache.resident(fixture.key(*page)).is_some()).count();
    assert!(resident <= 3, "{resident} pages are still in memory");
}

#[test]
fn cleaning_steps_keep_free_frames_available_for_page_faults() {
    let fixture = CacheFixture::new(256, 2000, false);
    let mut seed = 1;
    for _ in 0..5000 {
        let page = random(&mut seed) as u32 % 2000 + 1;
        fixture.set(page, 1);
        while fixture.cache.clean_step().unwrap() > 0 {}
    }
    let counters = fixture.cache.counters();
    assert_eq!(counters.fault_stalls, 0);
    assert!(counters.written_eviction > 1000 && counters.available > 0, "{counters:?}");
}

#[test]
fn cleaning_starts_below_one_threshold_and_stops_at_another() {
    let fixture = CacheFixture::new(512, 2000, false);
    let (cache, limits) = (&fixture.cache, &fixture.cache.limits);
    // A fetch can take a clean page's frame without the help of the cleaner.
    for page in 1..=2000 {
        drop(cache.fetch(fixture.key(page)).unwrap());
        assert_eq!(
            cache.clean_step().unwrap(),
            0,
            "{} frames are available",
            cache.residents().pool().available()
        );
    }
    assert!(
        (limits.start..limits.stop).contains(&cache.residents().pool().available()),
        "{} frames",
        cache.residents().pool().available()
    );
    let mut rounds = 0;
    for page in 1..=2000 {
        fixture.set(page, 1);
        if cache.clean_step().unwrap() > 0 {
            while cache.clean_step().unwrap() > 0 {}
            assert!(
                cache.residents().pool().available() >= limits.stop,
                "{} frames are available",
                cache.residents().pool().available()
            );
            rounds += 1;
        }
    }
    assert!(rounds > 10, "{rounds} rounds");
}

#[test]
fn the_cleaner_is_notified_before_many_victims_wait_for_it() {
    let fixture = CacheFixture::new(2048, 12_000, false);
    let cache = &fixture.cache;
    let (mut seed, mut most) = (1, 0);
    for _ in 0..30_000 {
        let page = random(&mut seed) as u32 % 12_000 + 1;
        match random(&mut seed) % 8 {
            0 => drop(fixture.set(page, 1)),
            _ => drop(cache.fetch(fixture.key(page)).unwrap()),
        }
        if cache.shared.cleaner_signal.take_notification() {
            while cache.clean_step().unwrap() > 0 {}
        }
        most = most.max(cache.residents().write_candidates());
    }
    assert!(cache.counters().written_eviction > 1000, "{:?}", cache.counters());
    assert!(most < 24, "{most} pages waited to be written");
}

#[test]
fn only_sequentially_filled_pages_are_written_together() {
    let written = |page_of: fn(u32, &mut u64) -> u32| {
        let fixture = CacheFixture::new(256, 4000, false);
        let mut seed = 1;
        for number in 1..=3000 {
            fixture.set(page_of(number, &mut seed), 1);
            while fixture.cache.clean_step().unwrap() > 0 {}
        }
        let counters = fixture.cache.counters();
        assert!(counters.written_eviction > 1000, "{counters:?}");
        counters.coalesced_written * 100 / counters.written_eviction
    };
    let (in_order, at_random) =
        (written(|number, _| number), written(|_, seed| random(seed) as u32 % 4000 + 1));
    assert!(in_order > 70, "{in_order} % in the transfer of another page");
    assert!(at_random < 5, "{at_random} %");
}

#[test]
fn a_run_with_one_thread_is_deterministic() {
    let run = || {
        let fixture = CacheFixture::new(100, 1000, false);
        let mut seed = 7;
        for step in 0..6000 {
            let page = (random(&mut seed) % 1000 * (random(&mut seed) % 1000) / 1000) as u32 + 1;
            match random(&mut seed) % 8 {
                0..3 => drop(fixture.set(page, step)),
                3 => fixture.cache.preread(&[fixture.key(page), fixture.key(page % 1000 + 1)]),
                4 => drop(fixture.cache.clean_step().unwrap()),
                5 => drop(fixture.cache.write_below(fixture.file, fixture.log.tip(), 5).unwrap()),
                _ => drop(fixture.value(page)),
            }
        }
        let (reads, writes) = (fixture.disk.reads.lock().clone(), fixture.disk.writes.lock().clone());
        (reads, writes, fixture.cache.counters())
    };
    let (first, second) = (run(), run());
    assert!(first.0.len() > 1000 && first.1.len() > 500);
    assert!(first == second);
}
