//! One change of one node, and the state of the node before it.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};

use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Mutex;

use super::Transaction;
use crate::cache::FileId;

/// What a change did to its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The record came into being (also by re-using a node flagged deleted).
    Insert,
    /// The record was flagged deleted.
    FlagDelete,
    /// The data was replaced; `before` is what it was.
    Replace {
        /// Data before the change.
        before: Box<[u8]>,
    },
    /// Recovery only: a replace whose before-image has not been met in the log yet.
    ReplaceUnknown,
}

/// One change of one node by one transaction. ESE: `RCE`.
#[doc(alias = "RCE")]
#[derive(Debug)]
pub struct Version {
    /// Tree, by its database and root page.
    pub tree: (FileId, PageNumber),
    /// Key, with the data appended in non-unique trees.
    pub bookmark: Box<[u8]>,
    /// How many bytes of the bookmark are the key.
    pub key_len: usize,
    /// Transaction that did it.
    pub transaction: Arc<Transaction>,
    /// Ties log records about this change together. ESE: `rceid`.
    pub id: u32,
    /// Transaction level at which it was done.
    pub level: u8,
    /// What it did.
    pub change: Change,
    /// Set when undone or when its transaction committed: the before-image need not be logged any more.
    pub settled: AtomicBool,
    /// Where the deferred before-image was logged, if it was.
    pub undo_logged: Mutex<Option<LogPosition>>,
}

impl Version {
    /// Undone, or history that was removed.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        let before = if let Change::Replace { before } = &self.change { before.len() } else { 0 };
        std::mem::size_of::<Version>() + 64 + self.bookmark.len() + before
    }

    pub(super) fn is_for(&self, tree: (FileId, PageNumber), bookmark: &[u8]) -> bool {
        self.tree == tree && *self.bookmark == *bookmark
    }
}
