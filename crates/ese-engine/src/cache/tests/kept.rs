//! Dirty pages that go without being written.

use std::time::Duration;

use ese_format::page::NodeFlags;
use ese_format::{DbTime, LogPosition, PageNumber};
use jetcell_sync::atomic::Ordering;
use proptest::prelude::*;

use super::{Bench, disk};
use crate::cache::{OnDiskPage, PageDelta, WriteLatch};
use crate::splitmix::mix64;

impl Bench {
    /// Sets the value of a page by an edit.
    fn edit(&self, page: u32, value: u64) -> LogPosition {
        self.edit_latched(&mut self.cache.fetch(self.key(page)).unwrap().write(), value)
    }

    pub fn edit_latched(&self, latch: &mut WriteLatch, value: u64) -> LogPosition {
        latch.mark_dirty_by_delta(self.log.tip());
        let end = self.log.append();
        let data = [value, end.to_u64(), 0].map(u64::to_le_bytes).concat();
        let edit = PageDelta::Replace { line: 0, flags: NodeFlags::empty(), data: &data };
        latch.apply_delta(&edit, DbTime(end.to_u64())).unwrap();
        latch.set_last(end);
        end
    }

    /// Makes other pages pass through the cache until the page goes.
    fn push_out(&self, page: u32) {
        assert!(self.goes(page), "page {page} stays");
    }

    fn goes(&self, page: u32) -> bool {
        let others = (page + 1..).take(20 * self.cache.counters().frames as usize);
        others.into_iter().any(|other| {
            self.value(other);
            !self.is_in_memory(page)
        })
    }

    fn is_in_memory(&self, page: u32) -> bool {
        self.cache.table.pin(self.key(page)).is_some()
    }
}

#[test]
fn a_dirty_page_goes_without_a_write_and_comes_back_with_its_changes() {
    let bench = Bench::new(64, 3000, false);
    let first = bench.log.tip();
    bench.edit(7, 1);
    bench.edit(7, 2);
    bench.push_out(7);
    assert_eq!((bench.disk.value(7), bench.disk.writes.lock().len()), (0, 0));
    assert_eq!((bench.cache.dirty_pages(bench.file), bench.cache.oldest_dirty(bench.file)), (1, Some(first)));
    assert!(bench.cache.contains(bench.key(7)), "memory is newer than the disk");
    assert_eq!((bench.cache.counters().delta_evictions, bench.cache.counters().delta_pages), (1, 1));
    assert!(bench.cache.detach(bench.file).is_err(), "it is not written yet");
    assert_eq!(bench.value(7), 2);
    assert_eq!(bench.cache.counters().delta_pages, 0);
    bench.edit(7, 3);
    bench.push_out(7);
    assert_eq!(bench.value(7), 3);
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!((bench.disk.value(7), bench.cache.oldest_dirty(bench.file)), (3, None));
    bench.cache.detach(bench.file).unwrap();
}

#[test]
fn a_page_that_is_away_comes_back_to_be_written_when_the_checkpoint_needs_it() {
    let bench = Bench::new(64, 3000, false);
    let end = bench.edit(7, 1);
    bench.push_out(7);
    assert_eq!(bench.cache.write_below(bench.file, end, 10).unwrap(), 1);
    assert_eq!(bench.disk.value(7), 1, "the disk refuses it unless the log was made durable first");
    bench.cache.sync_file(bench.file).unwrap();
    assert_eq!(bench.cache.oldest_dirty(bench.file), None);
}

#[test]
fn whoever_reads_or_builds_a_page_that_is_away_gets_it_right() {
    let bench = Bench::new(64, 3000, false);
    for page in 1..=5 {
        bench.edit(page, 9);
        bench.push_out(page);
    }
    let mut bytes = vec![0; disk::SIZE.bytes()];
    let examined = bench.cache.verify_on_disk(bench.key(1), &mut bytes, jetcell_vfs::IoReason::Scan).unwrap();
    assert!(matches!(examined, OnDiskPage::Superseded), "the disk has an old state: {examined:?}");
    assert_eq!(bench.value(1), 9);

    bench.cache.preread(&[bench.key(2)]);
    assert_eq!(bench.value(2), 9);
    bench.push_out(2);
    bench.cache.preread(&[bench.key(2)]);
    bench.push_out(2);
    assert_eq!(bench.value(2), 9, "read ahead and gone unused");

    drop(bench.cache.create(bench.key(3)).unwrap());
    assert_eq!(bench.value(3), 9, "created and never changed");
    bench.push_out(3);
    let mut latch = bench.cache.create(bench.key(3)).unwrap().write();
    disk::format(&mut latch, PageNumber::fixed(3));
    latch.mark_dirty(bench.log.tip());
    drop(latch);
    assert_eq!(bench.value(3), 0, "built anew");
    bench.cache.preread(&[bench.key(5)]);
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!([1, 2, 3, 4, 5].map(|page| bench.disk.value(page)), [9, 9, 0, 9, 9]);

    bench.edit(4, 10);
    bench.push_out(4);
    bench.cache.discard(bench.file).unwrap();
    assert_eq!(bench.cache.counters().delta_pages, 0);
}

