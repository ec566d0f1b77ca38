//! Removing history that no snapshot sees any more: versions, and nodes flagged deleted.
//!
//! Invariant: a transaction with deletions holds the checkpoint back until its nodes are gone, so recovery always
//! meets the FlagDelete record of a node that is still there and can remove it; a clean database has none.

use jetcell_sync::Arc;
use std::time::Duration;

use ese_format::{PageNumber, TreeId};

use crate::btree::Tree;
use crate::cache::FileId;
use crate::core::Core;
use crate::transaction::{Change, CommitNumber, EndedTransaction, Transaction, UndoEntry};
use crate::{Error, Result};

/// Nodes whose pages are asked for at once.
const AHEAD: usize = 128;
/// Transactions taken out of the queue at once.
const BATCH: usize = 64;
/// How long changes wait for room while others, which may be waiting for a processor, keep history. Longer ones are long.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1);

/// Cleans at most `limit` transactions whose history no snapshot sees; returns how many. Each keeps its place
/// until it is done, so an error, which is the first one, loses nothing: others have been cleaned all the same.
pub(crate) fn step(core: &Core, limit: usize) -> Result<usize> {
    let Some(_one) = core.ended.try_pause() else { return Ok(0) };
    clean_some(core, limit)
}

/// Cleans all that can be cleaned, after the cleaner that works now. Must not be called with a latch held.
pub(crate) fn clean_all(core: &Core) -> Result<usize> {
    let _one = core.ended.pause();
    clean_some(core, usize::MAX)
}

/// Returns when `transaction` may change something, with a store of versions that is nearly full. Must not be called
/// with a latch held.
pub(crate) fn make_room(core: &Core, transaction: &Transaction) -> Result<()> {
    let mut patience = PATIENCE;
    loop {
        let cleaned = clean_all(core);
        if !core.versions.is_nearly_full() {
            return Ok(());
        }
        // What is left is there for transactions that run. The oldest of them may use all room, in order to end.
        if core.transactions.is_oldest(transaction) {
            return core.versions.check_room().or_else(|full| cleaned.and(Err(full)));
        }
        // Or it is there because a page cannot be read, and no waiting helps.
        cleaned?;
        // Asked for once it is known that it is not this transaction.
        let oldest = core.transactions.oldest_snapshot();
        if core.ended.is_hopeless(oldest) {
            return Err(core.versions.full());
        }
        if patience.is_zero() {
            core.ended.set_hopeless(oldest);
        }
        core.vfs.clock().sleep(PAUSE);
        patience = patience.saturating_sub(PAUSE);
    }
}

fn clean_some(core: &Core, limit: usize) -> Result<usize> {
    let released = release_kept(core);
    // Each is tried once, and new arrivals are left, so the loop ends even if all fail.
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
                // A page that cannot be read concerns this transaction only. Any other error concerns all of them.
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
    core.ended.put_back(failed);
    Err(error)
}

/// Cleans what recovery found, in the order of trees and keys: each page comes once, and a batch ahead. After an
/// error it is forgotten.
pub(crate) fn clean_in_order(core: &Core) -> Result<()> {
    let _one = core.ended.pause();
    let oldest = core.transactions.oldest_snapshot();
    let mut nodes = Vec::new();
    // A rollback pins the checkpoint; the rest of the cleanup takes care of it.
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
    let mut batches = nodes.chunks(AHEAD).peekable();
    batches.peek().into_iter().for_each(|first| read(first));
    while let Some(batch) = batches.next() {
        batches.peek().into_iter().for_each(|next| read(next));
        batch.iter().try_for_each(|change| clean(core, change, oldest, &mut trees))?;
    }
    Ok(())
}

/// The pin ends when the commit record is durable, and with it the removals: were they lost, recovery would
/// have to meet the deletions again.
fn finish(core: &Core, ended: EndedTransaction) {
    let Some(pin) = ended.pin else { return };
    let end = if ended.has_deleted_nodes { core.log().tail() } else { ended.end };
    if core.log().durable() >= end {
        core.pins.release(pin);
    } else {
        core.ended.keep_pin(pin, end);
    }
}

fn release_kept(core: &Core) -> usize {
    core.ended.release_kept(&core.pins, core.log().durable())
}

/// Releases the checkpoint pins of transactions that are durable and left no node to remove, even when a
/// long snapshot still needs their versions.
pub(crate) fn release_durable(core: &Core) {
    release_kept(core);
    let durable = core.log().durable();
    let mut waiting = core.ended.waiting();
    for ended in waiting.iter_mut().filter(|ended| !ended.has_deleted_nodes && ended.end <= durable) {
        if let Some(pin) = ended.pin.take() {
            core.pins.release(pin);
        }
    }
}

/// The tree whose nodes are being cleaned. Trees are removed only while cleaning is paused, so one look at each is enough.
#[derive(Default)]
struct TreeLookup {
    last: Option<TreeName>,
    tree: Option<Arc<Tree>>,
}

/// File, root page and id.
type TreeName = ((FileId, PageNumber), TreeId);

impl TreeLookup {
    /// The tree that a change names; `None` if it, or its database, is not there any more.
    fn find(&mut self, core: &Core, place: (FileId, PageNumber), id: TreeId) -> Result<Option<&Arc<Tree>>> {
        if self.last != Some((place, id)) {
            let database = core.database(place.0);
            self.tree = database.map_or(Ok(None), |database| database.trees.find(place.1, id))?;
            self.last = Some((place, id));
        }
        Ok(self.tree.as_ref())
    }
}

/// After an error the rest is still there.
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
        // Its creation was rolled back, and its pages belong to others; or recovery met the detach record of the
        // database, which was clean then.
        core.versions.remove(version);
        return Ok(());
    };
    match version.change {
        Change::FlagDelete => tree.remove_deleted(&version.bookmark, Some(version), oldest),
        _ => tree.remove_deleted(&version.bookmark, None, oldest),
    }
}

#[cfg(test)]
#[path = "cleanup_tests.rs"]
mod tests;
