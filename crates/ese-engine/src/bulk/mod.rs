//! Bulk loads: trees are built bottom-up from nodes in key order, as full pages that are each written once.
//!
//! ```text
//!  nodes in order ──> TreeBuilder ── leaves and internal pages ──> PageWriter ── large writes past the cache
//!  other nodes ──> NodeSorter ──┘      └ top page ── logged: the tree's root gets it when all others are durable
//! ```
//!
//! Invariants:
//! - The pages are settled and owned by the tree, and nothing refers to them before they are durable. If a crash
//!   happens before that, the rollback frees the tree's extents.
//! - Pages that are not logged have a database time no later than that of the durable log. Every later use of these
//!   pages therefore has a newer time.
//! - The first record that follows changes a page that was not logged. On a database copy without these pages, redo
//!   stops at this record, with [`PageTimeMismatch::Older`](crate::PageTimeMismatch::Older) or a damaged page.

mod link;
mod node_sorter;
mod nodes_in_memory;
mod page_writer;
mod tree_builder;

pub(crate) use link::{is_link, link};
pub(crate) use node_sorter::NodeSorter;
pub(crate) use page_writer::BulkWriteOptions;
pub(crate) use tree_builder::{BuiltTree, TreeBuilder};
