//! Owner and use of each page in the database. Each page must have exactly one owner and exactly one use; the map
//! detects any second owner or use.
//!
//! Pages are grouped into blocks. A block has a list of the distinct states of its pages, of which there are usually
//! few. For each page, it stores an index into this list using as few bits as possible: zero if all pages have the
//! same state, two or four in a large tree.
//!
//! Invariants: the blocks never exceed their memory limit. A block that needs more memory is dropped, and
//! [`PageMap::untracked_pages`] counts the pages in dropped blocks.

use ese_format::PageNumber;

/// Index of a tree in the check's list of trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeIndex(pub(crate) u32);

/// How a page is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageUse {
    /// No use of the page has been recorded yet.
    None,
    /// The page is part of the tree or of one of its two space trees.
    Tree(TreeIndex),
    /// The tree lists the page as available.
    Available(TreeIndex),
}

/// Which tree owns a page, and how the page is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageAllocation {
    pub(crate) owner: Option<TreeIndex>,
    pub(crate) used: PageUse,
}

const UNUSED: PageAllocation = PageAllocation { owner: None, used: PageUse::None };

/// Number of pages in a block.
const PAGES_PER_BLOCK: u32 = 1 << 13;
/// Maximum number of bytes for all blocks.
const MAX_BLOCK_BYTES: usize = 88 << 20;

/// States of the pages in one block.
struct PageMapBlock {
    /// States, each with its number of pages. An entry with no pages can be reused for another state.
    states: Vec<(PageAllocation, u32)>,
    /// Index into `states` for each page, stored in `bits` bits.
    indexes: Vec<u64>,
    bits: u32,
}

impl PageMapBlock {
    fn new(pages: u32) -> PageMapBlock {
        PageMapBlock { states: vec![(UNUSED, pages)], indexes: Vec::new(), bits: 0 }
    }

    /// Returns true if all pages have the same state and the block lists no other state.
    fn is_uniform(&self) -> bool {
        self.bits == 0
    }

    fn pages(&self) -> u32 {
        self.states.iter().map(|(_, pages)| pages).sum()
    }

    fn bytes(&self) -> usize {
        self.indexes.capacity() * 8 + self.states.capacity() * size_of::<(PageAllocation, u32)>()
    }

    /// Returns the word that holds a page's index, and the shift within that word.
    fn index_position(&self, page: u32) -> (usize, u32) {
        let bit = page * self.bits;
        ((bit / 64) as usize, bit % 64)
    }

    fn index(&self, page: u32) -> usize {
        let (word, shift) = self.index_position(page);
        let mask = (1 << self.bits) - 1;
        (self.indexes.get(word).copied().unwrap_or_default() >> shift & mask) as usize
    }

    fn set_index(&mut self, page: u32, index: usize) {
        let (word, shift) = self.index_position(page);
        let mask = (1 << self.bits) - 1;
        if let Some(word) = self.indexes.get_mut(word) {
            *word = *word & !(mask << shift) | (index as u64) << shift;
        }
    }

    fn get(&self, page: u32) -> PageAllocation {
        self.states.get(self.index(page)).map_or(UNUSED, |(state, _)| *state)
    }

    /// Returns true if `state` can be indexed with the current number of bits.
    fn has_room_for(&self, state: PageAllocation) -> bool {
        self.states.len() < 1 << self.bits
            || self.states.iter().any(|(known, pages)| *known == state || *pages == 0)
    }

    /// Returns the size of the block in bytes after widening its indexes by one step.
    fn widened_bytes(&self) -> usize {
        let bits = widened(self.bits) as usize;
        PAGES_PER_BLOCK as usize * bits / 8 + (1 << bits.min(13)) * size_of::<(PageAllocation, u32)>()
    }

    fn widen(&mut self) {
        let before =
            PageMapBlock { states: Vec::new(), indexes: std::mem::take(&mut self.indexes), bits: self.bits };
        self.bits = widened(self.bits);
        self.indexes = vec![0; (PAGES_PER_BLOCK * self.bits / 64) as usize];
        for page in 0..PAGES_PER_BLOCK {
            self.set_index(page, before.index(page));
        }
    }

    fn set(&mut self, page: u32, state: PageAllocation) {
        let before = self.index(page);
        if let Some((_, pages)) = self.states.get_mut(before) {
            *pages = pages.saturating_sub(1);
        }
        let known = self.states.iter().position(|(known, pages)| *known == state && *pages > 0);
        let place = known.or_else(|| self.states.iter().position(|(_, pages)| *pages == 0));
        let index = place.unwrap_or(self.states.len());
        match self.states.get_mut(index) {
            Some(entry) => *entry = (state, entry.1 + 1),
            None => self.states.push((state, 1)),
        }
        self.set_index(page, index);
    }
}

