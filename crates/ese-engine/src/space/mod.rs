//! Who owns which page: each tree's owned and available extents, kept in two small B+-trees beside it.
//!
//! Invariants: every page of the database is owned exactly once, and is either part of a tree, part of a space
//! tree, available, or owned by a child tree; all changes of a group of pages are in the same atomic group, so
//! that this holds after every crash. Space trees are touched only under the database's space lock, need no
//! spare pages of their own (a page for splitting one is taken out of the extents at hand), and are never
//! merged: the last node of a leaf is flagged deleted instead, as ESE does.

mod allocate;
mod create;
mod extents;

pub(crate) use allocate::{SpaceLock, SpaceTrees};
pub(crate) use create::{convert_root_pages, create_root_pages};
