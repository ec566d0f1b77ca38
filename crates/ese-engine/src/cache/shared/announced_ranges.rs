//! Tracks the page ranges of a file that are being read without going through the cache. Writers consult this list.

use std::collections::BTreeSet;
use std::ops::Range;

use ese_format::PageNumber;
use jetcell_sync::atomic::{AtomicUsize, Ordering};
use jetcell_sync::{Arc, Mutex};

/// The ranges of one file that are currently being read.
#[derive(Default)]
pub(in crate::cache) struct AnnouncedRanges {
    count: AtomicUsize,
    ranges: Mutex<Vec<Arc<AnnouncedRange>>>,
}

/// A range, and the pages in it that may have been written since the range was announced.
pub(in crate::cache) struct AnnouncedRange {
    pages: Range<u32>,
    pub written: Mutex<BTreeSet<PageNumber>>,
}

impl AnnouncedRanges {
    /// Announces that a reader is about to read these pages.
    pub fn announce(&self, pages: Range<u32>) -> Arc<AnnouncedRange> {
        let range = Arc::new(AnnouncedRange { pages, written: Mutex::default() });
        let mut ranges = self.ranges.lock();
        ranges.push(range.clone());
        self.count.store(ranges.len(), Ordering::Release);
        range
    }

    /// Withdraws a range after its read has completed.
    pub fn withdraw(&self, range: &Arc<AnnouncedRange>) {
        let mut ranges = self.ranges.lock();
        ranges.retain(|other| !Arc::ptr_eq(other, range));
        self.count.store(ranges.len(), Ordering::Release);
    }

    /// Records that a writer is about to write `pages`. The writer must already have claimed them.
    pub fn about_to_write(&self, pages: impl Iterator<Item = PageNumber> + Clone) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for range in &*self.ranges.lock() {
            let inside = pages.clone().filter(|page| range.pages.contains(&page.get()));
            range.written.lock().extend(inside);
        }
    }
}
