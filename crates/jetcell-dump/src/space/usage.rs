//! The second pass of a space dump, which reads every owned page once, in order.

use ese_format::page::PageFlags;
use ese_format::{PageSize, TreeId};

use super::TreeSpace;
use super::map::PageClass;
use crate::Result;
use crate::database::{AdaptivePageSet, DumpedDatabase};

/// Header fields from a page that is in use.
pub(super) struct UsedPage {
    pub(super) tree: TreeId,
    flags: PageFlags,
    free: usize,
    /// Whether the right sibling is the next page in the file. Absent for the last leaf.
    contiguous: Option<bool>,
}

/// Page usage totals for a tree.
#[derive(Default)]
pub(super) struct TreePageUsage {
    leaves: u64,
    internal: u64,
    space: u64,
    leaf_free: u64,
    links: u64,
    breaks: u64,
}

impl TreePageUsage {
    pub(super) fn add(&mut self, page: &UsedPage) {
        if page.flags.contains(PageFlags::SPACE) {
            self.space += 1;
        } else if page.flags.contains(PageFlags::LEAF) {
            self.leaves += 1;
            self.leaf_free += page.free as u64;
            self.links += u64::from(page.contiguous.is_some());
            self.breaks += u64::from(page.contiguous == Some(false));
        } else {
            self.internal += 1;
        }
    }

    pub(super) fn fill_in(&self, space: &mut TreeSpace, size: PageSize) {
        let share = |part: u64, of: u64| (of > 0).then(|| (part as f64 * 1000.0 / of as f64).round() / 10.0);
        let room = self.leaves * (size.bytes() - size.header_len()) as u64;
        (space.leaf_pages, space.internal_pages, space.space_pages) =
            (self.leaves, self.internal, self.space);
        space.leaf_free_bytes = self.leaf_free;
        space.fill = share(room.saturating_sub(self.leaf_free), room);
        space.fragmentation = share(self.breaks, self.links);
    }
}

/// Callback that receives every page of the file up to the last owned page.
type VisitPageUsage<'v> = &'v mut dyn FnMut(u32, PageClass, Option<UsedPage>) -> Result<()>;

pub(super) fn scan(
    database: &DumpedDatabase<'_>,
    last_owned: u32,
    used: &AdaptivePageSet,
    available: &AdaptivePageSet,
    visit: VisitPageUsage<'_>,
) -> Result<()> {
    for number in 1..=last_owned.min(database.pages) {
        let (class, header) = match (used.contains(number), available.contains(number)) {
            (false, true) => (PageClass::Available, None),
            (false, false) => (PageClass::Leaked, None),
            (true, _) => {
                let image = database.page(number);
                if image.state.is_good() {
                    let page = image.page();
                    let next = page.next().map(ese_format::PageNumber::get);
                    let header = UsedPage {
                        tree: page.tree(),
                        flags: page.flags(),
                        free: page.free_bytes(),
                        contiguous: next.map(|next| next == number + 1),
                    };
                    (class(header.flags), Some(header))
                } else {
                    (PageClass::Damaged, None)
                }
            }
        };
        visit(number, class, header)?;
    }
    Ok(())
}

fn class(flags: PageFlags) -> PageClass {
    if flags.contains(PageFlags::SPACE) {
        PageClass::Space
    } else if flags.contains(PageFlags::INDEX) {
        PageClass::Index
    } else if flags.contains(PageFlags::LONG_VALUE) {
        PageClass::LongValue
    } else {
        PageClass::Table
    }
}
