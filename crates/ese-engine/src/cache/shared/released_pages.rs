//! Pages that were returned to the file system.
//!
//! A session can follow a link to a page that leaves its tree before the session latches it. By the time the session
//! reads the page, it may have been truncated away or replaced by a hole. The session then sees an unused page, as it
//! would have before the release. On all other pages, zeros are damage.

use std::collections::BTreeMap;

use ese_format::page::PageMut;
use ese_format::{PageNumber, PageSize, TreeId};
use jetcell_sync::RwLock;
use jetcell_sync::atomic::{AtomicBool, Ordering};

/// Maximum number of ranges. Beyond this, a bitmap of all pages uses less memory.
const MAX_RANGES: usize = 1 << 16;

/// The pages of one file that were returned to the file system since the file was attached.
///
/// Uses 24 bytes for each of up to 65,536 ranges, or one bit for each page up to the last one. For the largest
/// possible file, the bitmap takes 64 MiB.
#[derive(Default)]
pub(in crate::cache) struct ReleasedPages {
    any: AtomicBool,
    pages: RwLock<PageRanges>,
}

enum PageRanges {
    /// First and last pages of ranges that neither overlap nor touch.
    Ranges(BTreeMap<u32, u32>),
    /// One bit per page.
    Bits(Vec<u64>),
}

impl Default for PageRanges {
    fn default() -> PageRanges {
        PageRanges::Ranges(BTreeMap::new())
    }
}

impl ReleasedPages {
    /// Adds pages that were returned to the file system.
    pub fn add(&self, first: u32, last: u32) {
        self.pages.write().add(first, last);
        self.any.store(true, Ordering::Release);
    }

    /// Removes pages that are in use again.
    pub fn remove(&self, first: u32, last: u32) {
        if self.any.load(Ordering::Acquire) {
            self.pages.write().remove(first, last);
        }
    }

    /// Returns true if all pages from `first` to `last` were returned to the file system.
    pub fn contains(&self, first: u32, last: u32) -> bool {
        self.any.load(Ordering::Acquire) && self.pages.read().contains(first, last)
    }
}

impl PageRanges {
    fn add(&mut self, mut first: u32, mut last: u32) {
        match self {
            PageRanges::Ranges(ranges) => {
                while let Some((&from, &to)) = ranges.range(..=last.saturating_add(1)).next_back()
                    && to.saturating_add(1) >= first
                {
                    ranges.remove(&from);
                    (first, last) = (first.min(from), last.max(to));
                }
                ranges.insert(first, last);
                self.limit();
            }
            PageRanges::Bits(bits) => {
                let words = last as usize / 64 + 1;
                if bits.len() < words {
                    bits.resize(words, 0);
                }
                words_of(first, last).for_each(|(word, mask)| bits[word] |= mask);
            }
        }
    }

    fn remove(&mut self, first: u32, last: u32) {
        match self {
            PageRanges::Ranges(ranges) => {
                while let Some((&from, &to)) = ranges.range(..=last).next_back()
                    && to >= first
                {
                    ranges.remove(&from);
                    if to > last {
                        ranges.insert(last + 1, to);
                    }
                    if from < first {
                        ranges.insert(from, first - 1);
                    }
                }
                self.limit();
            }
            PageRanges::Bits(bits) => {
                for (word, mask) in words_of(first, last) {
                    bits.get_mut(word).into_iter().for_each(|bits| *bits &= !mask);
                }
            }
        }
    }

    fn contains(&self, first: u32, last: u32) -> bool {
        match self {
            PageRanges::Ranges(ranges) => {
                ranges.range(..=first).next_back().is_some_and(|(_, end)| *end >= last)
            }
            PageRanges::Bits(bits) => words_of(first, last)
                .all(|(word, mask)| bits.get(word).is_some_and(|bits| bits & mask == mask)),
        }
    }

    /// Switches to a bitmap if there are too many ranges.
    fn limit(&mut self) {
        let PageRanges::Ranges(ranges) = self else { return };
        if ranges.len() <= MAX_RANGES {
            return;
        }
        let ranges = std::mem::take(ranges);
        *self = PageRanges::Bits(Vec::new());
        // The last range is added first to allocate the bitmap only once.
        ranges.into_iter().rev().for_each(|(first, last)| self.add(first, last));
    }
}

