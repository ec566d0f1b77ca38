//! Tests the cache with a disk and a log that check the write-ahead rules.

mod deltas;
mod discard;
mod disk;
mod faults;
mod golden;
mod replacement;
mod rules;
#[cfg(shuttle)]
mod schedule_tests;
mod threads;
mod transfers;

use disk::{TestClock, TestDisk, TestLog, TestUndo};
use ese_format::{LogPosition, PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::{AttachedFileId, Cache, CacheOptions, PageKey};

/// A cache with one attached file of `pages` pages, all with the value 0.
pub(super) struct CacheFixture {
    pub(super) cache: Arc<Cache>,
    disk: Arc<TestDisk>,
    log: Arc<TestLog>,
    pub(super) file: AttachedFileId,
}

impl CacheFixture {
    pub(super) fn new(cache_pages: usize, pages: u32, completions_in_background: bool) -> CacheFixture {
        CacheFixture::with_options(cache_pages, pages, completions_in_background, |_| ())
    }

    fn with_options(
        cache_pages: usize,
        pages: u32,
        completions_in_background: bool,
        change: impl FnOnce(&mut CacheOptions),
    ) -> CacheFixture {
        let clock = TestClock::default();
        let log = Arc::new(TestLog::default());
        let disk = TestDisk::new(pages, log.clone(), completions_in_background);
        let size = PageSize::KIB_4;
        let mut options = CacheOptions::new(cache_pages * size.bytes(), size, Arc::new(clock));
        change(&mut options);
        let cache = Cache::new(options);
        let file = cache.attach(disk.clone(), log.clone());
        CacheFixture { cache, disk, log, file }
    }

    /// Attaches the same disk under the same id, as if all other ids had been used in between.
    fn attach_again(&self) {
        self.cache.shared.next_file.store(usize::from(self.file.0), Ordering::Relaxed);
        assert_eq!(self.cache.attach(self.disk.clone(), self.log.clone()), self.file);
    }

    fn key(&self, page: u32) -> PageKey {
        PageKey { file: self.file, page: PageNumber::fixed(page) }
    }

    fn value(&self, page: u32) -> u64 {
        disk::value(&self.cache.fetch(self.key(page)).unwrap().read())
    }

    /// Sets the value of a page with a logged change. Returns the end of its log record.
    fn set(&self, page: u32, value: u64) -> LogPosition {
        let mut latch = self.cache.fetch(self.key(page)).unwrap().write();
        latch.mark_dirty(self.log.tip());
        let end = self.log.append();
        disk::set_value(&mut latch, value, end, 0);
        latch.set_last(end);
        end
    }

    /// Sets the value of a page with a logged change whose before-image is not logged yet.
    fn set_with_undo(&self, page: u32, value: u64) -> Arc<TestUndo> {
        let mut latch = self.cache.fetch(self.key(page)).unwrap().write();
        latch.mark_dirty(self.log.tip());
        let end = self.log.append();
        let undo = self.log.undo();
        disk::set_value(&mut latch, value, end, undo.id);
        latch.defer_undo(undo.clone());
        latch.set_last(end);
        undo
    }
}
