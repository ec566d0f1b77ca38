//! Transaction identities, snapshots, and which of them are still running.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ese_format::LogPosition;
use parking_lot::Mutex;

/// Place of a commit in the order of commits; a snapshot sees all smaller ones. ESE: `TRX`.
#[doc(alias = "TRX")]
pub type CommitNumber = u64;

const ROLLED_BACK: u64 = u64::MAX;

/// Identity of one outermost transaction, shared by all its versions: one store commits them all at once.
#[derive(Debug)]
pub struct Transaction {
    /// Snapshot: commits with a smaller number are visible.
    pub snapshot: CommitNumber,
    outcome: AtomicU64,
    /// Where the commit record ends.
    end: AtomicU64,
}

impl Transaction {
    /// A running transaction.
    pub fn new(snapshot: CommitNumber) -> Arc<Transaction> {
        Arc::new(Transaction { snapshot, outcome: AtomicU64::new(0), end: AtomicU64::default() })
    }

    /// The commit number, once committed.
    pub fn committed(&self) -> Option<CommitNumber> {
        match self.outcome.load(Ordering::Acquire) {
            0 | ROLLED_BACK => None,
            number => Some(number),
        }
    }

    /// Neither committed nor rolled back.
    pub fn is_running(&self) -> bool {
        self.outcome.load(Ordering::Acquire) == 0
    }

    /// The commit survives a crash once the log is durable up to here; the smallest position unless committed.
    pub fn commit_end(&self) -> LogPosition {
        match self.committed() {
            Some(_) => LogPosition::from_u64(self.end.load(Ordering::Acquire)),
            None => LogPosition::MIN,
        }
    }

    /// Makes every change of the transaction visible at once. The commit record ends at `end`.
    pub fn set_committed(&self, number: CommitNumber, end: LogPosition) {
        self.end.store(end.to_u64(), Ordering::Release);
        self.outcome.store(number, Ordering::Release);
    }

    /// Records that everything was undone.
    pub fn set_rolled_back(&self) {
        self.outcome.store(ROLLED_BACK, Ordering::Release);
    }
}

/// What a reader may see: its own changes and commits before its snapshot.
#[derive(Clone, Debug)]
pub struct View {
    /// The reader's own transaction, if it has one.
    pub own: Option<Arc<Transaction>>,
    /// Commits below this number are visible.
    pub snapshot: CommitNumber,
}

impl View {
    /// Sees everything committed so far and after; for background work that must meet the newest state.
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

#[derive(Debug, Default)]
struct Running {
    snapshots: BTreeMap<CommitNumber, usize>,
    holds: BTreeMap<LogPosition, usize>,
}

/// All running transactions of an instance.
///
/// Invariant: the counter only moves under the lock, together with the append of the commit record, so commit
/// order equals log order and a prefix of the log is a prefix of the commits.
#[derive(Debug)]
pub struct TransactionTable {
    running: Mutex<Running>,
    next: AtomicU64,
}

impl Default for TransactionTable {
    fn default() -> Self {
        TransactionTable { running: Mutex::default(), next: AtomicU64::new(1) }
    }
}

impl TransactionTable {
    /// Starts a transaction with a snapshot of now. Its number is used once, so it also names the transaction.
    pub fn begin(&self) -> Arc<Transaction> {
        let mut running = self.running.lock();
        let snapshot = self.next.fetch_add(1, Ordering::AcqRel);
        *running.snapshots.entry(snapshot).or_default() += 1;
        Transaction::new(snapshot)
    }

    /// The number the next commit will get; also the snapshot of a reader that starts now.
    pub fn now(&self) -> CommitNumber {
        self.next.load(Ordering::Acquire)
    }

    /// Continues numbering after recovery.
    pub fn continue_from(&self, next: CommitNumber) {
        self.next.fetch_max(next.max(1), Ordering::AcqRel);
    }

    /// Commits: `log` appends the commit record with the number it is given, in commit order, and says where it ends.
    pub fn commit<E>(
        &self,
        transaction: &Transaction,
        log: impl FnOnce(CommitNumber) -> Result<LogPosition, E>,
    ) -> Result<(CommitNumber, LogPosition), E> {
        let _order = self.running.lock();
        let number = self.next.load(Ordering::Acquire);
        let end = log(number)?;
        transaction.set_committed(number, end);
        self.next.store(number + 1, Ordering::Release);
        Ok((number, end))
    }

    /// Forgets a transaction that committed or rolled back.
    pub fn end(&self, transaction: &Transaction) {
        let mut running = self.running.lock();
        release(&mut running.snapshots, transaction.snapshot);
    }

    /// Whether any transaction runs.
    pub fn any_running(&self) -> bool {
        !self.running.lock().snapshots.is_empty()
    }

    /// Every version committed below this number is invisible history to nobody.
    pub fn oldest_snapshot(&self) -> CommitNumber {
        let running = self.running.lock();
        running.snapshots.keys().next().copied().unwrap_or_else(|| self.next.load(Ordering::Acquire))
    }

    /// Keeps the checkpoint at or below `position` until released. Must be called with a position read before
    /// the record that needs it is appended.
    pub fn hold_checkpoint(&self, position: LogPosition) {
        *self.running.lock().holds.entry(position).or_default() += 1;
    }

    /// Ends a hold.
    pub fn release_checkpoint(&self, position: LogPosition) {
        release(&mut self.running.lock().holds, position);
    }

    /// The oldest held position.
    pub fn oldest_hold(&self) -> Option<LogPosition> {
        self.running.lock().holds.keys().next().copied()
    }
}

fn release<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let std::collections::btree_map::Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_only_earlier_commits_and_itself() {
        let table = TransactionTable::default();
        let early = table.begin();
        table.commit::<()>(&early, |_| Ok(LogPosition::MIN)).unwrap();
        let reader = table.begin();
        let late = table.begin();
        let view = View { own: Some(reader.clone()), snapshot: reader.snapshot };
        assert!(view.sees(&early) && view.sees(&reader) && !view.sees(&late));
        table.commit::<()>(&late, |_| Ok(LogPosition::MIN)).unwrap();
        assert!(!view.sees(&late), "committed after the snapshot");
        assert!(View::latest().sees(&late));
    }

    #[test]
    fn a_commit_whose_record_cannot_be_logged_stays_running() {
        let table = TransactionTable::default();
        let t = table.begin();
        assert!(table.commit(&t, |_| Err("full")).is_err());
        assert!(t.is_running());
        assert_eq!(table.oldest_snapshot(), t.snapshot);
        table.end(&t);
        assert_eq!(table.oldest_snapshot(), table.now());
    }
}
