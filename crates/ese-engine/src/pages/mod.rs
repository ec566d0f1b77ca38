//! Changes of several pages that happen together, as trees and space trees need them.
//!
//! This layer knows pages and records, but no tree: a [`Shape`] says to which tree a page belongs. Both
//! [`btree`](crate::btree) and [`space`](crate::space) are built on it, so that a split can take pages while space trees
//! are split, too.

pub(crate) mod apply;
pub(crate) mod group;
mod latched;
mod shape;
pub(crate) mod split;

pub(crate) use group::{AtomicGroup, Attempt, Stop, cut_key};
pub(crate) use shape::{Shape, TREE_KIND};
