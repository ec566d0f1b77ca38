//! Dirty pages beside a victim: one transfer writes them with it.
//!
//! Only what would be a victim soon itself, as pages that were filled one after the other: a page that is still in use
//! would be written for nothing.

use std::collections::BTreeSet;

use ese_format::PageNumber;
use jetcell_sync::atomic::Ordering;

use super::frame::State;
use super::{Cache, PageKey, PinnedPage};

impl Cache {
    /// The first of `victims` with their neighbours, until there are `count` pages or a few more.
    pub(super) fn with_neighbours(&self, victims: Vec<PinnedPage>, count: usize) -> Vec<PinnedPage> {
        let now = self.now.load(Ordering::Relaxed);
        let mut taken = BTreeSet::new();
        let mut pages = Vec::with_capacity(count);
        for victim in victims {
            if pages.len() >= count {
                break;
            }
            if !taken.insert(victim.key()) {
                continue;
            }
            let most = self.worth(victim.frame(), now).and_a_little(self.correlated_interval());
            let mut left = self.limits.run - 1;
            for step in [1, -1] {
                let mut at = victim.key();
                while left > 0
                    && let Some(page) = beside(at, step).filter(|key| !taken.contains(key))
                    && let Some(page) = self.table.pin(page)
                    && self.must_be_written(page.frame())
                    && page.frame().pins() == 1
                    && page.frame().state() == State::Ready
                    && self.worth(page.frame(), now) <= most
                {
                    at = page.key();
                    taken.insert(at);
                    pages.push(page);
                    left -= 1;
                }
            }
            pages.push(victim);
        }
        pages
    }
}

fn beside(key: PageKey, step: i32) -> Option<PageKey> {
    let page = key.page.get().checked_add_signed(step).and_then(PageNumber::new)?;
    Some(PageKey { page, ..key })
}
