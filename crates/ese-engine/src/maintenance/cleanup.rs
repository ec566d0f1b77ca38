//! Removes history that no snapshot can see any more: versions, and nodes flagged deleted.
//!
//! Invariant: a transaction that deleted nodes pins the checkpoint until they are removed. Therefore recovery always
//! reads the `FlagDelete` record of a node that still exists, and can remove the node. A clean database has no such
//! nodes.

use jetcell_sync::Arc;
use std::time::Duration;

use ese_format::{LogPosition, PageNumber, TreeId};

use crate::btree::Tree;
use crate::cache::AttachedFileId;
use crate::core::Core;
use crate::transaction::{CommitNumber, EndedTransaction, Transaction, UndoEntry, VersionChange};
use crate::{Error, Result};

/// Number of nodes whose pages are preread at a time.
const PREREAD_NODES: usize = 128;
/// Number of transactions taken from the queue at a time.
const BATCH: usize = 64;
/// Maximum time that changes wait for room in the version store while other transactions retain history. These
/// transactions may just be waiting for CPU time. After this time, a transaction is considered long-running, and
/// changes no longer wait for it.
const ROOM_TIMEOUT: Duration = Duration::from_millis(500);
const ROOM_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Cleans up at most `limit` transactions whose history no snapshot sees. Returns how many were cleaned up.
///
/// A transaction stays in the queue until its cleanup is complete, so an error loses nothing. If several transactions
/// fail, the first error is returned; the other transactions are still cleaned up.
pub(crate) fn step(core: &Core, limit: usize) -> Result<usize> {
    let Some(_one) = core.ended.try_pause() else { return Ok(0) };
    clean_some(core, limit)
}

/// Cleans up all transactions that can be cleaned up, after waiting for any cleanup in progress. The caller must not
/// hold a latch.
pub(crate) fn clean_all(core: &Core) -> Result<usize> {
    let _one = core.ended.pause();
    clean_some(core, usize::MAX)
}

/// Waits until `transaction` may make a change. Called when the version store is nearly full. The caller must not
/// hold a latch.
pub(crate) fn make_room(core: &Core, transaction: &Transaction) -> Result<()> {
    let mut patience = ROOM_TIMEOUT;
    loop {
        let cleaned = clean_all(core);
        if !core.versions.is_nearly_full() {
            return Ok(());
        }
        // Running transactions need the remaining versions. The oldest of these transactions may use all remaining
        // room, so it can always end.
        if core.transactions.is_oldest(transaction) {
            return core.versions.check_room().or_else(|full| cleaned.and(Err(full)));
        }
        // Versions may also remain because a page cannot be read. In that case, waiting does not help.
        cleaned?;
        // The oldest snapshot is determined only here. By now, it is known not to belong to this transaction.
        let oldest = core.transactions.oldest_snapshot();
        if core.ended.has_wait_timed_out(oldest) {
            return Err(core.versions.full_error());
        }
        if patience.is_zero() {
            core.ended.set_wait_timed_out(oldest);
        }
        core.vfs.clock().sleep(ROOM_POLL_INTERVAL);
        patience = patience.saturating_sub(ROOM_POLL_INTERVAL);
    }
}

fn clean_some(core: &Core, limit: usize) -> Result<usize> {
    let released = release_durable_pins(core);
    // Each transaction is tried once, and new ones are left for the next call, so the loop ends even if every cleanup
    // fails.
    let mut untried = core.ended.waiting().len();
    let mut trees = TreeLookup::default();
    let mut cleaned = 0;
    let (mut failed, mut failure) = (Vec::new(), None);
    while cleaned < limit && untried > 0 {
        let oldest = core.transactions.oldest_snapshot();
        let batch = core.ended.take_front(oldest, untried.min(limit - cleaned).min(BATCH));
        if batch.is_empty() {
            break;
        }
        untried -= batch.len();
        for mut ended in batch {
            match clean_ended(core, &mut ended, oldest, &mut trees) {
                Ok(()) => {
                    finish(core, ended);
                    cleaned += 1;
                }
                // An unreadable page affects only this transaction. Any other error affects all transactions.
                Err(error) => {
                    if !matches!(error, Error::Io { .. } | Error::Corrupt { .. }) {
                        untried = 0;
                    }
                    failure.get_or_insert(error);
                    failed.push(ended);
                }
            }
        }
    }
    let Some(error) = failure else { return Ok(released + cleaned) };
    core.ended.requeue(failed);
    Err(error)
}

