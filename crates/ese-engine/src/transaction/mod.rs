//! Transactions: identities, snapshots, versions of changed nodes, and what a rollback must take back.
//!
//! A change leaves a [`Version`] in the [`VersionStore`], keyed by tree and bookmark, until no running
//! transaction can still need the state before it. Nodes with versions carry the Versioned flag, so that
//! readers of other nodes never look here. ESE: RCE, version buckets.
//!
//! This layer lies below the trees. An [`UndoEntry`] names its tree by value; [`TransactionHost`] finds it. A tree changes
//! nodes through a [`ChangeContext`], which an [`ActiveTransaction`] lends.

mod active;
mod change_context;
mod ended;
mod replaces;
mod running;
#[cfg(all(test, shuttle))]
mod schedules;
mod services;
#[allow(clippy::module_inception, reason = "files are named by the noun they define")]
mod transaction;
mod undo_entry;
mod version;
mod version_store;

pub use active::ActiveTransaction;
pub(crate) use active::{TransactionHost, Undoing};
pub(crate) use change_context::ChangeContext;
pub(crate) use ended::{EndedTransaction, EndedTransactions};
pub use services::Services;
pub use transaction::{CommitNumber, Transaction, TransactionTable, View};
pub(crate) use undo_entry::UndoEntry;
pub use version::{Change, Version};
pub use version_store::VersionStore;

/// Session number of changes that no session makes: splits, merges, space.
pub(crate) const SYSTEM_PROCID: u16 = 0;

/// First of the session numbers of the engine's own transactions in databases; sessions of users have lower ones.
pub(crate) const FIRST_OWN_PROCID: u16 = 0xfff0;
