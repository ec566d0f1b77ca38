//! Tests of dirty pages that are evicted without a write.

use std::time::Duration;

use ese_format::page::NodeFlags;
use ese_format::{DbTime, LogPosition, PageNumber};
use jetcell_sync::atomic::Ordering;
use proptest::prelude::*;

use super::{CacheFixture, disk};
use crate::cache::{OnDiskVerification, PageDelta, WriteLatch};
use crate::splitmix::mix64;

impl CacheFixture {
    /// Sets the value of a page by a delta.
    pub fn set_by_delta(&self, page: u32, value: u64) -> LogPosition {
        self.apply_delta_latched(&mut self.cache.fetch(self.key(page)).unwrap().write(), value)
    }

    pub fn apply_delta_latched(&self, latch: &mut WriteLatch, value: u64) -> LogPosition {
        latch.mark_dirty_by_delta(self.log.tip());
        let end = self.log.append();
        let data = [value, disk::number_of(end), 0].map(u64::to_le_bytes).concat();
        let delta = PageDelta::Replace { line: 0, flags: NodeFlags::empty(), data: &data };
        latch.apply_delta(&delta, DbTime(disk::number_of(end))).unwrap();
        latch.set_last(end);
        end
    }

    /// Fetches other pages until the page is evicted.
    fn push_out(&self, page: u32) {
        assert!(self.is_evicted_by_others(page), "page {page} is not evicted");
    }

    fn is_evicted_by_others(&self, page: u32) -> bool {
        let others = (page + 1..).take(20 * self.cache.counters().frames as usize);
        others.into_iter().any(|other| {
            self.value(other);
            !self.is_in_memory(page)
        })
    }

    fn is_in_memory(&self, page: u32) -> bool {
        self.cache.page_table().pin(self.key(page)).is_some()
    }
}

#[test]
fn a_dirty_page_is_evicted_without_a_write_and_read_again_with_its_changes() {
    let fixture = CacheFixture::new(64, 3000, false);
    let first = fixture.log.tip();
    fixture.set_by_delta(7, 1);
    fixture.set_by_delta(7, 2);
    fixture.push_out(7);
    assert_eq!((fixture.disk.value(7), fixture.disk.writes.lock().len()), (0, 0));
    assert_eq!(
        (fixture.cache.dirty_pages(fixture.file), fixture.cache.oldest_dirty(fixture.file)),
        (1, Some(first))
    );
    assert!(fixture.cache.contains(fixture.key(7)), "memory is newer than the disk");
    assert_eq!((fixture.cache.counters().delta_evictions, fixture.cache.counters().evicted_dirty), (1, 1));
    assert!(fixture.cache.detach(fixture.file).is_err(), "it is not written yet");
    assert_eq!(fixture.value(7), 2);
    assert_eq!(fixture.cache.counters().evicted_dirty, 0);
    fixture.set_by_delta(7, 3);
    fixture.push_out(7);
    assert_eq!(fixture.value(7), 3);
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!((fixture.disk.value(7), fixture.cache.oldest_dirty(fixture.file)), (3, None));
    fixture.cache.detach(fixture.file).unwrap();
}

#[test]
fn a_page_with_more_deltas_than_the_limit_is_not_evicted() {
    let fixture = CacheFixture::new(64, 3000, false);
    fixture.set_by_delta(7, 1);
    let page = fixture.cache.fetch(fixture.key(7)).unwrap();
    let bytes = page.frame().delta_bytes();
    assert!(bytes > 0 && page.frame().evict_dirty(bytes - 1).is_none());
    assert!(page.frame().evict_dirty(bytes).is_some());
}

#[test]
fn an_evicted_dirty_page_is_read_and_written_when_the_checkpoint_needs_it() {
    let fixture = CacheFixture::new(64, 3000, false);
    let end = fixture.set_by_delta(7, 1);
    fixture.push_out(7);
    assert_eq!(fixture.cache.write_below(fixture.file, end, 10).unwrap(), 1);
    assert_eq!(fixture.disk.value(7), 1, "the disk refuses it unless the log was made durable first");
    fixture.cache.sync_file(fixture.file).unwrap();
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), None);
}

