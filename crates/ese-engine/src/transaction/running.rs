//! The state of a transaction that has begun.

use jetcell_sync::Arc;

use super::{Transaction, UndoEntry};
use crate::storage::CheckpointPin;
use crate::{Error, Result};

/// A transaction that has begun.
pub(super) struct Running {
    pub transaction: Arc<Transaction>,
    pub level: u8,
    /// Levels whose Begin record is in the log.
    pub logged_level: u8,
    pub pin: Option<CheckpointPin>,
    /// What was changed, in order.
    pub undo: Vec<UndoEntry>,
    /// Length of `undo` at the begin of each level.
    pub savepoints: Vec<usize>,
    /// The inserts that a rollback has taken back, from its begin until it succeeds: after a failure it can only be
    /// repeated, and must not forget them.
    pub half_undone: Option<Vec<UndoEntry>>,
    /// How many of the innermost levels belong to statements that failed and could not be taken back. The caller did not
    /// begin these levels, so the next rollback takes them back first.
    pub failed_statements: u8,
}

impl Running {
    pub fn new(transaction: Arc<Transaction>) -> Running {
        Running {
            transaction,
            level: 1,
            logged_level: 0,
            pin: None,
            undo: Vec::new(),
            savepoints: vec![0],
            half_undone: None,
            failed_statements: 0,
        }
    }

    /// Fails after a failed rollback: what is half taken back must not be committed.
    pub fn check_whole(&self) -> Result<()> {
        match self.half_undone {
            None => Ok(()),
            Some(_) => Err(Error::Usage("a rollback failed; repeat it".to_string())),
        }
    }
}

pub(super) fn no_transaction() -> Error {
    Error::Usage("no transaction has begun".to_string())
}
