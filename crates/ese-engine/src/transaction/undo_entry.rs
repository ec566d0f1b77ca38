//! Undo entries, used by rollbacks and by the cleanup of ended transactions.

use jetcell_sync::Arc;

use ese_format::{PageNumber, TreeId};

use super::{Version, VersionChange};
use crate::cache::AttachedFileId;

/// One change made by a transaction. The entry identifies its tree by value. Tree ids are never reused, so an entry for
/// a removed tree cannot be mistaken for an entry of another tree.
#[derive(Clone)]
pub(crate) enum UndoEntry {
    /// A node in the tree with this id was changed. The version contains the file and the root page.
    Node(TreeId, Arc<Version>),
    /// The tree with this root page was created.
    Tree(AttachedFileId, PageNumber),
}

impl UndoEntry {
    /// Returns the version that the change created.
    pub fn version(&self) -> Option<&Arc<Version>> {
        match self {
            UndoEntry::Node(_, version) => Some(version),
            UndoEntry::Tree(..) => None,
        }
    }

    /// Returns the id of the database file.
    pub fn file(&self) -> AttachedFileId {
        match self {
            UndoEntry::Node(_, version) => version.tree.0,
            UndoEntry::Tree(file, _) => *file,
        }
    }

    /// Returns whether the change has left a node flagged deleted, given that its transaction has ended.
    pub fn leaves_deleted_node(&self) -> bool {
        self.version().is_some_and(|version| match version.change {
            VersionChange::FlagDelete => true,
            // Rolling back an insert flags the node as deleted.
            VersionChange::Insert => version.is_settled(),
            VersionChange::Replace { .. } | VersionChange::ReplaceUnknown => false,
        })
    }
}
