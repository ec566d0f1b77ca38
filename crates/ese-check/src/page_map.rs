//! For every page of the database: which tree owns it, and what it is used for. Each page has to have exactly one
//! owner and exactly one use; this is where a second one is noticed.

use ese_format::PageNumber;

/// Index of a tree in the list of the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeIndex(pub(crate) u32);

/// What a page is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Nothing claimed it yet.
    None,
    /// Part of the tree or one of its two space trees.
    Tree(TreeIndex),
    /// Listed as available by the tree.
    Available(TreeIndex),
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// Tree + 1; 0 for none.
    owner: u32,
    /// 2 * (tree + 1), plus 1 when available; 0 for none.
    used: u32,
}

/// One entry of eight bytes per page.
pub(crate) struct PageMap {
    entries: Vec<Entry>,
}

impl PageMap {
    /// For pages 1 to `pages`.
    pub(crate) fn new(pages: u32) -> PageMap {
        PageMap { entries: vec![Entry::default(); pages as usize] }
    }

    pub(crate) fn pages(&self) -> u32 {
        self.entries.len() as u32
    }

    fn entry(&self, page: PageNumber) -> Option<&Entry> {
        self.entries.get(page.get() as usize - 1)
    }

    pub(crate) fn contains(&self, page: PageNumber) -> bool {
        page.get() <= self.pages()
    }

    pub(crate) fn used(&self, page: PageNumber) -> Use {
        match self.entry(page).map_or(0, |entry| entry.used) {
            0 => Use::None,
            raw if raw & 1 == 0 => Use::Tree(TreeIndex(raw / 2 - 1)),
            raw => Use::Available(TreeIndex(raw / 2 - 1)),
        }
    }

    /// Records a use; returns the one that is already there, if any, and leaves it.
    pub(crate) fn claim(&mut self, page: PageNumber, new: Use) -> Result<(), Use> {
        let before = self.used(page);
        if before != Use::None {
            return Err(before);
        }
        if let Some(entry) = self.entries.get_mut(page.get() as usize - 1) {
            entry.used = match new {
                Use::None => 0,
                Use::Tree(tree) => 2 * (tree.0 + 1),
                Use::Available(tree) => 2 * (tree.0 + 1) + 1,
            };
        }
        Ok(())
    }

    pub(crate) fn owner(&self, page: PageNumber) -> Option<TreeIndex> {
        self.entry(page)?.owner.checked_sub(1).map(TreeIndex)
    }

    pub(crate) fn set_owner(&mut self, page: PageNumber, tree: TreeIndex) {
        if let Some(entry) = self.entries.get_mut(page.get() as usize - 1) {
            entry.owner = tree.0 + 1;
        }
    }
}
