//! Transaction identities, snapshots, and the table of running transactions.

use crossbeam_utils::CachePadded;
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU64, Ordering};

use ese_format::LogPosition;
use jetcell_sync::Mutex;

use crate::log::TransactionNumbers;
use crate::sharded::{ShardIndex, Sharded};

/// The number of a commit in commit order. A snapshot sees all smaller numbers. ESE: `TRX`.
#[doc(alias = "TRX")]
pub type CommitNumber = u64;

const ROLLED_BACK: u64 = u64::MAX;

/// Identity of one outermost transaction, shared by all its versions: a single store commits all of them.
#[derive(Debug)]
pub struct Transaction {
    /// The session, as log records name it.
    pub procid: u16,
    /// Snapshot: commits with a smaller number are visible.
    pub snapshot: CommitNumber,
    /// The number of its entry in the table. Not above the snapshot.
    entered: CommitNumber,
    /// The shard of its entry in the table.
    shard: ShardIndex,
    outcome: AtomicU64,
    /// The end of the commit record.
    end: AtomicU64,
}

impl Transaction {
    /// A running transaction.
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

    /// The commit number, if committed.
    pub fn committed(&self) -> Option<CommitNumber> {
        match self.outcome.load(Ordering::Acquire) {
            0 | ROLLED_BACK => None,
            number => Some(number),
        }
    }

    /// Whether the transaction is neither committed nor rolled back.
    pub fn is_running(&self) -> bool {
        self.outcome.load(Ordering::Acquire) == 0
    }

    /// The commit survives a crash if the log is durable up to here. The smallest position if not committed.
    pub fn commit_end(&self) -> LogPosition {
        match self.committed() {
            Some(_) => LogPosition::from_u64(self.end.load(Ordering::Acquire)),
            None => LogPosition::MIN,
        }
    }

    /// Makes all changes of the transaction visible at once. The commit record ends at `end`.
    pub fn set_committed(&self, number: CommitNumber, end: LogPosition) {
        self.end.store(end.to_u64(), Ordering::Release);
        self.outcome.store(number, Ordering::Release);
    }

    /// Records that all changes were undone.
    pub fn set_rolled_back(&self) {
        self.outcome.store(ROLLED_BACK, Ordering::Release);
    }
}

/// What a reader can see: its own changes, and commits before its snapshot.
#[derive(Clone, Debug)]
pub struct View {
    /// The reader's own transaction, if it has one.
    pub own: Option<Arc<Transaction>>,
    /// Commits below this number are visible.
    pub snapshot: CommitNumber,
}

impl View {
    /// A view that sees all commits, past and future. For background work that needs the newest state.
    pub fn latest() -> View {
        View { own: None, snapshot: ROLLED_BACK - 1 }
    }

    /// Whether a change by `transaction` is visible.
    pub fn sees(&self, transaction: &Arc<Transaction>) -> bool {
        if self.own.as_ref().is_some_and(|own| Arc::ptr_eq(own, transaction)) {
            return true;
        }
        transaction.committed().is_some_and(|number| number < self.snapshot)
    }
}

/// One shard of the running transactions.
#[derive(Debug, Default)]
struct Running {
    snapshots: Vec<CommitNumber>,
}

/// All running transactions of an instance.
///
/// Invariant: a commit gets its number, its place in the log and its effect in one step. So commit order equals log
/// order, a prefix of the log is a prefix of the commits, and a snapshot sees each commit completely or not at all.
#[derive(Debug, Default)]
pub struct TransactionTable {
    running: Sharded<Mutex<Running>>,
    numbers: Arc<CachePadded<TransactionNumbers>>,
}

impl TransactionTable {
    /// Begins a transaction with a snapshot of now. Its number is used once, so it also identifies the transaction.
    pub fn begin(&self, procid: u16) -> Arc<Transaction> {
        // The entry is added before the snapshot is taken. So a search for the oldest snapshot either finds the entry,
        // or had read the current number before: its result is not above this snapshot.
        let (shard, entered) = (self.running.own_shard(), self.now());
        self.running.shard(shard).lock().snapshots.push(entered);
        let snapshot = self.numbers.take(1);
        Arc::new(Transaction { shard, entered, ..Transaction::running(procid, snapshot) })
    }

    /// The number of the next commit. It is also the snapshot of a reader that starts now.
    pub fn now(&self) -> CommitNumber {
        self.numbers.next()
    }

    /// The numbers, for changes outside of sessions.
    pub(crate) fn numbers(&self) -> Arc<CachePadded<TransactionNumbers>> {
        self.numbers.clone()
    }

    /// Continues the numbers after recovery.
    pub fn continue_from(&self, next: CommitNumber) {
        self.numbers.continue_from(next);
    }

    /// Commits. `log` gets the commit number, appends the commit record, and returns where the record ends. It is
    /// called in commit order and must not wait, because no other transaction can begin meanwhile.
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

    /// Removes a transaction that committed or rolled back.
    pub fn end(&self, transaction: &Transaction) {
        let snapshots = &mut self.running.shard(transaction.shard).lock().snapshots;
        if let Some(place) = snapshots.iter().position(|entered| *entered == transaction.entered) {
            snapshots.swap_remove(place);
        }
    }

    /// Whether any transaction runs.
    pub fn any_running(&self) -> bool {
        self.running.iter().any(|shard| !shard.lock().snapshots.is_empty())
    }

    /// All running snapshots see the commits below this number, so none of them needs the states before these commits.
    pub fn oldest_snapshot(&self) -> CommitNumber {
        let now = self.now();
        let oldest = |shard: &Mutex<Running>| shard.lock().snapshots.iter().min().copied();
        self.running.iter().filter_map(oldest).min().map_or(now, |oldest| oldest.min(now))
    }

    /// Whether no other running transaction began earlier.
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
        let view = View { own: Some(reader.clone()), snapshot: reader.snapshot };
        assert!(view.sees(&early) && view.sees(&reader) && !view.sees(&late));
        table.commit::<()>(&late, |_| Ok(LogPosition::MIN)).unwrap();
        assert!(!view.sees(&late), "committed after the snapshot");
        assert!(View::latest().sees(&late));
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
                let view = View { own: None, snapshot: transaction.snapshot };
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

    /// A page with a change must not be written before the log is durable up to here.
    #[test]
    fn a_commit_ends_behind_its_record() {
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
