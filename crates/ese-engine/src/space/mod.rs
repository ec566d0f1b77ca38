//! Page ownership: each tree has its owned and its available extents, which are stored in two small B+-trees.
//!
//! Invariants:
//! - Every page of the database has exactly one owner. It is part of a tree, part of a space tree, available, or
//!   owned by a child tree. All changes for a group of pages are in the same atomic group. Therefore this is true
//!   after every crash.
//! - Space trees are used only under the database's space lock.
//! - Space trees do not need reserved pages: a page for a split is taken from the extents that are being processed.
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