/// Cleans up the nodes that recovery found, in order of tree and key. Each page is read once, and one batch is
/// preread. After an error, the remaining nodes are removed from the queue.
pub(crate) fn clean_in_order(core: &Core) -> Result<()> {
    let _one = core.ended.pause();
    let oldest = core.transactions.oldest_snapshot();
    let mut nodes = Vec::new();
    // Only rollbacks have a checkpoint pin at this point. The regular cleanup handles them.
    for ended in core.ended.waiting().iter_mut().filter(|ended| ended.pin.is_none()) {
        nodes.append(&mut ended.changes);
    }
    let place = |change: &UndoEntry| match change {
        UndoEntry::Node(_, version) => (version.tree, version.bookmark.clone()),
        UndoEntry::Tree(file, root) => ((*file, *root), Box::default()),
    };
    nodes.sort_by_cached_key(place);
    let (mut trees, mut trees_ahead) = (TreeLookup::default(), TreeLookup::default());
    let mut read = |nodes: &[UndoEntry]| {
        let leaf = |change: &UndoEntry| {
            let UndoEntry::Node(id, version) = change else { return None };
            let tree = trees_ahead.find(core, version.tree, *id).ok()??;
            Some(tree.file.page_key(tree.leaf_of(&version.bookmark).ok()??))
        };
        core.cache.preread(&nodes.iter().filter_map(leaf).collect::<Vec<_>>());
    };
    let mut batches = nodes.chunks(PREREAD_NODES).peekable();
    batches.peek().into_iter().for_each(|first| read(first));
    while let Some(batch) = batches.next() {
        batches.peek().into_iter().for_each(|next| read(next));
        batch.iter().try_for_each(|change| clean(core, change, oldest, &mut trees))?;
    }
    Ok(())
}

/// Drops deletions whose nodes the log has since removed. Used for redo of a log from another engine, which does the
/// cleanup itself.
pub(crate) fn drop_removed_deletions(core: &Core) -> Result<()> {
    let _one = core.ended.pause();
    let mut trees = TreeLookup::default();
    core.ended.retain(&core.pins, |change| {
        let UndoEntry::Node(id, version) = change else { return Ok(false) };
        match trees.find(core, version.tree, *id)? {
            Some(tree) => tree.has_deleted(&version.bookmark),
            None => Ok(false),
        }
    })
}

/// Completes the cleanup of a transaction. The pin is released once the log is durable up to the commit record and
/// the removals: if a crash lost the removals, recovery would have to read the deletions again.
fn finish(core: &Core, ended: EndedTransaction) {
    let Some(pin) = ended.pin else { return };
    let end = if ended.has_deleted_nodes { core.log().tail() } else { ended.end };
    if crash_safe_position(core) >= end {
        core.pins.release(pin);
    } else {
        core.ended.retain_pin(pin, end);
    }
}

fn release_durable_pins(core: &Core) -> usize {
    core.ended.release_durable_pins(&core.pins, crash_safe_position(core))
}

/// Returns the position before which all records survive a crash, even one that loses as many generations as the
/// waypoint latency allows.
fn crash_safe_position(core: &Core) -> LogPosition {
    let durable = core.log().durable();
    if core.log().waypoint_latency() == 0 {
        return durable;
    }
    core.databases().iter().map(|database| database.file.waypoint()).fold(durable, LogPosition::min)
}

/// Releases the checkpoint pins of transactions that are durable and left no nodes to remove, even if an old snapshot
/// still needs their versions.
pub(crate) fn release_durable(core: &Core) {
    release_durable_pins(core);
    let durable = crash_safe_position(core);
    let mut waiting = core.ended.waiting();
    for ended in waiting.iter_mut().filter(|ended| !ended.has_deleted_nodes && ended.end <= durable) {
        if let Some(pin) = ended.pin.take() {
            core.pins.release(pin);
        }
    }
}

/// Looks up trees and caches the last one. Trees are removed only while cleanup is paused, so one lookup per tree is
/// enough.
#[derive(Default)]
struct TreeLookup {
    last: Option<TreeName>,
    tree: Option<Arc<Tree>>,
}

/// Identifies a tree by its file, root page and id.
type TreeName = ((AttachedFileId, PageNumber), TreeId);

impl TreeLookup {
    /// Returns the tree that a change refers to, or `None` if the tree or its database no longer exists.
    fn find(
        &mut self,
        core: &Core,
        place: (AttachedFileId, PageNumber),
        id: TreeId,
    ) -> Result<Option<&Arc<Tree>>> {
        if self.last != Some((place, id)) {
            let database = core.database(place.0);
            self.tree = database.map_or(Ok(None), |database| database.trees.find(place.1, id))?;
            self.last = Some((place, id));
        }
        Ok(self.tree.as_ref())
    }
}

/// Cleans up one transaction. After an error, `ended` still contains the remaining changes.
fn clean_ended(
    core: &Core,
    ended: &mut EndedTransaction,
    oldest: CommitNumber,
    trees: &mut TreeLookup,
) -> Result<()> {
    while let Some(change) = ended.changes.pop() {
        if let Err(error) = clean(core, &change, oldest, trees) {
            ended.changes.push(change);
            return Err(error);
        }
    }
    Ok(())
}

fn clean(core: &Core, change: &UndoEntry, oldest: CommitNumber, trees: &mut TreeLookup) -> Result<()> {
    let UndoEntry::Node(id, version) = change else { return Ok(()) };
    if !change.leaves_deleted_node() {
        core.versions.remove(version);
        return Ok(());
    }
    let Some(tree) = trees.find(core, version.tree, *id)? else {
        // Either the creation of the tree was rolled back, and its pages now belong to other trees, or recovery read
        // the detach record of the database, which was clean at that point.
        core.versions.remove(version);
        return Ok(());
    };
    match version.change {
        VersionChange::FlagDelete => tree.remove_deleted(&version.bookmark, Some(version), oldest),
        _ => tree.remove_deleted(&version.bookmark, None, oldest),
    }
}

#[cfg(test)]
#[path = "cleanup_tests.rs"]
mod tests;