/// Returns the words of the bitmap that cover the pages from `first` to `last`, each with a mask of the pages' bits.
fn words_of(first: u32, last: u32) -> impl Iterator<Item = (usize, u64)> {
    (first / 64..=last / 64).map(move |word| {
        let from = u64::MAX << (if word == first / 64 { first % 64 } else { 0 });
        let to = u64::MAX >> (if word == last / 64 { 63 - last % 64 } else { 0 });
        (word as usize, from & to)
    })
}

/// Fills `bytes` with the content of a page that was returned to the file system.
pub(in crate::cache) fn unused_page(bytes: &mut [u8], size: PageSize, page: PageNumber) {
    PageMut::format_unused(bytes, size, page, TreeId(0));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Switches `pages` from ranges to a bitmap.
    fn as_bits(pages: &ReleasedPages) {
        let mut pages = pages.pages.write();
        let PageRanges::Ranges(ranges) = std::mem::take(&mut *pages) else { return };
        *pages = PageRanges::Bits(Vec::new());
        ranges.into_iter().for_each(|(first, last)| pages.add(first, last));
    }

    #[test]
    fn released_ranges_use_at_most_one_bit_per_page() {
        // Number of the last page in the largest possible file. The ranges below do not touch.
        const LAST: u32 = (1 << 29) - 1;
        let pages = ReleasedPages::default();
        let first_of = |range: u32| LAST - 4 * range - 1;
        let count = MAX_RANGES as u32 + 5;
        (0..count).for_each(|range| pages.add(first_of(range), first_of(range) + 1));
        let bytes = match &*pages.pages.read() {
            PageRanges::Bits(bits) => bits.capacity() * 8,
            PageRanges::Ranges(ranges) => panic!("{} ranges", ranges.len()),
        };
        assert_eq!(bytes, 64 << 20);
        for range in 0..count {
            let first = first_of(range);
            assert!(pages.contains(first, first + 1), "{range}");
            assert!(!pages.contains(first + 2, first + 2) && !pages.contains(first - 1, first), "{range}");
        }
        pages.remove(first_of(3) + 1, first_of(2));
        assert!(pages.contains(first_of(3), first_of(3)) && !pages.contains(first_of(2), first_of(2)));
        assert!(!pages.contains(LAST, u32::MAX) && !pages.contains(1, LAST));
    }

    #[test]
    fn range_splits_are_counted_and_adjacent_ranges_are_merged() {
        let pages = ReleasedPages::default();
        (0..200_000).for_each(|page| pages.add(2 * page + 1, 2 * page + 2));
        assert!(matches!(&*pages.pages.read(), PageRanges::Ranges(ranges) if ranges.len() == 1));
        (0..200_000).for_each(|page| pages.remove(2 * page + 1, 2 * page + 1));
        assert!(matches!(&*pages.pages.read(), PageRanges::Bits(bits) if bits.len() <= 400_000 / 64 + 1));
        assert!((0..200_000).all(|page| pages.contains(2 * page + 2, 2 * page + 2)));
        assert!((0..200_000).all(|page| !pages.contains(2 * page + 1, 2 * page + 1)));
    }

    proptest! {
        #[test]
        fn ranges_contain_pages_that_were_added_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 1..60u32, 1..20u32), 0..30),
            first in 1..60u32, count in 1..6u32, bits_from in 0..30usize,
        ) {
            let (pages, mut model) = (ReleasedPages::default(), BTreeSet::new());
            for (step, (add, first, count)) in steps.into_iter().enumerate() {
                if step == bits_from {
                    as_bits(&pages);
                }
                let range = first..first + count;
                if add { model.extend(range.clone()) } else { model.retain(|page| !range.contains(page)) }
                let change = if add { ReleasedPages::add } else { ReleasedPages::remove };
                change(&pages, range.start, range.end - 1);
            }
            for page in 0..100 {
                prop_assert_eq!(pages.contains(page, page), model.contains(&page));
            }
            let all = (first..=first + count).all(|page| model.contains(&page));
            prop_assert_eq!(pages.contains(first, first + count), all);
        }
    }
}
