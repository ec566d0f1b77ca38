//! B+-trees on pages: descent, reads in key order, changes to one leaf, splits, merges, and moving nodes between
//! neighbours.
//!
//! Latch order: a page before its children, a leaf before its right sibling, tree pages before space-tree pages. A
//! descent holds the latch of a page until it has the latch of the child. Nodes move between leaves only while their
//! parent and both leaves are latched for writing. Therefore a descent arrives at the leaf of its key, regardless of
//! the direction in which nodes move.
//!
//! Lock order: the structure lock of the tree, then `DatabaseFile::space`, then latches. No latch is held across I/O.

pub(crate) mod before_image;
pub(crate) mod change;
mod compact;
#[cfg(test)]
mod compact_tests;
mod cursor;
mod descend;
mod layout;
#[cfg(test)]
mod layout_tests;
mod merge;
#[cfg(test)]
pub(crate) mod merge_tests;
mod open_trees;
#[cfg(test)]
mod race_tests;
mod room;
#[cfg(test)]
mod room_tests;
#[cfg(all(test, shuttle))]
mod schedule_tests;
mod share;
#[cfg(test)]
mod share_tests;
#[cfg(test)]
pub(crate) mod tests;
mod tree;

pub(crate) use compact::{CompactionResult, CompactionRules};
pub use cursor::{SeekRelation, TreeCursor};
pub use descend::DescentTarget;
pub(crate) use layout::LeafLayout;
pub use open_trees::OpenTrees;
pub(crate) use tree::DENSITIES;
pub use tree::{Bookmark, Tree};
