//! Removing history that nobody can see any more: versions, and nodes flagged deleted.
//!
//! Invariant: a transaction with deletions holds the checkpoint back until its nodes are gone, so recovery always
//! meets the FlagDelete record of a node that is still there and can remove it; a clean database has none.

use std::collections::VecDeque;
use std::time::Duration;

use ese_format::LogPosition;
use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Arc, Mutex, MutexGuard};

use crate::btree::Tree;
use crate::core::Core;
use crate::database::Database;
use crate::session::Done;
use crate::sharded::Sharded;
use crate::versions::{Change, CommitNumber, Hold, Transaction};
use crate::{Error, Result};

/// Nodes whose pages are asked for at once.
const AHEAD: usize = 128;
/// Transactions taken out of the queue at once.
const BATCH: usize = 64;
/// How long changes wait for room while others, which may be waiting for a processor, keep history. Longer ones are long.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1);

/// Work of one transaction that ended.
pub(crate) struct Settled {
    /// Its history is invisible once the oldest snapshot is above this.
    number: CommitNumber,
    /// Where its last record ends.
    end: LogPosition,
    hold: Option<Hold>,
    done: Vec<Done>,
    has_deleted_nodes: bool,
}

impl Settled {
    pub fn new(number: CommitNumber, end: LogPosition, hold: Option<Hold>, done: Vec<Done>) -> Settled {
        let has_deleted_nodes = done.iter().any(|done| match done {
            // An insert that was rolled back is a node flagged deleted now.
            Done::Node(_, version) => {
                version.change == Change::FlagDelete
                    || version.change == Change::Insert && version.is_settled()
            }
            Done::Tree(..) => false,
        });
        Settled { number, end, hold, done, has_deleted_nodes }
    }
}

/// Ended transactions in the order they ended. ESE: version cleanup (`RCEClean`).
#[doc(alias = "RCEClean")]
#[derive(Default)]
pub struct CleanupQueue {
    /// Those that ended a moment ago, of each thread's own.
    arrivals: Sharded<Mutex<Vec<Settled>>>,
    waiting: Mutex<VecDeque<Settled>>,
    /// Holds of those that are clean, each with where the log must be durable up to for it to end.
    holding: Mutex<VecDeque<(LogPosition, Hold)>>,
    /// One cleaner at a time keeps the order.
    cleaning: Mutex<()>,
    /// The snapshot of a transaction for whose end others have waited in vain.
    hopeless: AtomicU64,
}

impl CleanupQueue {
    pub(crate) fn push(&self, settled: Settled) {
        self.arrivals.shard(self.arrivals.own_shard()).lock().push(settled);
    }

