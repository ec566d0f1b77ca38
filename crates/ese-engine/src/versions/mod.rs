//! Snapshot isolation: who sees which state of a node.
//!
//! A change leaves a [`Version`] in the [`VersionStore`], keyed by tree and bookmark, until no running
//! transaction can still need the state before it. Nodes with versions carry the Versioned flag, so that
//! readers of other nodes never look here. ESE: RCE, version buckets.

mod replaces;
#[cfg(all(test, shuttle))]
mod schedules;
mod store;
mod transaction;

pub use store::{Change, Resolved, Version, VersionStore};
pub use transaction::{CommitNumber, Hold, Transaction, TransactionTable, View};
