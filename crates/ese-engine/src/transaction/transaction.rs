//! Transaction identities, snapshots, and the table of running transactions.

use crossbeam_utils::CachePadded;
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU64, Ordering};

use ese_format::LogPosition;
use jetcell_sync::Mutex;

use crate::log::TransactionNumbers;
use crate::sharded::{ShardIndex, Sharded};

/// A commit's sequence number. A snapshot sees all commits with smaller numbers. ESE: `TRX`.
#[doc(alias = "TRX")]
pub type CommitNumber = u64;

const ROLLED_BACK: u64 = u64::MAX;

/// Identity of one outermost transaction. All of its versions share it, so a single atomic store commits them all.
#[derive(Debug)]
pub struct Transaction {
    /// Session number in log records.
    pub procid: u16,
    /// Snapshot of the transaction: commits with a smaller number are visible.
    pub snapshot: CommitNumber,
    /// Number of the transaction's table entry. It is not greater than the snapshot.
    entered: CommitNumber,
    /// Shard that contains the transaction's table entry.
    shard: ShardIndex,
    outcome: AtomicU64,
    /// End of the commit record.
    end: AtomicU64,
}

impl Transaction {
    /// Creates a running transaction.
    pub fn new(procid: u16, snapshot: CommitNumber) -> Arc<Transaction> {
        Arc::new(Transaction::running(procid, snapshot))
    }

    fn running(procid: u16, snapshot: CommitNumber) -> Transaction {
        Transaction {
            procid,
            snapshot,
            entered: snapshot,
            shard: ShardIndex::default(),
            outcome: AtomicU64::new(0),
            end: AtomicU64::default(),
        }
    }

    /// Returns the commit number, or `None` if the transaction has not committed.
    pub fn committed(&self) -> Option<CommitNumber> {
        match self.outcome.load(Ordering::Acquire) {
            0 | ROLLED_BACK => None,
            number => Some(number),
        }
    }

    /// Returns whether the transaction has neither committed nor been rolled back.
    pub fn is_running(&self) -> bool {
        self.outcome.load(Ordering::Acquire) == 0
    }

    /// Returns the position up to which the log must be durable for the commit to survive a crash. Returns the smallest
    /// position if the transaction has not committed.
    pub fn commit_end(&self) -> LogPosition {
        match self.committed() {
            Some(_) => LogPosition::from_u64(self.end.load(Ordering::Acquire)),
            None => LogPosition::MIN,
        }
    }

    /// Makes all of the transaction's changes visible at once. The commit record ends at `end`.
    pub fn set_committed(&self, number: CommitNumber, end: LogPosition) {
        self.end.store(end.to_u64(), Ordering::Release);
        self.outcome.store(number, Ordering::Release);
    }

    /// Records that all changes were undone.
    pub fn set_rolled_back(&self) {
        self.outcome.store(ROLLED_BACK, Ordering::Release);
    }
}

/// The set of changes that a reader can see: its own changes, and commits before its snapshot.
#[derive(Clone, Debug)]
pub struct ReadView {
    /// The reader's transaction, if it has one.
    pub own: Option<Arc<Transaction>>,
    /// The reader's snapshot: commits below this number are visible.
    pub snapshot: CommitNumber,
}

impl ReadView {
    /// Returns a view that sees all commits, past and future. Intended for background work that needs the newest state.
    pub fn latest() -> ReadView {
        ReadView { own: None, snapshot: ROLLED_BACK - 1 }
    }

    /// Returns whether a change by `transaction` is visible.
    pub fn sees(&self, transaction: &Arc<Transaction>) -> bool {
        if self.own.as_ref().is_some_and(|own| Arc::ptr_eq(own, transaction)) {
            return true;
        }
        transaction.committed().is_some_and(|number| number < self.snapshot)
    }
}

/// One shard of the table of running transactions.
#[derive(Debug, Default)]
struct SnapshotShard {
    snapshots: Vec<CommitNumber>,
}

/// Table of all running transactions in an instance.
///
/// Invariant: a commit gets its number and its log position, and takes effect, in one atomic step. Therefore commit
/// order equals log order, and a prefix of the log contains a prefix of the commits. A snapshot sees each commit
/// completely or not at all.
#[derive(Debug, Default)]
pub struct TransactionTable {
    running: Sharded<Mutex<SnapshotShard>>,
    numbers: Arc<CachePadded<TransactionNumbers>>,
}

impl TransactionTable {
    /// Begins a transaction with a snapshot of the current state. Each snapshot number is used only once, so it also
    /// identifies the transaction.
    pub fn begin(&self, procid: u16) -> Arc<Transaction> {
        // The entry is added before the snapshot is taken. Therefore a search for the oldest snapshot either finds
        // the entry, or has read the current number before the entry was added. In both cases, the result of the
        // search is not greater than this snapshot.
        let (shard, entered) = (self.running.own_shard(), self.now());
        self.running.shard(shard).lock().snapshots.push(entered);
        let snapshot = self.numbers.take(1);
        Arc::new(Transaction { shard, entered, ..Transaction::running(procid, snapshot) })
    }

