//! Page ownership: each tree's owned and available extents, in two small B+-trees of the tree.
//!
//! Invariants:
//! - Every page of the database has exactly one owner, and is part of a tree, part of a space tree, available, or owned
//!   by a child tree. All changes for a group of pages are in the same atomic group, so this is true after every crash.
//! - Space trees are used only under the database's space lock.
//! - Space trees need no spare pages of their own: a page for a split is taken from the extents that are being handled.
//! - Space trees are never merged: the last node of a leaf is flagged deleted instead, as in ESE.

mod allocate;
mod create;
mod extents;
mod giving_back;
mod remove;
mod settled;
#[cfg(test)]
mod tests;

pub(crate) use allocate::{SpaceLock, SpaceTrees};
pub(crate) use create::{convert_root_pages, create_root_pages, create_single_root};
