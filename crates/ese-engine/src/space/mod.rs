//! Page ownership: each tree has owned extents and available extents, stored in two small B+-trees.
//!
//! Invariants:
//! - Every page of the database has exactly one owner. It is part of a tree, part of a space tree, available, or
//!   owned by a child tree. All changes that move pages between owners are in one atomic group, so this also holds
//!   after a crash.
//! - Space trees are used only under the database's space lock.
//! - Space trees need no reserved pages: if a space tree is split, the new page is taken from the extents being
//!   processed.
//! - Space trees are never merged: the last node of a leaf is flagged as deleted instead, as in ESE.

mod allocate;
mod create;
mod extents;
mod release_space;
mod remove;
mod settled_extents;
#[cfg(test)]
mod tests;

pub(crate) use allocate::{SpaceLock, SpaceTrees};
pub(crate) use create::{convert_root_pages, create_root_pages, create_single_root};