    /// All that wait, in order.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Settled>> {
        let mut waiting = self.waiting.lock();
        let mut arrived: Vec<Settled> = Vec::new();
        for shard in self.arrivals.iter() {
            arrived.append(&mut shard.lock());
        }
        arrived.sort_by_key(|settled| settled.number);
        waiting.extend(arrived);
        waiting
    }

    /// Keeps cleaning from running while the result lives.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.cleaning.lock()
    }

    /// Forgets everything: the instance ends without a shutdown.
    pub(crate) fn clear(&self) {
        self.waiting().clear();
        self.holding.lock().clear();
    }

    /// Forgets what was to be done in a database that is not in use any more.
    pub(crate) fn forget(&self, database: &Arc<Database>) {
        for settled in self.waiting().iter_mut() {
            settled.done.retain(|done| match done {
                Done::Node(tree, _) => !Arc::ptr_eq(&tree.db, database),
                Done::Tree(db, _) => !Arc::ptr_eq(db, database),
            });
        }
    }

    /// Transactions waiting, for others to end or for the log.
    pub fn len(&self) -> usize {
        self.waiting().len() + self.holding.lock().len()
    }

    /// Nothing to clean.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cleans at most `limit` transactions whose history nobody can see; returns how many. Each keeps its place
    /// until it is done, so an error, which is the first one, loses nothing: others have been cleaned all the same.
    pub(crate) fn step(&self, core: &Arc<Core>, limit: usize) -> Result<usize> {
        let Some(_one) = self.cleaning.try_lock() else { return Ok(0) };
        self.clean_some(core, limit)
    }

    /// Cleans all that can be cleaned, after whoever cleans now. Must not be called with a latch held.
    pub(crate) fn clean_all(&self, core: &Arc<Core>) -> Result<usize> {
        let _one = self.cleaning.lock();
        self.clean_some(core, usize::MAX)
    }

    /// Returns when `transaction` may change something, with a store of versions that is nearly full. Must not be called
    /// with a latch held.
    pub(crate) fn make_room(&self, core: &Arc<Core>, transaction: &Transaction) -> Result<()> {
        let mut patience = PATIENCE;
        loop {
            let cleaned = self.clean_all(core);
            if !core.versions.is_nearly_full() {
                return Ok(());
            }
            // What is left is there for transactions that run. The oldest of them may use all room, in order to end.
            if core.transactions.is_oldest(transaction) {
                return core.versions.check_room().or_else(|full| cleaned.and(Err(full)));
            }
            // Or it is there because a page cannot be read, and no waiting helps.
            cleaned?;
            // Asked for once it is known that it is somebody else's.
            let oldest = core.transactions.oldest_snapshot();
            if self.hopeless.load(Ordering::Relaxed) == oldest {
                return Err(core.versions.full());
            }
            if patience.is_zero() {
                self.hopeless.store(oldest, Ordering::Relaxed);
            }
            core.vfs.clock().sleep(PAUSE);
            patience = patience.saturating_sub(PAUSE);
        }
    }

    fn clean_some(&self, core: &Arc<Core>, limit: usize) -> Result<usize> {
        let released = self.release_holding(core);
        // Each is tried once, and what comes meanwhile is left: so this ends, whatever fails.
        let mut untried = self.waiting().len();
        let mut owner = Owner::default();
        let mut cleaned = 0;
        let (mut kept, mut failure) = (Vec::new(), None);
        while cleaned < limit && untried > 0 {
            let oldest = core.transactions.oldest_snapshot();
            let batch = self.take_front(oldest, untried.min(limit - cleaned).min(BATCH));
            if batch.is_empty() {
                break;
            }
            untried -= batch.len();
            for mut settled in batch {
                match clean_settled(core, &mut settled, oldest, &mut owner) {
                    Ok(()) => {
                        self.finish(core, settled);
                        cleaned += 1;
                    }
                    // A page that cannot be read is in nobody else's way. Anything else is in everybody's.
                    Err(error) => {
                        if !matches!(error, Error::Io { .. } | Error::Corrupt { .. }) {
                            untried = 0;
                        }
                        failure.get_or_insert(error);
                        kept.push(settled);
                    }
                }
            }
        }
        let Some(error) = failure else { return Ok(released + cleaned) };
        let mut waiting = self.waiting();
        kept.into_iter().rev().for_each(|settled| waiting.push_front(settled));
        Err(error)
    }

    /// Cleans what recovery found, in the order of trees and keys: each page comes once, and a batch ahead. After an
    /// error it is forgotten.
    pub(crate) fn clean_in_order(&self, core: &Arc<Core>) -> Result<()> {
        let _one = self.cleaning.lock();
        let oldest = core.transactions.oldest_snapshot();
        let mut nodes = Vec::new();
        // Of a rollback, which holds the checkpoint, the rest of the cleanup takes care.
        for settled in self.waiting().iter_mut().filter(|settled| settled.hold.is_none()) {
            nodes.append(&mut settled.done);
        }
        let place = |done: &Done| match done {
            Done::Node(_, version) => (version.tree, version.bookmark.clone()),
            Done::Tree(database, root) => ((database.file_id, *root), Box::default()),
        };
        nodes.sort_by_cached_key(place);
        let (mut owner, mut ahead) = (Owner::default(), Owner::default());
        let mut read = |nodes: &[Done]| {
            let leaf = |done: &Done| {
                let Done::Node(tree, version) = done else { return None };
                ahead.look_at(core, tree);
                let leaf = (ahead.attached && ahead.open).then(|| tree.leaf_of(&version.bookmark));
                Some(tree.db.page_key(leaf?.ok()??))
            };
            core.cache.preread(&nodes.iter().filter_map(leaf).collect::<Vec<_>>());
        };
        let mut batches = nodes.chunks(AHEAD).peekable();
        batches.peek().into_iter().for_each(|first| read(first));
        while let Some(batch) = batches.next() {
            batches.peek().into_iter().for_each(|next| read(next));
            batch.iter().try_for_each(|done| clean(core, done, oldest, &mut owner))?;
        }
        Ok(())
    }

    /// At most `most` of those whose history nobody sees.
    fn take_front(&self, oldest: CommitNumber, most: usize) -> VecDeque<Settled> {
        let mut waiting = self.waiting.lock();
        let count = waiting.iter().take(most).take_while(|settled| settled.number < oldest).count();
        waiting.drain(..count).collect()
    }

    /// The hold ends when the commit record is durable, and with it the removals: were they lost, recovery would
    /// have to meet the deletions again.
    fn finish(&self, core: &Core, settled: Settled) {
        let Some(hold) = settled.hold else { return };
        let end = if settled.has_deleted_nodes { core.log().tail() } else { settled.end };
        if core.log().durable() >= end {
            core.transactions.release_checkpoint(hold);
        } else {
            self.holding.lock().push_back((end, hold));
        }
    }

    fn release_holding(&self, core: &Core) -> usize {
        let mut holding = self.holding.lock();
        if holding.is_empty() {
            return 0;
        }
        let durable = core.log().durable();
        let before = holding.len();
        holding.retain(|(end, hold)| {
            let goes = *end <= durable;
            if goes {
                core.transactions.release_checkpoint(*hold);
            }
            !goes
        });
        before - holding.len()
    }

    /// Releases the checkpoint holds of transactions that are durable and left no node to remove, even when a
    /// long snapshot still needs their versions.
    pub(crate) fn release_durable(&self, core: &Core) {
        self.release_holding(core);
        let durable = core.log().durable();
        let mut waiting = self.waiting();
        for settled in
            waiting.iter_mut().filter(|settled| !settled.has_deleted_nodes && settled.end <= durable)
        {
            if let Some(hold) = settled.hold.take() {
                core.transactions.release_checkpoint(hold);
            }
        }
    }
}