#[test]
fn every_fetch_method_returns_the_changes_on_evicted_dirty_pages() {
    let fixture = CacheFixture::new(64, 3000, false);
    for page in 1..=5 {
        fixture.set_by_delta(page, 9);
        fixture.push_out(page);
    }
    let mut bytes = vec![0; disk::SIZE.bytes()];
    let examined =
        fixture.cache.verify_on_disk(fixture.key(1), &mut bytes, jetcell_vfs::IoReason::Scan).unwrap();
    assert!(matches!(examined, OnDiskVerification::Superseded), "the disk has an old state: {examined:?}");
    assert_eq!(fixture.value(1), 9);

    fixture.cache.preread(&[fixture.key(2)]);
    assert_eq!(fixture.value(2), 9);
    fixture.push_out(2);
    fixture.cache.preread(&[fixture.key(2)]);
    fixture.push_out(2);
    assert_eq!(fixture.value(2), 9, "read unflushed_log and gone unused");

    drop(fixture.cache.create(fixture.key(3)).unwrap());
    assert_eq!(fixture.value(3), 9, "created and never changed");
    fixture.push_out(3);
    let mut latch = fixture.cache.create(fixture.key(3)).unwrap().write();
    disk::format(&mut latch, PageNumber::fixed(3));
    latch.mark_dirty(fixture.log.tip());
    drop(latch);
    assert_eq!(fixture.value(3), 0, "formatted again");
    fixture.cache.preread(&[fixture.key(5)]);
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!([1, 2, 3, 4, 5].map(|page| fixture.disk.value(page)), [9, 9, 0, 9, 9]);

    fixture.set_by_delta(4, 10);
    fixture.push_out(4);
    fixture.cache.discard(fixture.file).unwrap();
    assert_eq!(fixture.cache.counters().evicted_dirty, 0);
}

#[test]
fn an_evicted_dirty_page_that_cannot_be_read_is_not_lost() {
    let fixture = CacheFixture::new(64, 3000, false);
    let end = fixture.set_by_delta(7, 1);
    fixture.push_out(7);
    fixture.disk.fail_reads.store(true, Ordering::SeqCst);
    assert!(fixture.cache.flush_file(fixture.file).is_err());
    assert_eq!(fixture.cache.write_below(fixture.file, end, 10).unwrap(), 0);
    assert!(fixture.cache.fetch(fixture.key(7)).is_err());
    assert!(fixture.cache.oldest_dirty(fixture.file).is_some());
    fixture.disk.fail_reads.store(false, Ordering::SeqCst);
    fixture.push_out(7);
    assert_eq!(fixture.value(7), 1);
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(fixture.disk.value(7), 1);
}

#[test]
fn a_page_with_pending_deltas_is_not_written_before_its_bytes_are_read() {
    let fixture = CacheFixture::new(64, 3000, false);
    fixture.set_by_delta(7, 1);
    fixture.push_out(7);
    let reading = fixture.disk.gate.lock();
    jetcell_sync::thread::scope(|scope| {
        let reader = scope.spawn(|| fixture.value(7));
        let page = loop {
            let Some(page) = fixture.cache.page_table().pin(fixture.key(7)) else { continue };
            break page;
        };
        // The transfer owns the bytes and cannot return them while the frame is latched.
        let latch = loop {
            let Some(latch) = page.try_read().filter(|latch| latch.is_empty()) else { continue };
            break latch;
        };
        drop(reading);
        for _ in 0..100 {
            assert!(page.frame().deltas_pending(), "a writer would copy bytes that are not there");
            jetcell_sync::thread::sleep(Duration::from_millis(1));
        }
        drop(latch);
        assert_eq!(reader.join().unwrap(), 1);
    });
    fixture.cache.flush_file(fixture.file).unwrap();
    assert_eq!(fixture.disk.value(7), 1);
}

