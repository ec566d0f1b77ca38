//! Expected properties of a tree: its root, object id, page flags, and name.

use ese_format::page::PageFlags;
use ese_format::{PageNumber, TreeId};

use crate::findings::tree_label::DATABASE;

/// Maximum depth of a tree. Even a tree of 2^32 pages is not deeper.
pub(crate) const MAX_DEPTH: u32 = 24;
/// Flags that are the same on all pages of a tree.
pub(crate) const KIND_FLAGS: PageFlags =
    PageFlags::SPACE.union(PageFlags::INDEX).union(PageFlags::LONG_VALUE).union(PageFlags::NON_UNIQUE);

/// Expected properties of a tree.
#[derive(Clone, Debug)]
pub(crate) struct TreeShape {
    pub(crate) root: PageNumber,
    pub(crate) tree: TreeId,
    /// Flags from [`KIND_FLAGS`] that the tree's pages must have.
    pub(crate) kind: PageFlags,
    /// Name of the tree, as used in findings.
    pub(crate) label: String,
}

impl TreeShape {
    /// Returns the tree on page 1, which owns all pages. ESE: system root.
    pub(crate) fn database_root() -> TreeShape {
        TreeShape {
            root: PageNumber::fixed(1),
            tree: TreeId(1),
            kind: PageFlags::empty(),
            label: DATABASE.to_owned(),
        }
    }

    pub(crate) fn non_unique(&self) -> bool {
        // Extents have unique keys regardless of the tree to which they belong.
        self.kind.contains(PageFlags::NON_UNIQUE) && !self.kind.contains(PageFlags::SPACE)
    }
}
