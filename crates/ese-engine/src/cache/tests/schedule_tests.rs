//! Tests latches, pins and frame states under many thread schedules.

use jetcell_sync::atomic::{AtomicBool, AtomicU64};
use jetcell_sync::thread;

use super::*;
use crate::schedule_tests::explore;

/// Enough frames for pages to be evicted with their deltas.
const FRAMES: usize = 64;

impl CacheFixture {
    /// Evicts an unpinned page if its state allows an eviction.
    fn evict(&self, page: u32) -> bool {
        let Some(frame) = self.cache.page_table().pin(self.key(page)).map(|page| page.shared_frame().clone())
        else {
            return false;
        };
        let evicted = self.cache.page_table().evict(&frame, usize::MAX);
        if evicted {
            self.cache.shared.put_free(frame.index);
        }
        evicted
    }

    fn set_all(&self, pages: u32) {
        (1..=pages).for_each(|page| {
            self.set(page, 1);
        });
    }

    /// Writes the page if it is in memory and dirty, as the cleaner does.
    fn write(&self, page: u32) {
        self.cache.write_behind(&[self.key(page)]).unwrap();
    }
}

#[test]
fn a_page_that_is_read_again_is_not_written_before_its_bytes_are_read() {
    explore(|| {
        let fixture = Arc::new(CacheFixture::new(FRAMES, 8, false));
        fixture.set_by_delta(1, 1);
        assert!(fixture.evict(1));
        let writer = thread::spawn({
            let fixture = fixture.clone();
            move || (0..2).for_each(|_| fixture.write(1))
        });
        assert_eq!(fixture.value(1), 1);
        writer.join().unwrap();
        fixture.cache.flush_file(fixture.file).unwrap();
        assert_eq!(fixture.disk.value(1), 1);
    });
}

#[test]
fn a_flush_writes_every_change_made_before_it() {
    explore(|| {
        let fixture = Arc::new(CacheFixture::new(FRAMES, 8, true));
        fixture.set(1, 1);
        let writer = thread::spawn({
            let fixture = fixture.clone();
            move || fixture.write(1)
        });
        fixture.set(1, 2);
        fixture.cache.flush_file(fixture.file).unwrap();
        assert_eq!(fixture.disk.value(1), 2);
        writer.join().unwrap();
    });
}

#[test]
fn no_page_or_log_write_follows_a_file_discard() {
    explore(|| {
        let fixture = Arc::new(CacheFixture::new(FRAMES, 8, true));
        fixture.set(1, 1);
        fixture.set_with_undo(2, 1);
        let writers = [1, 2].map(|page| {
            let fixture = fixture.clone();
            thread::spawn(move || fixture.write(page))
        });
        fixture.cache.discard(fixture.file).unwrap();
        let done = |fixture: &CacheFixture| {
            (fixture.disk.writes.lock().len(), fixture.log.flushes.load(Ordering::SeqCst), fixture.log.tip())
        };
        let before = done(&fixture);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(done(&fixture), before);
        let counters = fixture.cache.counters();
        assert_eq!((counters.available, counters.dirty), (counters.frames, 0), "every frame is free");
    });
}

#[test]
fn a_page_that_is_evicted_and_read_again_loses_no_change() {
    explore(|| {
        let fixture = Arc::new(CacheFixture::new(FRAMES, 8, true));
        let changed = Arc::new(AtomicU64::new(0));
        let changes = thread::spawn({
            let (fixture, changed) = (fixture.clone(), changed.clone());
            move || {
                for value in 1..=3 {
                    fixture.set_by_delta(1, value);
                    changed.store(value, Ordering::SeqCst);
                }
            }
        });
        let evictions = thread::spawn({
            let fixture = fixture.clone();
            move || {
                for _ in 0..3 {
                    fixture.evict(1);
                    fixture.write(1);
                }
            }
        });
        for _ in 0..2 {
            let least = changed.load(Ordering::SeqCst);
            assert!(fixture.value(1) >= least);
        }
        changes.join().unwrap();
        evictions.join().unwrap();
        fixture.cache.flush_file(fixture.file).unwrap();
        assert_eq!((fixture.value(1), fixture.disk.value(1)), (3, 3));
        assert_eq!(fixture.cache.oldest_dirty(fixture.file), None);
    });
}