#[test]
fn pages_without_deltas_and_pages_with_undo_are_written_before_eviction() {
    let fixture = CacheFixture::new(64, 3000, false);
    fixture.set_by_delta(1, 1);
    fixture.set(1, 2);
    fixture.set_by_delta(1, 3);
    assert!(!fixture.is_evicted_by_others(1));
    fixture.cache.write_below(fixture.file, fixture.log.tip(), 1).unwrap();
    fixture.push_out(1);
    assert_eq!(
        (fixture.value(1), fixture.disk.value(1), fixture.cache.counters().delta_evictions),
        (3, 3, 0)
    );

    fixture.set_by_delta(2, 1);
    let undo = fixture.log.undo();
    fixture.cache.fetch(fixture.key(2)).unwrap().write().defer_undo(undo.clone());
    assert!(!fixture.is_evicted_by_others(2));
    undo.commit(fixture.log.append());
    fixture.push_out(2);
    assert_eq!((fixture.disk.value(2), fixture.cache.counters().delta_evictions), (0, 1));
    assert_eq!(fixture.value(2), 1);
}

#[test]
fn reads_done_only_for_writing_exhaust_the_admission_budget() {
    let fixture = CacheFixture::new(64, 4000, false);
    let mut before = 0;
    for page in 1..=4000 {
        let end = fixture.set_by_delta(page, 1);
        let behind = disk::position(disk::number_of(end).saturating_sub(100));
        fixture.cache.write_below(fixture.file, behind, 10).unwrap();
        if page == 3000 {
            before = fixture.cache.counters().delta_evictions;
        }
    }
    let later = fixture.cache.counters().delta_evictions - before;
    assert!(before > 10 && later < 100, "{before}, then {later} of 1000");
}

#[test]
fn deltas_release_frames_when_sessions_pin_all_other_frames() {
    let fixture = CacheFixture::new(64, 3000, false);
    for page in 1..=2000 {
        fixture.set_by_delta(page, 1);
    }
    let frames = fixture.cache.counters().frames as u32;
    assert!(fixture.cache.shared.deltas.frames() > 5, "{:?}", fixture.cache.counters());
    let pinned: Vec<_> = (1..frames).map(|page| fixture.cache.fetch(fixture.key(page)).unwrap()).collect();
    assert_eq!(fixture.value(2500), 0);
    drop(pinned);
    fixture.cache.flush_file(fixture.file).unwrap();
    assert!((1..=2000).all(|page| fixture.disk.value(page) == 1));
}

/// Returns the encoded delta of a log record that ends at `end` and sets a page's value to `value`. The page was last
/// changed at `before`.
fn recorded(value: u64, before: LogPosition, end: LogPosition) -> Vec<u8> {
    let mut deltas = Vec::new();
    let data = [value, disk::number_of(end), 0].map(u64::to_le_bytes).concat();
    let delta = PageDelta::Replace { line: 0, flags: NodeFlags::empty(), data: &data };
    delta
        .encode_for_unread(DbTime(disk::number_of(before)), DbTime(disk::number_of(end)), &mut deltas)
        .unwrap();
    deltas
}

#[test]
fn only_buffered_changes_missing_from_the_page_are_applied() {
    // `there` is the number of changes, out of three, that are already on disk.
    for there in 1..=3 {
        let fixture = CacheFixture::new(64, 3000, false);
        let ends = [1, 2, 3]
            .map(|value| if value <= there { fixture.set_by_delta(7, value) } else { fixture.log.append() });
        fixture.cache.flush_file(fixture.file).unwrap();
        fixture.push_out(7);
        // If a change that is already on disk were applied again, the value would be wrong.
        let [second, third] = [1, 2].map(|at| {
            let value = if at < there as usize { 99 } else { at as u64 + 1 };
            recorded(value, ends[at - 1], ends[at])
        });
        assert!(fixture.cache.buffer_change(fixture.key(7), ends[0]..ends[1], &second));
        assert_eq!((fixture.cache.dirty_pages(fixture.file), fixture.cache.counters().evicted_dirty), (1, 1));
        assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(ends[0]));
        assert!(fixture.cache.buffer_change(fixture.key(7), ends[1]..ends[2], &third), "the next window");
        assert_eq!((fixture.cache.dirty_pages(fixture.file), fixture.cache.counters().evicted_dirty), (1, 1));
        assert_eq!(fixture.value(7), 3, "the disk had {there}");
        assert!(!fixture.cache.buffer_change(fixture.key(7), ends[1]..ends[2], &third), "it is in memory");
        fixture.cache.flush_file(fixture.file).unwrap();
        assert_eq!((fixture.disk.value(7), fixture.cache.oldest_dirty(fixture.file)), (3, None));
    }
}

