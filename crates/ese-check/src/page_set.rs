//! A set of page numbers: one bit each, in blocks that are there only once a page of theirs is.
//!
//! Invariant: no more blocks than were allowed; pages that would need a further one are not kept.

use ese_format::PageNumber;

/// Pages of a block.
const BLOCK: usize = 1 << 15;

/// Pages of any number.
pub(crate) struct PageSet {
    blocks: Vec<Option<Box<[u64; BLOCK / 64]>>>,
    /// Further blocks that may be made.
    left: usize,
}

impl PageSet {
    /// For so many pages side by side.
    pub(crate) fn for_pages(most: u32) -> PageSet {
        PageSet { blocks: Vec::new(), left: (most as usize).div_ceil(BLOCK) }
    }

    fn place(page: PageNumber) -> (usize, usize, u64) {
        let page = page.get() as usize;
        (page / BLOCK, page % BLOCK / 64, 1 << (page % 64))
    }

    /// False if it is known to have been there.
    pub(crate) fn insert(&mut self, page: PageNumber) -> bool {
        let (block, word, bit) = PageSet::place(page);
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let Some(block) = self.blocks.get_mut(block) else { return false };
        if block.is_none() {
            if self.left == 0 {
                return true;
            }
            self.left -= 1;
        }
        let block = block.get_or_insert_with(|| Box::new([0; BLOCK / 64]));
        let Some(word) = block.get_mut(word) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(crate) fn contains(&self, page: PageNumber) -> bool {
        let (block, word, bit) = PageSet::place(page);
        let block = self.blocks.get(block).and_then(Option::as_ref);
        block.and_then(|block| block.get(word)).is_some_and(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_there_and_nothing_else() {
        let mut set = PageSet::for_pages(3 * BLOCK as u32);
        let pages = [1, 63, 64, 65, 32767, 32768, 32769, u32::MAX].map(PageNumber::fixed);
        for page in pages {
            assert!(!set.contains(page) && set.insert(page) && set.contains(page) && !set.insert(page));
        }
        for other in [2, 62, 66, 32766, 32770, u32::MAX - 1] {
            assert!(!set.contains(PageNumber::fixed(other)), "{other}");
        }
        assert_eq!(set.blocks.iter().flatten().count(), 3);
        let further = PageNumber::fixed(5 * BLOCK as u32);
        assert!(set.insert(further) && set.insert(further) && !set.contains(further));
    }
}
