//! The entries that a rollback undoes, and that the cleanup of an ended transaction reads.

use jetcell_sync::Arc;

use ese_format::{PageNumber, TreeId};

use super::{Change, Version};
use crate::cache::FileId;

/// One change of a transaction. It identifies its tree by value. Tree ids are never reused, so the entry of a removed
/// tree cannot be mistaken for an entry of another tree.
#[derive(Clone)]
pub(crate) enum UndoEntry {
    /// A node of the tree with this id changed. The version has the file and the root page.
    Node(TreeId, Arc<Version>),
    /// The tree with this root page was created.
    Tree(FileId, PageNumber),
}

impl UndoEntry {
    /// The version that the change created.
    pub fn version(&self) -> Option<&Arc<Version>> {
        match self {
            UndoEntry::Node(_, version) => Some(version),
            UndoEntry::Tree(..) => None,
        }
    }

    /// The database file.
    pub fn file(&self) -> FileId {
        match self {
            UndoEntry::Node(_, version) => version.tree.0,
            UndoEntry::Tree(file, _) => *file,
        }
    }

    /// Whether the change has left a node flagged deleted, given that its transaction has ended.
    pub fn leaves_deleted_node(&self) -> bool {
        self.version().is_some_and(|version| match version.change {
            Change::FlagDelete => true,
            // The rollback of an insert flags the node deleted.
            Change::Insert => version.is_settled(),
            Change::Replace { .. } | Change::ReplaceUnknown => false,
        })
    }
}
