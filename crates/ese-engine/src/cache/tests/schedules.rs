//! Latches, pins and frame states under many thread schedules.

use jetcell_sync::atomic::{AtomicBool, AtomicU64};
use jetcell_sync::thread;

use super::*;
use crate::schedules::explore;

/// Enough frames for pages to leave memory with their edits.
const FRAMES: usize = 64;

impl Bench {
    fn edit_once(&self, page: u32, value: u64) {
        self.edit_latched(&mut self.cache.fetch(self.key(page)).unwrap().write(), value);
    }

    /// Takes an unpinned page out of its frame, if its state allows that.
    fn evict(&self, page: u32) -> bool {
        let Some(frame) = self.cache.table.pin(self.key(page)).map(|page| page.shared_frame().clone()) else {
            return false;
        };
        let evicted = self.cache.table.evict(&frame, usize::MAX);
        if evicted {
            self.cache.books.put_free(frame.index);
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
fn a_page_that_is_read_again_is_not_written_before_its_bytes_are_there() {
    explore(|| {
        let bench = Arc::new(Bench::new(FRAMES, 8, false));
        bench.edit_once(1, 1);
        assert!(bench.evict(1));
        let writer = thread::spawn({
            let bench = bench.clone();
            move || (0..2).for_each(|_| bench.write(1))
        });
        assert_eq!(bench.value(1), 1);
        writer.join().unwrap();
        bench.cache.flush_file(bench.file).unwrap();
        assert_eq!(bench.disk.value(1), 1);
    });
}

#[test]
fn a_flush_writes_every_change_made_before_it() {
    explore(|| {
        let bench = Arc::new(Bench::new(FRAMES, 8, true));
        bench.set(1, 1);
        let writer = thread::spawn({
            let bench = bench.clone();
            move || bench.write(1)
        });
        bench.set(1, 2);
        bench.cache.flush_file(bench.file).unwrap();
        assert_eq!(bench.disk.value(1), 2);
        writer.join().unwrap();
    });
}

#[test]
fn no_page_is_written_and_no_log_flushed_after_the_file_was_discarded() {
    explore(|| {
        let bench = Arc::new(Bench::new(FRAMES, 8, true));
        bench.set(1, 1);
        bench.set_with_undo(2, 1);
        let writers = [1, 2].map(|page| {
            let bench = bench.clone();
            thread::spawn(move || bench.write(page))
        });
        bench.cache.discard(bench.file).unwrap();
        let done = |bench: &Bench| {
            (bench.disk.writes.lock().len(), bench.log.flushes.load(Ordering::SeqCst), bench.log.tip())
        };
        let before = done(&bench);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(done(&bench), before);
        let counters = bench.cache.counters();
        assert_eq!((counters.available, counters.dirty), (counters.frames, 0), "every frame came back");
    });
}

#[test]
fn a_page_that_leaves_memory_and_comes_back_loses_no_change() {
    explore(|| {
        let bench = Arc::new(Bench::new(FRAMES, 8, true));
        let changed = Arc::new(AtomicU64::new(0));
        let changes = thread::spawn({
            let (bench, changed) = (bench.clone(), changed.clone());
            move || {
                for value in 1..=3 {
                    bench.edit_once(1, value);
                    changed.store(value, Ordering::SeqCst);
                }
            }
        });
        let evictions = thread::spawn({
            let bench = bench.clone();
            move || {
                for _ in 0..3 {
                    bench.evict(1);
                    bench.write(1);
                }
            }
        });
        for _ in 0..2 {
            let least = changed.load(Ordering::SeqCst);
            assert!(bench.value(1) >= least);
        }
        changes.join().unwrap();
        evictions.join().unwrap();
        bench.cache.flush_file(bench.file).unwrap();
        assert_eq!((bench.value(1), bench.disk.value(1)), (3, 3));
        assert_eq!(bench.cache.oldest_dirty(bench.file), None);
    });
}

#[test]
fn sessions_that_miss_one_page_read_it_once_also_while_it_is_read_ahead() {
    explore(|| {
        let bench = Arc::new(Bench::new(16, 8, true));
        let sessions = [0, 1, 2].map(|session| {
            let bench = bench.clone();
            thread::spawn(move || {
                if session == 0 {
                    bench.cache.preread(&[bench.key(1), bench.key(2)]);
                }
                assert_eq!(bench.value(1), 0);
            })
        });
        sessions.into_iter().for_each(|session| session.join().unwrap());
        assert_eq!(bench.disk.reads.lock().iter().filter(|page| **page == 1).count(), 1);
    });
}

/// A page is created over one that is being read, and its last holder leaves it unchanged or not.
#[test]
fn a_page_that_is_created_is_what_its_creator_made_or_what_the_disk_holds() {
    explore(|| {
        let bench = Arc::new(Bench::new(16, 8, false));
        let creates = Arc::new(AtomicBool::new(false));
        let creator = thread::spawn({
            let (bench, creates) = (bench.clone(), creates.clone());
            move || {
                drop(bench.cache.create(bench.key(1)).unwrap());
                let mut latch = bench.cache.create(bench.key(1)).unwrap().into_write();
                creates.store(true, Ordering::SeqCst);
                disk::format(&mut latch, PageNumber::fixed(1));
                latch.mark_dirty(bench.log.tip());
                let end = bench.log.append();
                disk::set_value(&mut latch, 7, end, 0);
                latch.set_last(end);
            }
        });
        let evictions = thread::spawn({
            let bench = bench.clone();
            move || {
                bench.evict(1);
                bench.evict(1);
            }
        });
        // While the creator holds the page without having formatted it, it has the header of no page.
        let latch = bench.cache.fetch(bench.key(1)).unwrap().into_read();
        let formatted = ese_format::page::validate(&latch, PageSize::KIB_4).is_ok();
        if formatted {
            let value = disk::value(&latch);
            assert!(value == 0 || value == 7 && creates.load(Ordering::SeqCst), "{value}");
        }
        drop(latch);
        creator.join().unwrap();
        evictions.join().unwrap();
        bench.cache.flush_file(bench.file).unwrap();
        assert_eq!((bench.value(1), bench.disk.value(1)), (7, 7));
    });
}

#[test]
fn frames_that_change_pages_all_the_time_lose_no_change_and_no_pin() {
    explore(|| {
        const PAGES: u32 = 20;
        let bench = Arc::new(Bench::new(16, PAGES, true));
        bench.set_all(10);
        let sessions = [1, 2, 3].map(|session: u32| {
            let bench = bench.clone();
            thread::spawn(move || {
                for step in 0..4 {
                    let page = (session * 7 + step * 5) % PAGES + 1;
                    match (session + step) % 4 {
                        0 => drop(bench.cache.clean_step().unwrap()),
                        1 => drop(bench.cache.write_below(bench.file, bench.log.tip(), 2).unwrap()),
                        _ => {
                            let mut latch = bench.cache.fetch(bench.key(page)).unwrap().into_write();
                            let value = disk::value(&latch) + 1;
                            latch.mark_dirty(bench.log.tip());
                            let end = bench.log.append();
                            disk::set_value(&mut latch, value, end, 0);
                            latch.set_last(end);
                        }
                    }
                }
            })
        });
        sessions.into_iter().for_each(|session| session.join().unwrap());
        bench.cache.flush_file(bench.file).unwrap();
        let sum: u64 = (1..=PAGES).map(|page| bench.disk.value(page)).sum();
        let changes = [1, 2, 3].map(|session| (0..4).filter(|step| (session + step) % 4 > 1).count() as u64);
        assert_eq!(sum, 10 + changes.iter().sum::<u64>());
        bench.cache.detach(bench.file).unwrap();
        let counters = bench.cache.counters();
        assert_eq!((counters.available, counters.dirty), (counters.frames, 0), "every frame came back");
    });
}

#[test]
fn the_cleaner_stops_when_it_is_told_to() {
    explore(|| {
        let bench = Bench::new(16, 20, true);
        bench.cache.start_threads().unwrap();
        bench.set_all(12);
        bench.cache.shutdown();
        bench.cache.flush_file(bench.file).unwrap();
        assert!((1..=12).all(|page| bench.disk.value(page) == 1));
    });
}
