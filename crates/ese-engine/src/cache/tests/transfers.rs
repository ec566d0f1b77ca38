//! Which pages the cache transfers together, when, and for which reason.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use jetcell_sync::Arc;
use jetcell_vfs::IoReason;
use proptest::collection::btree_set;
use proptest::prelude::*;

use super::CacheFixture;
use crate::cache::WriteAhead;
use crate::cache::write_back::{UnflushedLog, WriteReason};

/// Runs of adjacent pages, none longer than `longest`: the first page and the length of each.
fn runs(pages: &BTreeSet<u32>, longest: usize) -> Vec<(u32, usize)> {
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for &page in pages {
        match runs.last_mut() {
            Some((first, length)) if *first + *length as u32 == page && *length < longest => *length += 1,
            _ => runs.push((page, 1)),
        }
    }
    runs
}

impl CacheFixture {
    fn write_dirty(&self, pages: &BTreeSet<u32>, reason: WriteReason, unflushed_log: UnflushedLog) -> usize {
        let pages = pages.iter().map(|page| self.cache.fetch(self.key(*page)).unwrap()).collect();
        self.cache.write_pages(pages, reason, unflushed_log, &Arc::default()).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn adjacent_pages_are_read_ahead_with_one_transfer(pages in btree_set(1_u32..50, 1..30)) {
        let fixture = CacheFixture::new(160, 60, false);
        // The limit of one transfer is also the limit of all transfers of several pages together.
        let mut room = fixture.cache.limits.run;
        let mut expected = Vec::new();
        for (first, length) in runs(&pages, room) {
            if length > 1 && length <= room {
                room -= length;
                expected.push((first, length, IoReason::Preread));
            } else {
                expected.extend((0..length as u32).map(|at| (first + at, 1, IoReason::Preread)));
            }
        }
        fixture.disk.hold.store(true, Ordering::SeqCst);
        fixture.cache.preread(&pages.iter().map(|page| fixture.key(*page)).collect::<Vec<_>>());
        prop_assert_eq!(fixture.disk.held(), expected);
        fixture.disk.release();
        prop_assert!(pages.iter().all(|page| fixture.value(*page) == 0));
    }

    #[test]
    fn adjacent_pages_are_written_with_one_transfer(pages in btree_set(1_u32..50, 1..10)) {
        let reasons = [
            (WriteReason::Checkpoint, IoReason::CheckpointWrite),
            (WriteReason::Flush, IoReason::CheckpointWrite),
            (WriteReason::Eviction, IoReason::EvictionWrite),
        ];
        for (reason, of_transfer) in reasons {
            let fixture = CacheFixture::new(160, 60, false);
            pages.iter().for_each(|page| _ = fixture.set(*page, 5));
            fixture.disk.hold.store(true, Ordering::SeqCst);
            prop_assert_eq!(fixture.write_dirty(&pages, reason, UnflushedLog::Flush), pages.len());
            let expected: Vec<_> = runs(&pages, fixture.cache.limits.run)
                .into_iter()
                .map(|(first, length)| (first, length, of_transfer))
                .collect();
            prop_assert_eq!(fixture.disk.held(), expected);
            fixture.disk.release();
            prop_assert!(pages.iter().all(|page| fixture.disk.value(*page) == 5));
        }
    }
}

#[test]
fn a_page_whose_log_is_durable_is_written_without_a_flush() {
    let fixture = CacheFixture::new(64, 60, false);
    let end = fixture.set(7, 1);
    let write = || fixture.write_dirty(&BTreeSet::from([7]), WriteReason::Eviction, UnflushedLog::Skip);
    assert_eq!((write(), fixture.log.flushes.load(Ordering::SeqCst)), (0, 0));
    fixture.log.flush(end).unwrap();
    assert_eq!((write(), fixture.log.flushes.load(Ordering::SeqCst)), (1, 1));
}
