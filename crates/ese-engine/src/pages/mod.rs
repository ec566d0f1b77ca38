//! Atomic changes to several pages, for trees and space trees.
//!
//! This layer handles pages and records, not trees. A [`TreeIdentity`] identifies the tree to which a page belongs.
//! Because both [`btree`](crate::btree) and [`space`](crate::space) use this layer, a split can allocate pages while
//! space trees are being split, too.

pub(crate) mod apply;
mod before_image;
pub(crate) mod group;
#[cfg(test)]
mod group_tests;
mod latched;
pub(crate) mod merge;
pub(crate) mod merge_type;
pub(crate) mod page_move;
mod record_ranges;
pub(crate) mod scrub;
pub(crate) mod split;
mod tree_identity;

pub(crate) use group::{AtomicGroup, GroupAbort, GroupResult, cut_key};
pub(crate) use record_ranges::{NO_TIME, is_split_operation};
pub(crate) use tree_identity::{TREE_KIND, TreeIdentity, new_page_flags};
