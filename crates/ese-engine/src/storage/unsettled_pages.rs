//! Tracks pages that may be written only through the cache for now.
//!
//! A page may have been in use since the database was attached. It can then still have a frame in the cache, or an
//! image in the side file for torn-page protection. The log can also still contain records that redo would apply to it.
//! All other available pages are settled: only their owner will read or write them, so they may be written without a
//! log record.

use std::collections::BTreeMap;

use ese_format::PageNumber;
use ese_format::space::Extent;
use jetcell_sync::Mutex;

/// Maximum number of extents that are remembered. They use a few MiB, regardless of the file size.
const MAX_EXTENTS: usize = 1 << 16;

/// The available pages of one database that are not settled. If there are too many extents, all pages up to the
/// middle extent are treated as not settled.
#[derive(Default)]
pub(crate) struct UnsettledPages(Mutex<UnsettledExtents>);

#[derive(Default)]
struct UnsettledExtents {
    /// All pages up to this one are treated as not settled.
    until: u32,
    /// First and last pages of extents that do not overlap.
    extents: BTreeMap<u32, u32>,
}

impl UnsettledPages {
    /// Adds an extent whose pages were in use.
    pub fn add(&self, extent: Extent) {
        let mut state = self.0.lock();
        if extent.last.get() <= state.until {
            return;
        }
        let extents = &mut state.extents;
        let (mut first, mut last) = (extent.first().get(), extent.last.get());
        // An extent that overlaps or touches the new one starts no later than one page after the new one's end.
        while let Some((&other, &end)) = extents.range(..=last.saturating_add(1)).next_back()
            && end.saturating_add(1) >= first
        {
            extents.remove(&other);
            (first, last) = (first.min(other), last.max(end));
        }
        extents.insert(first, last);
        if extents.len() > MAX_EXTENTS {
            let middle = extents.values().nth(MAX_EXTENTS / 2).copied().unwrap_or(last);
            state.add_all_until(middle);
        }
    }

    /// Treats all pages up to this one as not settled, because they may have been in use.
    pub fn add_all_through(&self, last: u32) {
        self.0.lock().add_all_until(last);
    }

    /// Returns the page up to which all pages are treated as not settled.
    pub fn until(&self) -> u32 {
        self.0.lock().until
    }

    /// Returns the first run of at least `least` settled pages in `extent`. The result is limited to `most` pages.
    pub fn first_settled_run(&self, extent: &Extent, least: u32, most: u32) -> Option<Extent> {
        let state = self.0.lock();
        let last = extent.last.get();
        let mut first = extent.first().get().max(state.until.saturating_add(1));
        if let Some((_, &end)) = state.extents.range(..=first).next_back() {
            first = first.max(end.saturating_add(1));
        }
        while first <= last {
            let next = state.extents.range(first..=last).next();
            let end = next.map_or(last, |(&next, _)| next - 1);
            let count = (end + 1).saturating_sub(first);
            if count >= least.max(1) {
                return PageNumber::new(first).map(|first| Extent::starting_at(first, count.min(most)));
            }
            first = next.map_or(last, |(_, &end)| end).saturating_add(1);
        }
        None
    }
}

impl UnsettledExtents {
    fn add_all_until(&mut self, last: u32) {
        self.until = self.until.max(last);
        self.extents = self.extents.split_off(&last.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn extent(first: u32, count: u32) -> Extent {
        Extent::starting_at(PageNumber::fixed(first), count)
    }

    proptest! {
        #[test]
        fn settled_runs_contain_no_page_that_was_in_use(
            until in 0..20u32, used in prop::collection::vec((1..200u32, 1..20u32), 0..12),
            first in 1..200u32, count in 1..60u32, least in 1..8u32, more in 0..20u32,
        ) {
            let pages = UnsettledPages::default();
            let mut model = BTreeSet::new();
            pages.add_all_through(until);
            model.extend(1..=until);
            for (first, count) in used {
                pages.add(extent(first, count));
                model.extend(first..first + count);
            }
            let most = least + more;
            let found = pages.first_settled_run(&extent(first, count), least, most);
            let free = |page: u32| (first..first + count).contains(&page) && !model.contains(&page);
            let begins = (first..first + count).find(|&page| (page..page + least).all(free));
            prop_assert_eq!(found.map(|found| found.first().get()), begins);
            if let Some(found) = found {
                prop_assert!(found.count >= least && found.count <= most);
                prop_assert!((found.first().get()..=found.last.get()).all(free));
                prop_assert!(found.count == most || !free(found.last.get() + 1));
            }
        }
    }

    /// Simulates freeing every second page of a huge file.
    #[test]
    fn too_many_extents_collapse_into_a_single_file_range() {
        let pages = UnsettledPages::default();
        let last = 8 * MAX_EXTENTS as u32;
        (1..=last).step_by(2).for_each(|page| pages.add(extent(page, 1)));
        assert!(pages.0.lock().extents.len() <= MAX_EXTENTS);
        assert_eq!(
            pages.first_settled_run(&extent(1, last + 10), 2, 10),
            Some(extent(last, 10)),
            "no page in use"
        );
        let until = pages.until();
        assert!(until > last / 4 && until < last, "{until}");
        assert_eq!(pages.first_settled_run(&extent(1, last), 1, 1), Some(extent(until + 1, 1)));
    }
}