#[test]
fn buffered_changes_are_appended_to_the_deltas_of_an_evicted_page() {
    let fixture = CacheFixture::new(64, 3000, false);
    let first = fixture.set_by_delta(7, 1);
    fixture.push_out(7);
    let end = fixture.log.append();
    assert!(fixture.cache.buffer_change(fixture.key(7), first..end, &recorded(2, first, end)));
    assert_eq!(fixture.value(7), 2);
    fixture.push_out(7);
    assert_eq!(fixture.value(7), 2);
}

#[test]
fn a_buffered_change_that_needs_older_records_lowers_the_oldest_dirty_position() {
    let fixture = CacheFixture::new(64, 3000, false);
    let older = fixture.log.append();
    let tip = fixture.log.append();
    let first = fixture.set_by_delta(7, 1);
    fixture.push_out(7);
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(tip));
    let end = fixture.log.append();
    assert!(fixture.cache.buffer_change(fixture.key(7), older..end, &recorded(2, first, end)));
    assert_eq!(
        fixture.cache.oldest_dirty(fixture.file),
        Some(older),
        "the checkpoint would pass a needed record"
    );
}

#[test]
fn buffered_changes_for_a_different_page_state_are_rejected() {
    let fixture = CacheFixture::new(64, 3000, false);
    let old = fixture.set_by_delta(7, 1);
    fixture.cache.flush_file(fixture.file).unwrap();
    fixture.push_out(7);
    let (lost, end) = (fixture.log.append(), fixture.log.append());
    assert!(fixture.cache.buffer_change(fixture.key(7), old..end, &recorded(3, lost, end)));
    for _ in 0..2 {
        let error = fixture.cache.fetch(fixture.key(7)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("a write was lost"), "{error}");
    }
    assert!(fixture.cache.flush_file(fixture.file).is_err());
    assert_eq!(fixture.disk.value(7), 1);
    assert_eq!(fixture.cache.oldest_dirty(fixture.file), Some(old), "no checkpoint passes it");
}

fn random(seed: &mut u64) -> u64 {
    *seed += 1;
    mix64(*seed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// After random operations, every page matches a model, and memory stays within its limit.
    #[test]
    fn pages_match_a_model_after_random_operations(mut seed: u64, frames in 48_usize..200, background: bool) {
        let fixture = CacheFixture::new(frames, 600, background);
        let mut model = vec![0; 601];
        for step in 1..4000 {
            let page = (random(&mut seed) % 600) as u32 + 1;
            match random(&mut seed) % 40 {
                0..20 => {
                    fixture.set_by_delta(page, step);
                    model[page as usize] = step;
                }
                20 => {
                    fixture.set(page, step);
                    model[page as usize] = step;
                }
                21 => {
                    let mut latch = fixture.cache.create(fixture.key(page)).unwrap().write();
                    disk::format(&mut latch, PageNumber::fixed(page));
                    latch.mark_dirty(fixture.log.tip());
                    model[page as usize] = 0;
                }
                22 => {
                    // Wait for completed reads to drop their pins. A read keeps its pin a moment longer, just like the
                    // creator of a page.
                    fixture.cache.shared.file(fixture.file).unwrap().in_flight.wait();
                    drop(fixture.cache.create(fixture.key(page)).unwrap());
                }
                23 => fixture.cache.preread(&[fixture.key(page), fixture.key(page % 600 + 1)]),
                24 => drop(fixture.cache.clean_step().unwrap()),
                25 => drop(fixture.cache.write_below(fixture.file, fixture.log.tip(), 5).unwrap()),
                26 => fixture.cache.sync_file(fixture.file).unwrap(),
                _ => prop_assert_eq!(fixture.value(page), model[page as usize], "step {}", step),
            }
            let counters = fixture.cache.counters();
            prop_assert!(counters.resident_bytes <= counters.max_bytes, "{:?}", counters);
        }
        prop_assert!(fixture.cache.counters().delta_evictions > 30, "{:?}", fixture.cache.counters());
        fixture.cache.flush_file(fixture.file).unwrap();
        for page in 1..=600 {
            prop_assert_eq!(fixture.disk.value(page), model[page as usize], "on disk");
        }
        prop_assert_eq!(fixture.cache.counters().evicted_dirty, 0);
        fixture.cache.detach(fixture.file).unwrap();
    }
}
