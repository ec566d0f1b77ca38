//! Flush neighbours: dirty pages that are adjacent to a victim and are written in the same transfer.
//!
//! Only pages that would soon be victims themselves are included, such as pages that were filled one after the other.
//! Writing pages that are still in use would not help. InnoDB: `innodb_flush_neighbors`.

use std::collections::BTreeSet;

use ese_format::PageNumber;
use jetcell_sync::atomic::Ordering;

use super::resident_pages::ResidentPages;
use crate::cache::frame::FrameState;
use crate::cache::{PageKey, PinnedPage};

impl ResidentPages {
    /// Returns `count` pages, or a few more: the first of `victims`, each with its flush neighbours. A transfer has at
    /// most `run` pages.
    pub fn with_flush_neighbours(
        &self,
        victims: Vec<PinnedPage>,
        count: usize,
        run: usize,
    ) -> Vec<PinnedPage> {
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
            let highest = self.rank(victim.frame(), now).plus(self.correlated_interval());
            let mut left = run - 1;
            for step in [1, -1] {
                let mut at = victim.key();
                while left > 0
                    && let Some(page) = adjacent(at, step).filter(|key| !taken.contains(key))
                    && let Some(page) = self.page_table.pin(page)
                    && self.must_be_written(page.frame())
                    && page.frame().pins() == 1
                    && page.frame().state() == FrameState::Ready
                    && self.rank(page.frame(), now) <= highest
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

fn adjacent(key: PageKey, step: i32) -> Option<PageKey> {
    let page = key.page.get().checked_add_signed(step).and_then(PageNumber::new)?;
    Some(PageKey { page, ..key })
}
