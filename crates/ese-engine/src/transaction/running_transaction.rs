//! The state of a transaction that has begun.

use jetcell_sync::Arc;

use super::{Transaction, UndoEntry};
use crate::storage::CheckpointPin;
use crate::{Error, Result, UsageError};

/// State of a transaction that has begun.
pub(super) struct RunningTransaction {
    pub transaction: Arc<Transaction>,
    pub level: u8,
    /// Number of levels whose Begin record is in the log.
    pub logged_level: u8,
    pub pin: Option<CheckpointPin>,
    /// Changes made by the transaction, in order.
    pub undo: Vec<UndoEntry>,
    /// Length of `undo` at the start of each level.
    pub savepoints: Vec<usize>,
    /// Inserts that a rollback has undone so far. Set from the start of the rollback until it succeeds. After a
    /// failure, the rollback can only be repeated, and the repetition needs these entries.
    pub partial_rollback: Option<Vec<UndoEntry>>,
    /// Number of innermost levels that belong to failed statements that could not be rolled back. The caller did not
    /// begin these levels, so the next rollback rolls them back first.
    pub failed_statements: u8,
}

impl RunningTransaction {
    pub fn new(transaction: Arc<Transaction>) -> RunningTransaction {
        RunningTransaction {
            transaction,
            level: 1,
            logged_level: 0,
            pin: None,
            undo: Vec::new(),
            savepoints: vec![0],
            partial_rollback: None,
            failed_statements: 0,
        }
    }

    /// Returns an error after a failed rollback, because a partly undone transaction must not be committed.
    pub fn check_no_failed_rollback(&self) -> Result<()> {
        match self.partial_rollback {
            None => Ok(()),
            Some(_) => Err(UsageError::RollbackFailed.into()),
        }
    }
}

pub(super) fn no_transaction() -> Error {
    UsageError::NoTransaction.into()
}