/// Whose nodes are being cleaned. Trees are given up only while cleaning is paused, so one look at each is enough.
#[derive(Default)]
struct Owner {
    tree: Option<Arc<Tree>>,
    attached: bool,
    open: bool,
}

impl Owner {
    fn look_at(&mut self, core: &Core, tree: &Arc<Tree>) {
        if self.tree.as_ref().is_some_and(|known| Arc::ptr_eq(known, tree)) {
            return;
        }
        let database = core.database(tree.db.file_id);
        self.attached = database.is_some_and(|database| Arc::ptr_eq(&database, &tree.db));
        self.open = tree.db.open_tree(tree.root).is_some_and(|open| Arc::ptr_eq(&open, tree));
        self.tree = Some(tree.clone());
    }
}

/// After an error the rest is still there.
fn clean_settled(
    core: &Arc<Core>,
    settled: &mut Settled,
    oldest: CommitNumber,
    owner: &mut Owner,
) -> Result<()> {
    while let Some(done) = settled.done.pop() {
        if let Err(error) = clean(core, &done, oldest, owner) {
            settled.done.push(done);
            return Err(error);
        }
    }
    Ok(())
}

fn clean(core: &Arc<Core>, done: &Done, oldest: CommitNumber, owner: &mut Owner) -> Result<()> {
    let Done::Node(tree, version) = done else { return Ok(()) };
    owner.look_at(core, tree);
    if !owner.attached {
        // Recovery met its detach record: the database was clean then.
        return Ok(());
    }
    if !owner.open {
        // Its creation was rolled back, and its pages belong to others.
        core.versions.remove(version);
        return Ok(());
    }
    match version.change {
        Change::FlagDelete => tree.remove_deleted(&version.bookmark, Some(version), oldest),
        Change::Insert if version.is_settled() => tree.remove_deleted(&version.bookmark, None, oldest),
        _ => {
            core.versions.remove(version);
            Ok(())
        }
    }
}

#[cfg(test)]
#[path = "cleanup_tests.rs"]
mod tests;
