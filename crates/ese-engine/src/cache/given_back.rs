//! Pages that were given back to the file system.
//!
//! Between two latches, a session can follow a link to a page that has left its tree since. Such a page may be cut off, or
//! a hole, by the time it is read. It then reads as an unused page, as it did before. For all other pages, zeros are damage.

use std::collections::BTreeMap;

use ese_format::page::PageMut;
use ese_format::{PageNumber, PageSize, TreeId};
use jetcell_sync::RwLock;
use jetcell_sync::atomic::{AtomicBool, Ordering};

/// The pages of one file that were given back since it was attached.
#[derive(Default)]
pub(super) struct GivenBack {
    any: AtomicBool,
    /// First and last pages of ranges, which do not overlap.
    ranges: RwLock<BTreeMap<u32, u32>>,
}

impl GivenBack {
    /// These pages were given back.
    pub fn add(&self, first: u32, last: u32) {
        let mut ranges = self.ranges.write();
        remove(&mut ranges, first, last);
        ranges.insert(first, last);
        self.any.store(true, Ordering::Release);
    }

    /// These pages are in use again.
    pub fn remove(&self, first: u32, last: u32) {
        if self.any.load(Ordering::Acquire) {
            remove(&mut self.ranges.write(), first, last);
        }
    }

    /// Whether all of these pages were given back.
    pub fn contains(&self, first: u32, last: u32) -> bool {
        self.any.load(Ordering::Acquire)
            && self.ranges.read().range(..=first).next_back().is_some_and(|(_, end)| *end >= last)
    }
}

fn remove(ranges: &mut BTreeMap<u32, u32>, first: u32, last: u32) {
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
}

/// The bytes of a page that was given back.
pub(super) fn unused_page(bytes: &mut [u8], size: PageSize, page: PageNumber) {
    PageMut::format_unused(bytes, size, page, TreeId(0));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_pages_that_were_added_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 1..60u32, 1..20u32), 0..30),
            first in 1..60u32, count in 1..6u32,
        ) {
            let (pages, mut model) = (GivenBack::default(), BTreeSet::new());
            for (add, first, count) in steps {
                let range = first..first + count;
                match add {
                    true => model.extend(range.clone()),
                    false => model.retain(|page| !range.contains(page)),
                }
                let change = if add { GivenBack::add } else { GivenBack::remove };
                change(&pages, range.start, range.end - 1);
            }
            for page in 0..100 {
                prop_assert_eq!(pages.contains(page, page), model.contains(&page));
            }
            if pages.contains(first, first + count) {
                prop_assert!((first..=first + count).all(|page| model.contains(&page)));
            }
        }
    }
}