#[test]
fn a_page_that_cannot_be_read_stays_away_and_is_not_lost() {
    let bench = Bench::new(64, 3000, false);
    let end = bench.edit(7, 1);
    bench.push_out(7);
    bench.disk.fail_reads.store(true, Ordering::SeqCst);
    assert!(bench.cache.flush_file(bench.file).is_err());
    assert_eq!(bench.cache.write_below(bench.file, end, 10).unwrap(), 0);
    assert!(bench.cache.fetch(bench.key(7)).is_err());
    assert!(bench.cache.oldest_dirty(bench.file).is_some());
    bench.disk.fail_reads.store(false, Ordering::SeqCst);
    bench.push_out(7);
    assert_eq!(bench.value(7), 1);
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(bench.disk.value(7), 1);
}

#[test]
fn a_page_that_comes_back_is_not_for_writers_before_its_bytes_are_there() {
    let bench = Bench::new(64, 3000, false);
    bench.edit(7, 1);
    bench.push_out(7);
    let reading = bench.disk.gate.lock();
    jetcell_sync::thread::scope(|scope| {
        let reader = scope.spawn(|| bench.value(7));
        let page = loop {
            let Some(page) = bench.cache.table.pin(bench.key(7)) else { continue };
            break page;
        };
        // The bytes are out of the frame, and cannot come back while it is latched.
        let latch = loop {
            let Some(latch) = page.try_read().filter(|latch| latch.is_empty()) else { continue };
            break latch;
        };
        drop(reading);
        for _ in 0..100 {
            assert!(page.frame().lacks_edits(), "a writer would copy bytes that are not there");
            jetcell_sync::thread::sleep(Duration::from_millis(1));
        }
        drop(latch);
        assert_eq!(reader.join().unwrap(), 1);
    });
    bench.cache.flush_file(bench.file).unwrap();
    assert_eq!(bench.disk.value(7), 1);
}

#[test]
fn what_nobody_can_say_and_what_may_be_undone_is_written_first() {
    let bench = Bench::new(64, 3000, false);
    bench.edit(1, 1);
    bench.set(1, 2);
    bench.edit(1, 3);
    assert!(!bench.goes(1));
    bench.cache.write_below(bench.file, bench.log.tip(), 1).unwrap();
    bench.push_out(1);
    assert_eq!((bench.value(1), bench.disk.value(1), bench.cache.counters().delta_evictions), (3, 3, 0));

    bench.edit(2, 1);
    let undo = bench.log.undo();
    bench.cache.fetch(bench.key(2)).unwrap().write().defer_undo(undo.clone());
    assert!(!bench.goes(2));
    undo.commit(bench.log.append());
    bench.push_out(2);
    assert_eq!((bench.disk.value(2), bench.cache.counters().delta_evictions), (0, 1));
    assert_eq!(bench.value(2), 1);
}

#[test]
fn pages_that_come_back_only_to_be_written_end_it() {
    let bench = Bench::new(64, 4000, false);
    let mut before = 0;
    for page in 1..=4000 {
        let end = bench.edit(page, 1);
        let behind = LogPosition::from_u64(end.to_u64().saturating_sub(100));
        bench.cache.write_below(bench.file, behind, 10).unwrap();
        if page == 3000 {
            before = bench.cache.counters().delta_evictions;
        }
    }
    let later = bench.cache.counters().delta_evictions - before;
    assert!(before > 10 && later < 100, "{before}, then {later} of 1000");
}

#[test]
fn sessions_that_hold_all_pages_get_back_what_was_given_up_for_edits() {
    let bench = Bench::new(64, 3000, false);
    for page in 1..=2000 {
        bench.edit(page, 1);
    }
    let frames = bench.cache.counters().frames as u32;
    assert!(bench.cache.books.kept.lent() > 5, "{:?}", bench.cache.counters());
    let pinned: Vec<_> = (1..frames).map(|page| bench.cache.fetch(bench.key(page)).unwrap()).collect();
    assert_eq!(bench.value(2500), 0);
    drop(pinned);
    bench.cache.flush_file(bench.file).unwrap();
    assert!((1..=2000).all(|page| bench.disk.value(page) == 1));
}

/// What a record at `end` says that changes a page, which was changed at `before` the last time, to `value`.
fn recorded(value: u64, before: LogPosition, end: LogPosition) -> Vec<u8> {
    let mut edits = Vec::new();
    let data = [value, end.to_u64(), 0].map(u64::to_le_bytes).concat();
    let edit = PageDelta::Replace { line: 0, flags: NodeFlags::empty(), data: &data };
    edit.encode_for_unread(DbTime(before.to_u64()), DbTime(end.to_u64()), &mut edits).unwrap();
    edits
}

