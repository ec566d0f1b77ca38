//! Tests which pages the cache combines into one transfer, when it does so, and for which reason.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use ese_format::PageSize;
use jetcell_sync::Arc;
use jetcell_vfs::{IoBuffer, IoReason};
use proptest::collection::btree_set;
use proptest::prelude::*;

use super::CacheFixture;
use crate::cache::write::{UnflushedPagePolicy, WriteReason};
use crate::cache::{AttachedFileId, PageKey, WriteAhead};

/// Returns the runs of adjacent pages, each as its first page and length. No run is longer than `longest`.
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
    fn write_dirty(
        &self,
        pages: &BTreeSet<u32>,
        reason: WriteReason,
        unflushed_log: UnflushedPagePolicy,
    ) -> usize {
        let pages = pages.iter().map(|page| self.cache.fetch(self.key(*page)).unwrap()).collect();
        self.cache.supply().writer().write_pages(pages, reason, unflushed_log, &Arc::default()).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn adjacent_pages_are_read_ahead_with_one_transfer(pages in btree_set(1_u32..50, 1..30)) {
        let fixture = CacheFixture::new(160, 60, false);
        // In this cache, the limit for a single transfer also limits the total size of all multi-page transfers.
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
            prop_assert_eq!(fixture.write_dirty(&pages, reason, UnflushedPagePolicy::Flush), pages.len());
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
    let write =
        || fixture.write_dirty(&BTreeSet::from([7]), WriteReason::Eviction, UnflushedPagePolicy::Skip);
    assert_eq!((write(), fixture.log.flushes.load(Ordering::SeqCst)), (0, 0));
    fixture.log.flush(end).unwrap();
    assert_eq!((write(), fixture.log.flushes.load(Ordering::SeqCst)), (1, 1));
}

/// A read through the cache is one transfer. Pages that were not in memory stay in memory afterwards, up to the last
/// page that may be cached. Fetching these pages needs no I/O.
#[test]
fn a_read_through_caches_pages_that_were_not_in_memory() {
    let fixture = CacheFixture::new(160, 60, false);
    fixture.set(3, 9);
    assert_eq!(fixture.value(5), 0);
    let (sender, read) = jetcell_sync::mpsc::channel();
    let buffer = IoBuffer::zeroed(10 * PageSize::KIB_4.bytes());
    fixture.disk.hold.store(true, Ordering::SeqCst);
    fixture.cache.read_through(fixture.key(1), 8, buffer, move |read| sender.send(read).unwrap());
    assert_eq!(fixture.disk.held(), [(1, 10, IoReason::Scan)]);
    fixture.disk.release();
    let (result, bytes, loaded) = read.recv().unwrap();
    result.unwrap();
    let kept: Vec<u32> = loaded.iter().flatten().map(|page| page.key().page.get()).collect();
    assert_eq!(kept, [1, 2, 4, 6, 7, 8]);
    for page in kept {
        let at = (page as usize - 1) * PageSize::KIB_4.bytes();
        assert_eq!(bytes[at..at + PageSize::KIB_4.bytes()], fixture.disk.stored(page));
        fixture.cache.fetch_cold(fixture.key(page)).unwrap();
        assert_eq!(fixture.disk.held(), []);
    }
    assert_eq!(fixture.value(3), 9);
    fixture.cache.flush_file(fixture.file).unwrap();
}

/// At most an eighth of the cache is used. After an error, no page is cached.
#[test]
fn a_read_through_evicts_little_of_the_cache() {
    let fixture = CacheFixture::new(160, 200, false);
    for (file, expected) in [(fixture.file, fixture.cache.limits.frames / 8), (AttachedFileId(9), 0)] {
        let first = PageKey { file, ..fixture.key(1) };
        let (sender, read) = jetcell_sync::mpsc::channel();
        let buffer = IoBuffer::zeroed(100 * PageSize::KIB_4.bytes());
        fixture.cache.read_through(first, u32::MAX, buffer, move |read| sender.send(read).unwrap());
        let (result, _, loaded) = read.recv().unwrap();
        assert_eq!((result.is_ok(), loaded.iter().flatten().count()), (expected > 0, expected));
    }
}
