//! Transactions: identities, snapshots, versions of changed nodes, and undo entries for rollback.
//!
//! A change adds a [`Version`] to the [`VersionStore`], keyed by tree and bookmark. The version stays until no
//! running transaction can need the earlier state. Nodes with versions have the Versioned flag, so readers need not
//! search the version store for other nodes. ESE: RCE, version buckets.
//!
//! This layer is below the trees. An [`UndoEntry`] identifies its tree by value, and a [`TransactionHost`] finds the
//! tree. A tree changes nodes through a [`ChangeContext`], which belongs to an [`ActiveTransaction`].

mod active;
mod active_replaces;
mod change_context;
mod ended_transactions;
mod running_transaction;
#[cfg(all(test, shuttle))]
mod schedule_tests;
mod services;
#[allow(clippy::module_inception, reason = "files are named by the noun they define")]
mod transaction;
mod undo_entry;
mod version;
mod version_store;

pub use active::ActiveTransaction;
pub(crate) use active::{ActiveRollback, TransactionHost};
pub(crate) use change_context::ChangeContext;
pub(crate) use ended_transactions::{EndedTransaction, EndedTransactions};
pub use services::Services;
pub use transaction::{CommitNumber, ReadView, Transaction, TransactionTable};
pub(crate) use undo_entry::UndoEntry;
pub use version::{Version, VersionChange};
pub use version_store::VersionStore;

/// Session number for changes that do not belong to a session: splits, merges and space management.
pub(crate) const SYSTEM_PROCID: u16 = 0;

/// First session number of the engine's own transactions in databases. User sessions have lower numbers.
pub(crate) const FIRST_OWN_PROCID: u16 = 0xfff0;