#[test]
fn changes_kept_for_an_unseen_page_are_those_that_it_lacks() {
    // How many of three changes the disk has.
    for there in 1..=3 {
        let bench = Bench::new(64, 3000, false);
        let ends = [1, 2, 3].map(|value| match value <= there {
            true => bench.edit(7, value),
            false => bench.log.append(),
        });
        bench.cache.flush_file(bench.file).unwrap();
        bench.push_out(7);
        // Were one made that the page has, the value would be wrong.
        let [second, third] = [1, 2].map(|at| {
            let value = if at < there as usize { 99 } else { at as u64 + 1 };
            recorded(value, ends[at - 1], ends[at])
        });
        assert!(bench.cache.buffer_change(bench.key(7), ends[0]..ends[1], &second));
        assert_eq!((bench.cache.dirty_pages(bench.file), bench.cache.counters().delta_pages), (1, 1));
        assert_eq!(bench.cache.oldest_dirty(bench.file), Some(ends[0]));
        assert!(bench.cache.buffer_change(bench.key(7), ends[1]..ends[2], &third), "the next window");
        assert_eq!((bench.cache.dirty_pages(bench.file), bench.cache.counters().delta_pages), (1, 1));
        assert_eq!(bench.value(7), 3, "the disk had {there}");
        assert!(!bench.cache.buffer_change(bench.key(7), ends[1]..ends[2], &third), "it is in memory");
        bench.cache.flush_file(bench.file).unwrap();
        assert_eq!((bench.disk.value(7), bench.cache.oldest_dirty(bench.file)), (3, None));
    }
}

#[test]
fn changes_of_a_page_that_went_with_its_edits_are_kept_with_them() {
    let bench = Bench::new(64, 3000, false);
    let first = bench.edit(7, 1);
    bench.push_out(7);
    let end = bench.log.append();
    assert!(bench.cache.buffer_change(bench.key(7), first..end, &recorded(2, first, end)));
    assert_eq!(bench.value(7), 2);
    bench.push_out(7);
    assert_eq!(bench.value(7), 2);
}

#[test]
fn changes_kept_for_another_state_of_a_page_are_not_made() {
    let bench = Bench::new(64, 3000, false);
    let old = bench.edit(7, 1);
    bench.cache.flush_file(bench.file).unwrap();
    bench.push_out(7);
    let (lost, end) = (bench.log.append(), bench.log.append());
    assert!(bench.cache.buffer_change(bench.key(7), old..end, &recorded(3, lost, end)));
    for _ in 0..2 {
        let error = bench.cache.fetch(bench.key(7)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("a write was lost"), "{error}");
    }
    assert!(bench.cache.flush_file(bench.file).is_err());
    assert_eq!(bench.disk.value(7), 1);
    assert_eq!(bench.cache.oldest_dirty(bench.file), Some(old), "no checkpoint passes it");
}

fn random(seed: &mut u64) -> u64 {
    *seed += 1;
    mix64(*seed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Any order of uses, with every page as a model says and memory within its limit.
    #[test]
    fn pages_hold_what_was_put_there_last(mut seed: u64, frames in 48_usize..200, background: bool) {
        let bench = Bench::new(frames, 600, background);
        let mut model = vec![0; 601];
        for step in 1..4000 {
            let page = (random(&mut seed) % 600) as u32 + 1;
            match random(&mut seed) % 40 {
                0..20 => {
                    bench.edit(page, step);
                    model[page as usize] = step;
                }
                20 => {
                    bench.set(page, step);
                    model[page as usize] = step;
                }
                21 => {
                    let mut latch = bench.cache.create(bench.key(page)).unwrap().write();
                    disk::format(&mut latch, PageNumber::fixed(page));
                    latch.mark_dirty(bench.log.tip());
                    model[page as usize] = 0;
                }
                22 => {
                    // The completion of a read holds a pin for a moment longer, as the page's creator might.
                    bench.cache.books.file(bench.file).unwrap().in_flight.wait();
                    drop(bench.cache.create(bench.key(page)).unwrap());
                }
                23 => bench.cache.preread(&[bench.key(page), bench.key(page % 600 + 1)]),
                24 => drop(bench.cache.clean_step().unwrap()),
                25 => drop(bench.cache.write_below(bench.file, bench.log.tip(), 5).unwrap()),
                26 => bench.cache.sync_file(bench.file).unwrap(),
                _ => prop_assert_eq!(bench.value(page), model[page as usize], "step {}", step),
            }
            let counters = bench.cache.counters();
            prop_assert!(counters.resident_bytes <= counters.max_bytes, "{:?}", counters);
        }
        prop_assert!(bench.cache.counters().delta_evictions > 30, "{:?}", bench.cache.counters());
        bench.cache.flush_file(bench.file).unwrap();
        for page in 1..=600 {
            prop_assert_eq!(bench.disk.value(page), model[page as usize], "on disk");
        }
        prop_assert_eq!(bench.cache.counters().delta_pages, 0);
        bench.cache.detach(bench.file).unwrap();
    }
}