/// Returns the next larger width. All widths divide the number of bits in a word.
fn widened(bits: u32) -> u32 {
    if bits == 0 { 1 } else { bits * 2 }
}

/// Maps each page to its owner and use.
pub(crate) struct PageMap {
    pages: u32,
    /// Blocks of pages; `None` if the block was dropped.
    blocks: Vec<Option<PageMapBlock>>,
    bytes: usize,
    budget: usize,
}

impl PageMap {
    /// Creates a map for pages 1 to `pages`.
    pub(crate) fn new(pages: u32) -> PageMap {
        PageMap::with_budget(pages, MAX_BLOCK_BYTES)
    }

    /// Returns the maximum size in bytes of a map for this number of pages: at most a 16-bit index per page, in whole
    /// blocks, plus the blocks' states.
    pub(crate) fn max_bytes(pages: u64) -> u64 {
        (pages.next_multiple_of(u64::from(PAGES_PER_BLOCK)) * 2).min(MAX_BLOCK_BYTES as u64)
    }

    fn with_budget(pages: u32, budget: usize) -> PageMap {
        let blocks = (0..pages.div_ceil(PAGES_PER_BLOCK))
            .map(|block| Some(PageMapBlock::new(PAGES_PER_BLOCK.min(pages - block * PAGES_PER_BLOCK))));
        let mut map = PageMap { pages, blocks: blocks.collect(), bytes: 0, budget };
        map.bytes = map.blocks.iter().flatten().map(PageMapBlock::bytes).sum::<usize>()
            + map.blocks.capacity() * size_of::<Option<PageMapBlock>>();
        map
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the number of pages in dropped blocks.
    pub(crate) fn untracked_pages(&self) -> u64 {
        self.blocks.iter().filter(|block| block.is_none()).count() as u64 * u64::from(PAGES_PER_BLOCK)
    }

    pub(crate) fn contains(&self, page: PageNumber) -> bool {
        page.get() <= self.pages
    }

    /// Returns the owner and use of a page, or `None` if the page is in a dropped block or beyond the map.
    pub(crate) fn state(&self, page: PageNumber) -> Option<PageAllocation> {
        let page = page.get() - 1;
        let block = self.blocks.get((page / PAGES_PER_BLOCK) as usize).and_then(Option::as_ref);
        block.filter(|_| page < self.pages).map(|block| block.get(page % PAGES_PER_BLOCK))
    }

    fn set(&mut self, page: PageNumber, state: PageAllocation) {
        let page = page.get() - 1;
        let Some(slot) = self.blocks.get_mut((page / PAGES_PER_BLOCK) as usize).filter(|_| page < self.pages)
        else {
            return;
        };
        let Some(block) = slot else { return };
        let before = block.bytes();
        if !block.has_room_for(state) {
            if self.bytes - before + block.widened_bytes() > self.budget {
                self.bytes -= before;
                *slot = None;
                return;
            }
            block.widen();
        }
        block.set(page % PAGES_PER_BLOCK, state);
        self.bytes = self.bytes - before + block.bytes();
    }

    /// Records a use of a page. If a use is already recorded for the page, returns that use without changing it.
    pub(crate) fn claim(&mut self, page: PageNumber, new: PageUse) -> Result<(), PageUse> {
        let Some(state) = self.state(page) else { return Ok(()) };
        if state.used != PageUse::None {
            return Err(state.used);
        }
        self.set(page, PageAllocation { used: new, ..state });
        Ok(())
    }

    /// Returns the state of a page, and the length of a run of pages, starting with this page, that have the same
    /// state. The pages after the run may also have this state.
    pub(crate) fn run_at(&self, page: PageNumber) -> (Option<PageAllocation>, u32) {
        let at = (page.get() - 1) % PAGES_PER_BLOCK;
        let block = self.blocks.get(((page.get() - 1) / PAGES_PER_BLOCK) as usize);
        let alike = block.is_some_and(|block| block.as_ref().is_none_or(PageMapBlock::is_uniform));
        let len = if alike { (PAGES_PER_BLOCK - at).min(self.pages - (page.get() - 1)) } else { 1 };
        (self.state(page), len)
    }

    /// Sets the state of `count` pages, which must be all or part of a run returned by [`PageMap::run_at`].
    pub(crate) fn set_run(&mut self, first: PageNumber, count: u32, state: PageAllocation) {
        let block =
            self.blocks.get_mut(((first.get() - 1) / PAGES_PER_BLOCK) as usize).and_then(Option::as_mut);
        if let Some(block) = block.filter(|block| block.is_uniform() && block.pages() == count) {
            block.states = vec![(state, count)];
            return;
        }
        for page in (0..count).map(|offset| first.plus(offset)) {
            self.set(page, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u32) -> PageNumber {
        PageNumber::fixed(number)
    }

    fn own(map: &mut PageMap, number: u32, tree: TreeIndex) {
        if let Some(state) = map.state(page(number)) {
            map.set_run(page(number), 1, PageAllocation { owner: Some(tree), ..state });
        }
    }

    /// Compares the map with a plain table as the number of states in a block grows.
    #[test]
    fn states_survive_wider_indexes() {
        let pages = 2 * PAGES_PER_BLOCK + 100;
        let mut map = PageMap::new(pages);
        let mut model = vec![UNUSED; pages as usize + 1];
        let mut random = 7u64;
        for step in 0..200_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (random >> 33) as u32 % pages + 1;
            let tree = TreeIndex((random >> 20) as u32 % (1 + step / 500));
            let state = &mut model[number as usize];
            if random >> 63 == 0 {
                own(&mut map, number, tree);
                state.owner = Some(tree);
            } else {
                let new = if random >> 62 & 1 == 0 { PageUse::Tree(tree) } else { PageUse::Available(tree) };
                let expected = if state.used == PageUse::None { Ok(()) } else { Err(state.used) };
                assert_eq!(map.claim(page(number), new), expected);
                if expected.is_ok() {
                    state.used = new;
                }
            }
        }
        for (number, state) in model.iter().enumerate().skip(1) {
            assert_eq!(map.state(page(number as u32)), Some(*state), "page {number}");
        }
        assert_eq!((map.state(page(pages + 1)), map.untracked_pages()), (None, 0));
    }

    /// Tests a single tree that contains nearly all pages, added in arbitrary order.
    #[test]
    fn a_large_tree_uses_few_bits_per_page() {
        let pages = 1 << 25;
        let mut map = PageMap::new(pages);
        (1..=pages).for_each(|number| own(&mut map, number, TreeIndex(0)));
        for number in (1..=pages).step_by(2).chain((2..=pages).step_by(2)) {
            map.claim(page(number), PageUse::Tree(TreeIndex(9))).unwrap();
        }
        (1..=pages).for_each(|number| own(&mut map, number, TreeIndex(9)));
        assert!(map.bytes * 8 <= pages as usize * 5 / 2, "{} bytes for {pages} pages", map.bytes);
    }

    /// Tests the largest possible ESE database, which has 2^29 pages of 32 KiB.
    #[test]
    fn a_range_update_changes_all_pages_in_the_range() {
        let pages = (1 << 29) - 5;
        let mut map = PageMap::new(pages);
        let mut next = 1;
        while next <= pages {
            let (state, len) = map.run_at(page(next));
            assert_eq!(state, Some(UNUSED));
            map.set_run(page(next), len, PageAllocation { owner: Some(TreeIndex(3)), used: PageUse::None });
            next += len;
        }
        let last = map.run_at(page(pages));
        assert_eq!(last, (Some(PageAllocation { owner: Some(TreeIndex(3)), used: PageUse::None }), 1));
        assert!(map.bytes < 16 << 20, "{}", map.bytes);
    }

    /// Tests a map of the largest database when every block contains several trees. The map tracks the pages of 11
    /// TiB at two bits per page and only counts the rest.
    #[test]
    fn the_largest_mixed_map_respects_the_limit_tracking_two_thirds() {
        let pages = (1 << 29) - 5;
        let mut map = PageMap::new(pages);
        for block in (0..pages).step_by(PAGES_PER_BLOCK as usize) {
            for tree in 0..3 {
                own(&mut map, block + tree + 1, TreeIndex(tree));
            }
            assert!(map.bytes <= MAX_BLOCK_BYTES);
        }
        let watched = u64::from(pages) - map.untracked_pages();
        assert!((330_000_000..370_000_000).contains(&watched), "{watched} pages");
    }

    #[test]
    fn blocks_beyond_the_memory_limit_are_dropped_and_counted() {
        let pages = 64 * PAGES_PER_BLOCK;
        let mut map = PageMap::with_budget(pages, 200_000);
        for number in 1..=pages {
            own(&mut map, number, TreeIndex(number));
            assert!(map.bytes <= 200_000);
        }
        assert!(map.untracked_pages() > u64::from(PAGES_PER_BLOCK), "{}", map.untracked_pages());
        let watched = (1..=pages).filter(|number| map.state(page(*number)).is_some()).count() as u64;
        assert_eq!(watched + map.untracked_pages(), u64::from(pages));
        // The map reports no errors for untracked pages.
        let given_up = (1..=pages).find(|number| map.state(page(*number)).is_none()).unwrap();
        assert_eq!(map.claim(page(given_up), PageUse::Tree(TreeIndex(1))), Ok(()));
        assert_eq!(map.claim(page(given_up), PageUse::Tree(TreeIndex(2))), Ok(()));
    }
}
