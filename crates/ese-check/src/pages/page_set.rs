//! A set of page numbers with one bit per page, divided into blocks. A block is allocated when its first page is
//! inserted.
//!
//! Invariant: the set never exceeds its maximum number of blocks. It ignores pages that would require another block.

use ese_format::PageNumber;

/// Number of pages in a block.
const PAGES_PER_BLOCK: usize = 1 << 15;

/// A set of arbitrary page numbers.
pub(crate) struct PageSet {
    blocks: Vec<Option<Box<[u64; PAGES_PER_BLOCK / 64]>>>,
    /// Number of blocks that may still be allocated.
    remaining_blocks: usize,
}

impl PageSet {
    /// Creates a set with enough room for `most` consecutive pages.
    pub(crate) fn for_pages(most: u32) -> PageSet {
        PageSet { blocks: Vec::new(), remaining_blocks: (most as usize).div_ceil(PAGES_PER_BLOCK) }
    }

    fn bit_position(page: PageNumber) -> (usize, usize, u64) {
        let page = page.get() as usize;
        (page / PAGES_PER_BLOCK, page % PAGES_PER_BLOCK / 64, 1 << (page % 64))
    }

    /// Adds a page. Returns false if the page is already in the set.
    pub(crate) fn insert(&mut self, page: PageNumber) -> bool {
        let (block, word, bit) = PageSet::bit_position(page);
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let Some(block) = self.blocks.get_mut(block) else { return false };
        if block.is_none() {
            if self.remaining_blocks == 0 {
                return true;
            }
            self.remaining_blocks -= 1;
        }
        let block = block.get_or_insert_with(|| Box::new([0; PAGES_PER_BLOCK / 64]));
        let Some(word) = block.get_mut(word) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(crate) fn contains(&self, page: PageNumber) -> bool {
        let (block, word, bit) = PageSet::bit_position(page);
        let block = self.blocks.get(block).and_then(Option::as_ref);
        block.and_then(|block| block.get(word)).is_some_and(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_only_inserted_pages() {
        let mut set = PageSet::for_pages(3 * PAGES_PER_BLOCK as u32);
        let pages = [1, 63, 64, 65, 32767, 32768, 32769, u32::MAX].map(PageNumber::fixed);
        for page in pages {
            assert!(!set.contains(page) && set.insert(page) && set.contains(page) && !set.insert(page));
        }
        for other in [2, 62, 66, 32766, 32770, u32::MAX - 1] {
            assert!(!set.contains(PageNumber::fixed(other)), "{other}");
        }
        assert_eq!(set.blocks.iter().flatten().count(), 3);
        let further = PageNumber::fixed(5 * PAGES_PER_BLOCK as u32);
        assert!(set.insert(further) && set.insert(further) && !set.contains(further));
    }
}
