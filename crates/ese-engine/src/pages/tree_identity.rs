//! The identity of a tree in pages and log records.

use ese_format::log::record::PageChangeFlags;
use ese_format::page::{Node, PageFlags};
use ese_format::{PageNumber, TreeId};

/// Page flags that all pages of a tree share.
pub(crate) const TREE_KIND: PageFlags =
    PageFlags::INDEX.union(PageFlags::LONG_VALUE).union(PageFlags::NON_UNIQUE).union(PageFlags::NEW_RECORD);

/// Returns the flags for a new page whose log record contains `flags`. The flush type is excluded, because it is
/// assigned when the page is written. Every page uses the newer record format.
pub(crate) fn new_page_flags(flags: u32) -> PageFlags {
    (PageFlags::from_bits_retain(flags) | PageFlags::NEW_RECORD) - PageFlags::FLUSH_TYPE
}

/// Identifies a tree, or one of its space trees, in pages and log records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeIdentity {
    pub root: PageNumber,
    pub id: TreeId,
    /// Flags that all pages of the tree have.
    pub kind: PageFlags,
}

impl TreeIdentity {
    pub fn is_unique(&self) -> bool {
        !self.kind.contains(PageFlags::NON_UNIQUE) || self.kind.contains(PageFlags::SPACE)
    }

    pub fn record_flags(&self) -> PageChangeFlags {
        let mut flags = PageChangeFlags::empty();
        flags.set(PageChangeFlags::UNIQUE, self.is_unique());
        flags.set(PageChangeFlags::SPACE, self.kind.contains(PageFlags::SPACE));
        flags
    }

    /// Returns the bytes by which the tree orders a node: its key, followed by the data in non-unique trees.
    pub fn order_key(&self, node: &Node<'_>) -> Vec<u8> {
        let mut key = node.key_to_vec();
        if !self.is_unique() {
            key.extend_from_slice(node.data);
        }
        key
    }
}
