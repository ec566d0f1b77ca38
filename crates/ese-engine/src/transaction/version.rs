//! A change to one node, and the node's state before it.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};

use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Mutex;

use super::Transaction;
use crate::cache::AttachedFileId;

/// How a change affects its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionChange {
    /// The record was inserted. The insert can reuse a node that was flagged deleted.
    Insert,
    /// The record was flagged deleted.
    FlagDelete,
    /// The data was replaced.
    Replace {
        /// The node's data before the change.
        before: Box<[u8]>,
    },
    /// Used only by recovery: a replace whose before-image has not been read from the log yet.
    ReplaceUnknown,
}

/// One transaction's change to one node. ESE: `RCE`.
#[doc(alias = "RCE")]
#[derive(Debug)]
pub struct Version {
    /// Tree that contains the node, identified by its database and root page.
    pub tree: (AttachedFileId, PageNumber),
    /// The node's key. In non-unique trees, the data is appended.
    pub bookmark: Box<[u8]>,
    /// Length in bytes of the key within the bookmark.
    pub key_len: usize,
    /// Transaction that made the change.
    pub transaction: Arc<Transaction>,
    /// Number that links the log records about this change. ESE: `rceid`.
    pub id: u32,
    /// Transaction level at which the change was made.
    pub level: u8,
    /// Kind of change.
    pub change: VersionChange,
    /// Whether the version was removed from its chain, because the change was undone or no snapshot needs the earlier
    /// state. In both cases, the before-image no longer needs to be logged.
    pub settled: AtomicBool,
    /// Position where the deferred before-image was logged, if it was.
    pub undo_logged: Mutex<Option<LogPosition>>,
}

impl Version {
    /// Returns whether the change was undone or its version was removed as history.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        let before = if let VersionChange::Replace { before } = &self.change { before.len() } else { 0 };
        std::mem::size_of::<Version>() + 64 + self.bookmark.len() + before
    }

    pub(super) fn is_for(&self, tree: (AttachedFileId, PageNumber), bookmark: &[u8]) -> bool {
        self.tree == tree && *self.bookmark == *bookmark
    }
}