    /// Returns the number that the next commit will get, which is also the snapshot of a reader that starts now.
    pub fn now(&self) -> CommitNumber {
        self.numbers.next()
    }

    /// Returns the transaction numbers, for changes made outside sessions.
    pub(crate) fn numbers(&self) -> Arc<CachePadded<TransactionNumbers>> {
        self.numbers.clone()
    }

    /// Sets the number of the next commit, after recovery.
    pub fn continue_from(&self, next: CommitNumber) {
        self.numbers.continue_from(next);
    }

    /// Commits a transaction. `log` gets the commit number, appends the commit record, and returns the record's end.
    /// It is called in commit order and must not wait, because no other transaction can begin while it runs.
    pub fn commit<E>(
        &self,
        transaction: &Transaction,
        log: impl FnOnce(CommitNumber) -> Result<LogPosition, E>,
    ) -> Result<(CommitNumber, LogPosition), E> {
        let _one = self.numbers.hold();
        let number = self.now();
        let end = log(number)?;
        transaction.set_committed(number, end);
        self.numbers.assigned(number);
        Ok((number, end))
    }

    /// Removes a committed or rolled-back transaction from the table.
    pub fn end(&self, transaction: &Transaction) {
        let snapshots = &mut self.running.shard(transaction.shard).lock().snapshots;
        if let Some(place) = snapshots.iter().position(|entered| *entered == transaction.entered) {
            snapshots.swap_remove(place);
        }
    }

    /// Returns whether any transaction is running.
    pub fn any_running(&self) -> bool {
        self.running.iter().any(|shard| !shard.lock().snapshots.is_empty())
    }

    /// Returns the oldest running snapshot. All running snapshots see the commits below this number, and do not need
    /// the states before those commits.
    pub fn oldest_snapshot(&self) -> CommitNumber {
        let now = self.now();
        let oldest = |shard: &Mutex<SnapshotShard>| shard.lock().snapshots.iter().min().copied();
        self.running.iter().filter_map(oldest).min().map_or(now, |oldest| oldest.min(now))
    }

    /// Returns whether no other running transaction began earlier.
    pub fn is_oldest(&self, transaction: &Transaction) -> bool {
        transaction.entered <= self.oldest_snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_only_earlier_commits_and_its_own_changes() {
        let table = TransactionTable::default();
        let early = table.begin(1);
        table.commit::<()>(&early, |_| Ok(LogPosition::MIN)).unwrap();
        let reader = table.begin(1);
        let late = table.begin(1);
        let view = ReadView { own: Some(reader.clone()), snapshot: reader.snapshot };
        assert!(view.sees(&early) && view.sees(&reader) && !view.sees(&late));
        table.commit::<()>(&late, |_| Ok(LogPosition::MIN)).unwrap();
        assert!(!view.sees(&late), "committed after the snapshot");
        assert!(ReadView::latest().sees(&late));
    }

    #[test]
    fn concurrent_begins_and_commits_keep_snapshots_consistent() {
        let table = TransactionTable::default();
        let newest = Mutex::new(table.begin(1));
        let highest_oldest = AtomicU64::new(0);
        let session = || {
            for _ in 0..20_000 {
                let floor = highest_oldest.load(Ordering::Acquire);
                let transaction = table.begin(1);
                assert!(transaction.snapshot >= floor, "history that the snapshot needs can be removed");
                let view = ReadView { own: None, snapshot: transaction.snapshot };
                let other = newest.lock().clone();
                let seen = view.sees(&other);
                let oldest = table.oldest_snapshot();
                assert!(oldest <= transaction.snapshot);
                highest_oldest.fetch_max(oldest, Ordering::AcqRel);
                *newest.lock() = transaction.clone();
                assert_eq!(view.sees(&other), seen, "a commit became visible to a snapshot taken before");
                table.commit::<()>(&transaction, |_| Ok(LogPosition::MIN)).unwrap();
                assert!(!view.sees(&transaction));
                table.end(&transaction);
            }
        };
        jetcell_sync::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(session))));
    }

    /// Checks that a commit's end is the end of its record. A page with a change from the commit must not be written
    /// before the log is durable up to this position.
    #[test]
    fn a_commit_end_is_the_end_position_for_the_record() {
        let table = TransactionTable::default();
        let (t, end) = (table.begin(1), LogPosition::new(3, 7, 99));
        assert_eq!(t.commit_end(), LogPosition::MIN);
        table.commit::<()>(&t, |_| Ok(end)).unwrap();
        assert_eq!(t.commit_end(), end);
    }

    #[test]
    fn a_transaction_whose_commit_record_cannot_be_logged_stays_running() {
        let table = TransactionTable::default();
        let t = table.begin(1);
        assert!(table.commit(&t, |_| Err("full")).is_err());
        assert!(t.is_running());
        assert_eq!(table.oldest_snapshot(), t.snapshot);
        table.end(&t);
        assert_eq!(table.oldest_snapshot(), table.now());
    }
}
