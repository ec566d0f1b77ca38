//! What a tree should be: its root, its object id, the flags of its pages, its name.

use ese_format::page::PageFlags;
use ese_format::{PageNumber, TreeId};

use crate::tree_label::DATABASE;

/// No tree of 2^32 pages is deeper.
pub(crate) const MAX_DEPTH: u32 = 24;
/// Flags that all pages of a tree share.
pub(crate) const KIND: PageFlags =
    PageFlags::SPACE.union(PageFlags::INDEX).union(PageFlags::LONG_VALUE).union(PageFlags::NON_UNIQUE);

/// What a tree should be.
#[derive(Clone, Debug)]
pub(crate) struct TreeShape {
    pub(crate) root: PageNumber,
    pub(crate) tree: TreeId,
    /// The flags of [`KIND`] its pages have to carry.
    pub(crate) kind: PageFlags,
    /// Name for findings.
    pub(crate) label: String,
}

impl TreeShape {
    /// The tree on page 1, which owns all pages. ESE: system root.
    pub(crate) fn database_root() -> TreeShape {
        TreeShape {
            root: PageNumber::fixed(1),
            tree: TreeId(1),
            kind: PageFlags::empty(),
            label: DATABASE.to_owned(),
        }
    }

    pub(crate) fn non_unique(&self) -> bool {
        // Extents have unique keys whatever tree they belong to.
        self.kind.contains(PageFlags::NON_UNIQUE) && !self.kind.contains(PageFlags::SPACE)
    }
}
