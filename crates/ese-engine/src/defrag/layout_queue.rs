//! The queue of a sequential layout: the trees whose leaves are scattered in the file. A pass first scans all trees
//! to fill the queue, and ends when the queue is empty again.

use super::defrag_pass::DefragPass;
use super::state::QueuedTree;
use crate::Result;
use crate::btree::LeafLayout;
use crate::catalog::CatalogTree;
use crate::events::{DefragEvent, LayoutReport};
use crate::space::SpaceLock;
use crate::transaction::ReadView;

impl DefragPass {
    /// Takes the next candidate tree and queues it if it needs a layout. Returns false if no candidate is left.
    pub(super) fn queue_next(&mut self) -> Result<bool> {
        let Some(candidate) = self.candidates.last().copied() else { return Ok(false) };
        let host = self.host.clone();
        let stopped = || host.is_stopping();
        let scattered = match self.tables.trees.find(candidate.root, candidate.id) {
            Ok(Some(tree)) => LeafLayout::new(&tree).are_leaves_scattered(stopped),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        match scattered {
            Err(error) if self.is_damage(&error) => self.skip(error),
            Err(error) => return Err(error),
            // The count was interrupted and is incomplete.
            Ok(_) if stopped() => return Ok(true),
            Ok(false) => {}
            Ok(true) => {
                let updated_unix_ms = self.host.file.vfs.clock().unix_ms();
                let (table, tree) = (candidate.table, candidate.id);
                self.state.queue.push(QueuedTree { table, tree, updated_unix_ms, ..QueuedTree::default() });
                self.host.progress().queued += 1;
            }
        }
        self.candidates.pop();
        if self.candidates.is_empty() && !self.state.queue.is_empty() {
            self.report(self.queue_event());
        }
        Ok(true)
    }

    /// Returns the event that describes the queue.
    pub(super) fn queue_event(&self) -> DefragEvent {
        let queue = &self.state.queue;
        let not_started = queue.iter().filter(|queued| queued.began_unix_ms.is_none()).count() as u64;
        DefragEvent::LayoutQueued { outstanding: queue.len() as u64, not_started }
    }

    /// Records the position of the layout in a tree. `None` means that the layout is complete; the tree is then
    /// removed from the queue.
    pub(super) fn note_queued(&mut self, tree: &CatalogTree, key: Option<&[u8]>) -> Result<()> {
        let now = self.host.file.vfs.clock().unix_ms();
        let Some(queued) = self.state.queue.first_mut().filter(|queued| queued.tree == tree.id) else {
            return Ok(());
        };
        let began_unix_ms = *queued.began_unix_ms.get_or_insert(now);
        queued.updated_unix_ms = now;
        if let Some(key) = key {
            queued.key = key.to_vec();
            return Ok(());
        }
        // The space that the leaves used before is released for the next tree.
        SpaceLock::new(&self.host.file).release(tree.root)?;
        let (table, index) = self.tables.names_of(&ReadView::latest(), tree)?;
        let queued = self.state.queue.remove(0);
        self.host.progress().queued = self.state.queue.len() as u64;
        self.report(DefragEvent::TreeLaidOut(LayoutReport {
            table,
            index,
            began_unix_ms,
            pages_visited: queued.pages_visited,
            pages_freed: queued.pages_freed,
            partial_merges: queued.partial_merges,
            pages_moved: queued.pages_moved,
        }));
        Ok(())
    }
}
