//! The pages of each table, whether or not its tree reaches them.

use std::collections::HashMap;

use ese_check::database::ReadableDatabase;
use ese_check::reader::{PageCache, PageProblem};
use ese_format::{PageNumber, TreeId};

use crate::table::SourceTable;

/// Number of pages to prefetch.
const PREFETCH_PAGES: u32 = 256;

/// Leaves with a valid checksum, as ranges of consecutive pages, keyed by the tree id that the pages contain.
pub(crate) struct LeafPages(HashMap<TreeId, Vec<(u32, u32)>>);

impl LeafPages {
    /// Reads the whole file. Memory use is at most eight bytes per page.
    pub(crate) fn read(database: &ReadableDatabase, tables: &[SourceTable]) -> LeafPages {
        let mut ranges: HashMap<TreeId, Vec<(u32, u32)>> =
            tables.iter().map(|table| (table.tree, Vec::new())).collect();
        let mut pages = PageCache::default();
        let (mut next, mut prefetched) = (1, 1);
        while next <= database.file_pages {
            let number = PageNumber::fixed(next);
            if next >= prefetched {
                prefetched = next.saturating_add(PREFETCH_PAGES);
                pages.prefetch(database, (next..prefetched).filter_map(PageNumber::new));
            }
            let mut read = 1;
            match pages.get(database, number) {
                Ok(image) => {
                    let page = image.page();
                    if let Some(ranges) = ranges.get_mut(&page.tree()).filter(|_| page.is_data_leaf()) {
                        match ranges.last_mut() {
                            Some((_, last)) if *last + 1 == next => *last = next,
                            _ => ranges.push((next, next)),
                        }
                    }
                }
                // A hole of a sparse file may be larger than the rest of the file.
                Err(PageProblem::Zero) => read = database.hole_at(number).max(1),
                Err(_) => {}
            }
            next = next.saturating_add(read);
        }
        LeafPages(ranges)
    }

    /// Returns the pages of a tree in order.
    pub(crate) fn pages_of(&self, tree: TreeId) -> impl Iterator<Item = PageNumber> {
        let ranges = self.0.get(&tree).into_iter().flatten();
        ranges.flat_map(|(first, last)| *first..=*last).filter_map(PageNumber::new)
    }
}
