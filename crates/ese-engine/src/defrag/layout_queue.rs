//! The queue of a sequential layout: the trees whose leaves are scattered in the file. A pass first scans all trees
//! to fill the queue, and ends when the queue is empty again.

use jetcell_sync::atomic::Ordering;

use super::defragmentation::{DefragPass, Defragmentation};
use super::state::QueuedTree;
use crate::Result;
use crate::catalog::CatalogTree;
use crate::events::{DefragEvent, LayoutReport};
use crate::space::SpaceLock;
use crate::transaction::ReadView;

impl Defragmentation {
    /// Takes the next candidate tree and queues it if it needs a layout. Returns false if no candidate is left.
    pub(super) fn queue_next(&self, work: &mut DefragPass) -> Result<bool> {
        let Some(candidate) = work.candidates.last().copied() else { return Ok(false) };
        let stopped = || self.stop.load(Ordering::Acquire);
        let scattered = match self.tables.trees.find(candidate.root, candidate.id) {
            Ok(Some(tree)) => tree.leaf_runs(stopped).map(|runs| runs.are_scattered(tree.run_leaves())),
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
                let updated_unix_ms = self.file.vfs.clock().unix_ms();
                let (table, tree) = (candidate.table, candidate.id);
                work.state.queue.push(QueuedTree { table, tree, updated_unix_ms, ..QueuedTree::default() });
                self.progress.lock().queued += 1;
            }
        }
        work.candidates.pop();
        if work.candidates.is_empty() && !work.state.queue.is_empty() {
            self.report_queue(work);
        }
        Ok(true)
    }

    pub(super) fn report_queue(&self, work: &DefragPass) {
        let queue = &work.state.queue;
        let not_started = queue.iter().filter(|queued| queued.began_unix_ms.is_none()).count() as u64;
        self.report(DefragEvent::LayoutQueued { outstanding: queue.len() as u64, not_started });
    }

    /// Records the position of the layout in a tree. `None` means that the layout is complete; the tree is then
    /// removed from the queue.
    pub(super) fn note_queued(
        &self,
        work: &mut DefragPass,
        tree: &CatalogTree,
        key: Option<&[u8]>,
    ) -> Result<()> {
        let now = self.file.vfs.clock().unix_ms();
        let Some(queued) = work.state.queue.first_mut().filter(|queued| queued.tree == tree.id) else {
            return Ok(());
        };
        let began_unix_ms = *queued.began_unix_ms.get_or_insert(now);
        queued.updated_unix_ms = now;
        if let Some(key) = key {
            queued.key = key.to_vec();
            return Ok(());
        }
        // The space that the leaves used before is released for the next tree.
        SpaceLock::new(&self.file).release(tree.root)?;
        let (table, index) = self.tables.names_of(&ReadView::latest(), tree)?;
        let queued = work.state.queue.remove(0);
        self.progress.lock().queued = work.state.queue.len() as u64;
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