#[test]
fn concurrent_misses_read_a_page_once_even_during_read_ahead() {
    explore(|| {
        let fixture = Arc::new(CacheFixture::new(16, 8, true));
        let sessions = [0, 1, 2].map(|session| {
            let fixture = fixture.clone();
            thread::spawn(move || {
                if session == 0 {
                    fixture.cache.preread(&[fixture.key(1), fixture.key(2)]);
                }
                assert_eq!(fixture.value(1), 0);
            })
        });
        sessions.into_iter().for_each(|session| session.join().unwrap());
        assert_eq!(fixture.disk.reads.lock().iter().filter(|page| **page == 1).count(), 1);
    });
}

/// A page is created while it is being read. The last thread that pins it may or may not change it.
#[test]
fn a_created_page_has_either_the_creator_or_disk_bytes() {
    explore(|| {
        let fixture = Arc::new(CacheFixture::new(16, 8, false));
        let creates = Arc::new(AtomicBool::new(false));
        let creator = thread::spawn({
            let (fixture, creates) = (fixture.clone(), creates.clone());
            move || {
                drop(fixture.cache.create(fixture.key(1)).unwrap());
                let mut latch = fixture.cache.create(fixture.key(1)).unwrap().into_write();
                creates.store(true, Ordering::SeqCst);
                disk::format(&mut latch, PageNumber::fixed(1));
                latch.mark_dirty(fixture.log.tip());
                let end = fixture.log.append();
                disk::set_value(&mut latch, 7, end, 0);
                latch.set_last(end);
            }
        });
        let evictions = thread::spawn({
            let fixture = fixture.clone();
            move || {
                fixture.evict(1);
                fixture.evict(1);
            }
        });
        // While the creator has pinned the page but not formatted it, the header consists of zeros.
        let latch = fixture.cache.fetch(fixture.key(1)).unwrap().into_read();
        let formatted = ese_format::page::validate(&latch, PageSize::KIB_4).is_ok();
        if formatted {
            let value = disk::value(&latch);
            assert!(value == 0 || value == 7 && creates.load(Ordering::SeqCst), "{value}");
        }
        drop(latch);
        creator.join().unwrap();
        evictions.join().unwrap();
        fixture.cache.flush_file(fixture.file).unwrap();
        assert_eq!((fixture.value(1), fixture.disk.value(1)), (7, 7));
    });
}

#[test]
fn frequently_reused_frames_lose_no_change_or_pin() {
    explore(|| {
        const PAGES: u32 = 20;
        let fixture = Arc::new(CacheFixture::new(16, PAGES, true));
        fixture.set_all(10);
        let sessions = [1, 2, 3].map(|session: u32| {
            let fixture = fixture.clone();
            thread::spawn(move || {
                for step in 0..4 {
                    let page = (session * 7 + step * 5) % PAGES + 1;
                    match (session + step) % 4 {
                        0 => drop(fixture.cache.clean_step().unwrap()),
                        1 => drop(fixture.cache.write_below(fixture.file, fixture.log.tip(), 2).unwrap()),
                        _ => {
                            let mut latch = fixture.cache.fetch(fixture.key(page)).unwrap().into_write();
                            let value = disk::value(&latch) + 1;
                            latch.mark_dirty(fixture.log.tip());
                            let end = fixture.log.append();
                            disk::set_value(&mut latch, value, end, 0);
                            latch.set_last(end);
                        }
                    }
                }
            })
        });
        sessions.into_iter().for_each(|session| session.join().unwrap());
        fixture.cache.flush_file(fixture.file).unwrap();
        let sum: u64 = (1..=PAGES).map(|page| fixture.disk.value(page)).sum();
        let changes = [1, 2, 3].map(|session| (0..4).filter(|step| (session + step) % 4 > 1).count() as u64);
        assert_eq!(sum, 10 + changes.iter().sum::<u64>());
        fixture.cache.detach(fixture.file).unwrap();
        let counters = fixture.cache.counters();
        assert_eq!((counters.available, counters.dirty), (counters.frames, 0), "every frame is free");
    });
}

#[test]
fn the_cleaner_stops_on_shutdown() {
    explore(|| {
        let fixture = CacheFixture::new(16, 20, true);
        fixture.cache.start_threads().unwrap();
        fixture.set_all(12);
        fixture.cache.shutdown();
        fixture.cache.flush_file(fixture.file).unwrap();
        assert!((1..=12).all(|page| fixture.disk.value(page) == 1));
    });
}
