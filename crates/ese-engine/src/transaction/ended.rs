//! Transactions that have ended and whose history is still to be removed.

use jetcell_sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;

use ese_format::LogPosition;
use jetcell_sync::{Mutex, MutexGuard};

use super::{CommitNumber, UndoEntry};
use crate::cache::FileId;
use crate::sharded::Sharded;
use crate::storage::{CheckpointPin, CheckpointPins};

/// What an ended transaction leaves for cleanup.
pub(crate) struct EndedTransaction {
    /// Its history is invisible once the oldest snapshot is above this.
    pub number: CommitNumber,
    /// Where its last record ends.
    pub end: LogPosition,
    /// Keeps the checkpoint before its first record.
    pub pin: Option<CheckpointPin>,
    /// Its changes, the last one first to be cleaned.
    pub changes: Vec<UndoEntry>,
    /// Whether cleanup has nodes to remove.
    pub has_deleted_nodes: bool,
}

impl EndedTransaction {
    pub fn new(
        number: CommitNumber,
        end: LogPosition,
        pin: Option<CheckpointPin>,
        changes: Vec<UndoEntry>,
    ) -> EndedTransaction {
        let has_deleted_nodes = changes.iter().any(UndoEntry::leaves_deleted_node);
        EndedTransaction { number, end, pin, changes, has_deleted_nodes }
    }
}

/// Ended transactions in the order in which they ended.
#[derive(Default)]
pub struct EndedTransactions {
    /// Those that ended a moment ago, of each thread's own.
    arrivals: Sharded<Mutex<Vec<EndedTransaction>>>,
    waiting: Mutex<VecDeque<EndedTransaction>>,
    /// Pins of transactions that are cleaned, each with the position that must be durable before the pin is released.
    pinned: Mutex<VecDeque<(LogPosition, CheckpointPin)>>,
    /// One cleaner at a time keeps the order.
    cleaning: Mutex<()>,
    /// The snapshot of a transaction for whose end others have waited in vain.
    hopeless: AtomicU64,
}

impl EndedTransactions {
    pub(crate) fn push(&self, ended: EndedTransaction) {
        self.arrivals.shard(self.arrivals.own_shard()).lock().push(ended);
    }

    /// All that wait, in order.
    pub(crate) fn waiting(&self) -> MutexGuard<'_, VecDeque<EndedTransaction>> {
        let mut waiting = self.waiting.lock();
        let mut arrived: Vec<EndedTransaction> = Vec::new();
        for shard in self.arrivals.iter() {
            arrived.append(&mut shard.lock());
        }
        arrived.sort_by_key(|ended| ended.number);
        waiting.extend(arrived);
        waiting
    }

    /// Keeps cleaning from running while the result lives.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.cleaning.lock()
    }

    /// The same, unless a cleaner is at work.
    pub(crate) fn try_pause(&self) -> Option<MutexGuard<'_, ()>> {
        self.cleaning.try_lock()
    }

    /// Forgets everything: the instance ends without a shutdown.
    pub(crate) fn clear(&self) {
        self.waiting().clear();
        self.pinned.lock().clear();
    }

    /// Forgets what was to be done in a database that is not in use any more.
    pub(crate) fn forget(&self, file: FileId) {
        for ended in self.waiting().iter_mut() {
            ended.changes.retain(|change| change.file() != file);
        }
    }

    /// Transactions that wait, for others to end or for the log.
    pub fn len(&self) -> usize {
        self.waiting().len() + self.pinned.lock().len()
    }

    /// Nothing to clean.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most `most` of those whose history no snapshot sees. New arrivals are left.
    pub(crate) fn take_front(&self, oldest: CommitNumber, most: usize) -> VecDeque<EndedTransaction> {
        let mut waiting = self.waiting.lock();
        let count = waiting.iter().take(most).take_while(|ended| ended.number < oldest).count();
        waiting.drain(..count).collect()
    }

    /// Puts back what was taken, in front of the others.
    pub(crate) fn put_back(&self, taken: Vec<EndedTransaction>) {
        let mut waiting = self.waiting();
        taken.into_iter().rev().for_each(|ended| waiting.push_front(ended));
    }

    /// Keeps a pin until the log is durable up to `end`.
    pub(crate) fn keep_pin(&self, pin: CheckpointPin, end: LogPosition) {
        self.pinned.lock().push_back((end, pin));
    }

    /// Releases kept pins for which the log is durable; returns how many.
    pub(crate) fn release_kept(&self, pins: &CheckpointPins, durable: LogPosition) -> usize {
        let mut pinned = self.pinned.lock();
        let before = pinned.len();
        pinned.retain(|(end, pin)| {
            let released = *end <= durable;
            if released {
                pins.release(*pin);
            }
            !released
        });
        before - pinned.len()
    }

    /// Whether others have waited in vain for the transaction with this snapshot.
    pub(crate) fn is_hopeless(&self, snapshot: CommitNumber) -> bool {
        self.hopeless.load(Ordering::Relaxed) == snapshot
    }

    /// Others have waited in vain for the transaction with this snapshot.
    pub(crate) fn set_hopeless(&self, snapshot: CommitNumber) {
        self.hopeless.store(snapshot, Ordering::Relaxed);
    }
}
