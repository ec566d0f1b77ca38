//! Services that transactions need from the databases: trees for undo, and room in the version store.

use jetcell_sync::Arc;

use super::cleanup;
use crate::core::Core;
use crate::transaction::{ActiveRollback, Services, Transaction, TransactionHost, UndoEntry};
use crate::{Corruption, InternalError, Result};

impl TransactionHost for Core {
    fn services(&self) -> &Arc<Services> {
        Core::services(self)
    }

    fn undo(&self, entry: &UndoEntry, by: &ActiveRollback) -> Result<()> {
        let database = self.database(entry.file()).ok_or(InternalError::RollbackOfDetached)?;
        match entry {
            UndoEntry::Node(id, version) => {
                let root = version.tree.1;
                let tree = database.trees.find(root, *id)?;
                let tree = tree.ok_or_else(|| database.file.corrupt(root, Corruption::NothingToRollBack))?;
                tree.undo(version, by)
            }
            UndoEntry::Tree(_, root) => {
                // Cleanup must not access pages that are being freed.
                let _paused = self.ended.pause();
                database.trees.remove_tree(*root, by.procid)
            }
        }
    }

    fn make_room(&self, transaction: &Transaction) -> Result<()> {
        cleanup::make_room(self, transaction)
    }
}
