//! A change of one node, and the state of the node before the change.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};

use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Mutex;

use super::Transaction;
use crate::cache::FileId;

/// Effect of a change on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The record was inserted. The insert can reuse a node that was flagged deleted.
    Insert,
    /// The record was flagged deleted.
    FlagDelete,
    /// The data was replaced.
    Replace {
        /// Data of the node before the change.
        before: Box<[u8]>,
    },
    /// Recovery only: a replace whose before-image has not been read from the log yet.
    ReplaceUnknown,
}

/// One change of one node by one transaction. ESE: `RCE`.
#[doc(alias = "RCE")]
#[derive(Debug)]
pub struct Version {
    /// Tree that contains the node, identified by its database and root page.
    pub tree: (FileId, PageNumber),
    /// Key of the node. In non-unique trees the data is appended.
    pub bookmark: Box<[u8]>,
    /// Length of the key in the bookmark, in bytes.
    pub key_len: usize,
    /// Transaction that made the change.
    pub transaction: Arc<Transaction>,
    /// Number that connects the log records about this change. ESE: `rceid`.
    pub id: u32,
    /// Transaction level of the change.
    pub level: u8,
    /// Kind of the change.
    pub change: Change,
    /// Whether the version was removed from its chain: the change was undone, or no snapshot needs the state before
    /// it. In both cases the before-image no longer needs to be logged.
    pub settled: AtomicBool,
    /// Position at which the deferred before-image was logged, if it was.
    pub undo_logged: Mutex<Option<LogPosition>>,
}

impl Version {
    /// Returns whether the change was undone, or was removed as history.
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
