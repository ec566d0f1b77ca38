//! A set of page numbers: one bit each, in blocks that are there only once a page of theirs is.

use ese_format::PageNumber;

/// Pages of a block.
const BLOCK: usize = 1 << 15;

/// Pages, of numbers up to any.
#[derive(Default)]
pub(crate) struct PageSet {
    blocks: Vec<Option<Box<[u64; BLOCK / 64]>>>,
}

impl PageSet {
    fn place(page: PageNumber) -> (usize, usize, u64) {
        let page = page.get() as usize;
        (page / BLOCK, page % BLOCK / 64, 1 << (page % 64))
    }

    /// False if it was there already.
    pub(crate) fn insert(&mut self, page: PageNumber) -> bool {
        let (block, word, bit) = PageSet::place(page);
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let Some(block) = self.blocks.get_mut(block) else { return false };
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
        let mut set = PageSet::default();
        let pages = [1, 63, 64, 65, 32767, 32768, 32769, u32::MAX].map(PageNumber::fixed);
        for page in pages {
            assert!(!set.contains(page) && set.insert(page) && set.contains(page) && !set.insert(page));
        }
        for other in [2, 62, 66, 32766, 32770, u32::MAX - 1] {
            assert!(!set.contains(PageNumber::fixed(other)), "{other}");
        }
        assert_eq!(set.blocks.iter().flatten().count(), 3);
    }
}
