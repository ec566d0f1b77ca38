//! Behaviour of the cache against a disk and a log that check the rules.

mod discard;
mod disk;
mod faults;
mod kept;
mod replacement;
mod rules;
#[cfg(shuttle)]
mod schedules;
mod threads;

use disk::{Disk, Log, Undo, World};
use ese_format::{LogPosition, PageNumber, PageSize};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;

use super::{Cache, CacheOptions, FileId, PageKey};

/// A cache with one attached file of `pages` pages with value 0.
struct Bench {
    cache: Arc<Cache>,
    disk: Arc<Disk>,
    log: Arc<Log>,
    file: FileId,
}

impl Bench {
    fn new(cache_pages: usize, pages: u32, completions_in_background: bool) -> Bench {
        let world = World::default();
        let log = Arc::new(Log::default());
        let disk = Disk::new(pages, log.clone(), completions_in_background);
        let size = PageSize::KIB_4;
        let cache = Cache::new(CacheOptions::new(cache_pages * size.bytes(), size, Arc::new(world)));
        let file = cache.attach(disk.clone(), log.clone());
        Bench { cache, disk, log, file }
    }

    /// Attaches the same disk under the same id, as it comes again after all others.
    fn attach_again(&self) {
        self.cache.books.next_file.store(usize::from(self.file.0), Ordering::Relaxed);
        assert_eq!(self.cache.attach(self.disk.clone(), self.log.clone()), self.file);
    }

    fn key(&self, page: u32) -> PageKey {
        PageKey { file: self.file, page: PageNumber::fixed(page) }
    }

    fn value(&self, page: u32) -> u64 {
        disk::value(&self.cache.fetch(self.key(page)).unwrap().read())
    }

    /// Sets the value of a page as a logged change; returns the end of its record.
    fn set(&self, page: u32, value: u64) -> LogPosition {
        let mut latch = self.cache.fetch(self.key(page)).unwrap().write();
        latch.mark_dirty(self.log.tip());
        let end = self.log.append();
        disk::set_value(&mut latch, value, end, 0);
        latch.set_last(end);
        end
    }

    /// Same, with a before-image still to be logged.
    fn set_with_undo(&self, page: u32, value: u64) -> Arc<Undo> {
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
