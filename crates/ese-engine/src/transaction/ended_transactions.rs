//! Ended transactions whose history has not been removed yet.

use jetcell_sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;

use ese_format::LogPosition;
use jetcell_sync::{Mutex, MutexGuard};

use super::{CommitNumber, UndoEntry};
use crate::Result;
use crate::cache::AttachedFileId;
use crate::sharded::Sharded;
use crate::storage::{CheckpointPin, CheckpointPins};

/// An ended transaction, with the state needed for its cleanup.
pub(crate) struct EndedTransaction {
    /// Commit number of the transaction. Its history can be removed once the oldest snapshot is greater than this
    /// number.
    pub number: CommitNumber,
    /// End of the transaction's last record.
    pub end: LogPosition,
    /// Pin that keeps the checkpoint from passing the transaction's first record.
    pub pin: Option<CheckpointPin>,
    /// Changes made by the transaction. Cleanup starts with the last one.
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

/// Queue of ended transactions, in the order in which they ended.
#[derive(Default)]
pub struct EndedTransactions {
    /// Recently ended transactions, with one shard per group of threads.
    arrivals: Sharded<Mutex<Vec<EndedTransaction>>>,
    waiting: Mutex<VecDeque<EndedTransaction>>,
    /// Pins of cleaned-up transactions, each with the position up to which the log must be durable before the pin is
    /// released.
    pinned: Mutex<VecDeque<(LogPosition, CheckpointPin)>>,
    /// Held by the thread that cleans up. Only one thread cleans up at a time, which preserves the order.
    cleaning: Mutex<()>,
    /// Snapshot of a running transaction for whose end other threads have waited in vain.
    timed_out_wait: AtomicU64,
}

impl EndedTransactions {
    pub(crate) fn push(&self, ended: EndedTransaction) {
        self.arrivals.shard(self.arrivals.own_shard()).lock().push(ended);
    }

    /// Returns all ended transactions, in order.
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

    /// Prevents cleanup until the result is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.cleaning.lock()
    }

    /// Prevents cleanup like [`EndedTransactions::pause`], but returns `None` if cleanup is running.
    pub(crate) fn try_pause(&self) -> Option<MutexGuard<'_, ()>> {
        self.cleaning.try_lock()
    }

    /// Drops all entries. Used when an instance ends without a shutdown.
    pub(crate) fn clear(&self) {
        self.waiting().clear();
        self.pinned.lock().clear();
    }

    /// Drops the entries for a database that is no longer in use, or that was clean at this position in the log.
    /// Their before-images are no longer needed.
    pub(crate) fn forget(&self, file: AttachedFileId, pins: &CheckpointPins) {
        // The closure never returns an error.
        let _ = self.retain(pins, |change| Ok(change.file() != file));
    }

    /// Drops the changes for which `is_needed` returns false, and releases the pins of transactions without changes.
    /// The before-images of dropped changes are no longer needed.
    pub(crate) fn retain(
        &self,
        pins: &CheckpointPins,
        mut is_needed: impl FnMut(&UndoEntry) -> Result<bool>,
    ) -> Result<()> {
        let mut all: Vec<EndedTransaction> = self.waiting().drain(..).collect();
        let mut outcome = Ok(());
        for ended in &mut all {
            ended.changes.retain(|change| {
                let needed = outcome.is_err()
                    || is_needed(change).unwrap_or_else(|error| {
                        outcome = Err(error);
                        true
                    });
                if let (false, Some(version)) = (needed, change.version()) {
                    version.settled.store(true, Ordering::Release);
                }
                needed
            });
        }
        for ended in all.iter_mut().filter(|ended| ended.changes.is_empty()) {
            if let Some(pin) = ended.pin.take() {
                pins.release(pin);
            }
        }
        all.retain(|ended| !ended.changes.is_empty());
        self.requeue(all);
        outcome
    }

    /// Returns the number of transactions that wait for other transactions to end, or for the log to become durable.
    pub fn len(&self) -> usize {
        self.waiting().len() + self.pinned.lock().len()
    }

    /// Returns whether all history has been removed. Pins may remain until the waypoint has passed the end of the
    /// removals.
    pub fn is_cleaned(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Returns whether no transaction is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes and returns at most `most` transactions whose history no snapshot can see. Does not include recent
    /// arrivals.
    pub(crate) fn take_front(&self, oldest: CommitNumber, most: usize) -> VecDeque<EndedTransaction> {
        let mut waiting = self.waiting.lock();
        let count = waiting.iter().take(most).take_while(|ended| ended.number < oldest).count();
        waiting.drain(..count).collect()
    }

    /// Puts transactions back at the front of the queue.
    pub(crate) fn requeue(&self, taken: Vec<EndedTransaction>) {
        let mut waiting = self.waiting();
        taken.into_iter().rev().for_each(|ended| waiting.push_front(ended));
    }

    /// Retains a pin until the log is durable up to `end`.
    pub(crate) fn retain_pin(&self, pin: CheckpointPin, end: LogPosition) {
        self.pinned.lock().push_back((end, pin));
    }

    /// Releases the retained pins for which the log is durable. Returns how many were released.
    pub(crate) fn release_durable_pins(&self, pins: &CheckpointPins, durable: LogPosition) -> usize {
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

    /// Returns whether other threads have waited in vain for the transaction with this snapshot to end.
    pub(crate) fn has_wait_timed_out(&self, snapshot: CommitNumber) -> bool {
        self.timed_out_wait.load(Ordering::Relaxed) == snapshot
    }

    /// Records that other threads have waited in vain for the transaction with this snapshot to end.
    pub(crate) fn set_wait_timed_out(&self, snapshot: CommitNumber) {
        self.timed_out_wait.store(snapshot, Ordering::Relaxed);
    }
}
