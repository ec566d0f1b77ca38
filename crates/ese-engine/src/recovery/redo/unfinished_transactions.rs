//! Operations of transactions that were unfinished at the end of the log, and deleted nodes that cleanup still has to
//! remove.

use std::collections::BTreeMap;

use ese_format::log::record::{NodeChange, PageChangeFlags, UndoInfo};
use ese_format::{LogPosition, PageNumber, TreeId};
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Mutex};

use super::Redo;
use super::counters::CounterOperation;
use super::pending_before_images::RecoveredVersion;
use crate::cache::AttachedFileId;
use crate::transaction::{
    ActiveTransaction, EndedTransaction, SYSTEM_PROCID, Transaction, UndoEntry, Version, VersionChange,
};
use crate::{Result, UsageError};

/// A versioned change to a node, which redo retains until its transaction ends.
pub(super) struct NodeOperation {
    pub database: u8,
    pub root: PageNumber,
    pub tree: TreeId,
    pub id: u32,
    /// Number of the transaction, as stored in records.
    pub begin0: u32,
    pub key: Vec<u8>,
    pub key_len: usize,
    pub level: u8,
    pub change: VersionChange,
    pub undone: bool,
    /// Index of the record in the window; `None` after the page has been replayed.
    pub record_index: Option<u32>,
    /// Version whose before-image is pending on the page.
    pub version: Option<Arc<Version>>,
    /// Whether a later record removed the node.
    pub node_removed: bool,
}

impl NodeOperation {
    fn to_version(&self, file: AttachedFileId, transaction: &Arc<Transaction>) -> Version {
        Version {
            tree: (file, self.root),
            bookmark: self.key.clone().into(),
            key_len: self.key_len,
            transaction: transaction.clone(),
            id: self.id,
            level: self.level,
            change: self.change.clone(),
            settled: AtomicBool::new(self.undone),
            undo_logged: Mutex::new(None),
        }
    }

    fn logged_change(&self) -> LoggedChange {
        (Some(self.root), self.database, self.begin0)
    }

    /// Returns whether cleanup may have to remove the node after the transaction commits.
    pub fn may_leave_deleted_node(&self) -> bool {
        match self.change {
            VersionChange::FlagDelete => !self.undone,
            VersionChange::Insert => self.undone,
            _ => false,
        }
    }

    /// Stores the information that redo found on the page, if redo made the change. If the page already had the
    /// change, an `UndoInfo` record contains the key and the before-image whenever they may be needed.
    fn complete(&mut self, recovered: &mut BTreeMap<u32, RecoveredVersion>) {
        if let Some(recovered) = self.record_index.take().and_then(|index| recovered.remove(&index)) {
            (self.key, self.key_len, self.change) = (recovered.key, recovered.key_len, recovered.change);
            (self.version, self.node_removed) = (recovered.version, recovered.node_removed);
        }
        if let Some(version) = self.version.as_ref().filter(|_| self.undone) {
            version.settled.store(true, Ordering::Release);
        }
    }
}

/// An operation performed by a transaction.
pub(super) enum TransactionOperation {
    /// A change to a node.
    Node(NodeOperation),
    /// The creation of a tree.
    CreateTree { database: u8, root: PageNumber },
    /// A change to a counter.
    Counter(CounterOperation),
}

/// A transaction that has not ended at this position in the log.
pub(super) struct OpenTransaction {
    pub transaction: Arc<Transaction>,
    pub begun: LogPosition,
    pub level: u8,
    pub operations: Vec<TransactionOperation>,
}

impl OpenTransaction {
    /// Stores the information that redo found on a window's pages.
    pub fn complete(&mut self, recovered: &mut BTreeMap<u32, RecoveredVersion>) {
        for operation in &mut self.operations {
            if let TransactionOperation::Node(operation) = operation {
                operation.complete(recovered);
            }
        }
    }

    /// Stores keys and before-images that exist only in `UndoInfo` records.
    pub fn complete_from(&mut self, infos: &UndoInfos) {
        for operation in &mut self.operations {
            let TransactionOperation::Node(operation) = operation else { continue };
            let info = infos.get(&operation.id);
            let Some(info) = info.filter(|info| change_of(&info.node) == operation.logged_change()) else {
                continue;
            };
            if operation.key.is_empty() {
                operation.key = [&info.key[..], &info.bookmark_data].concat();
                operation.key_len = info.key.len();
            }
            if operation.change == VersionChange::ReplaceUnknown {
                operation.change = VersionChange::Replace { before: info.before.clone().into() };
            }
        }
    }
}

/// Before-images and keys from the log, indexed by version id. They are collected before redo, because a record may
/// need one that comes later in the log. ESE: `LRUNDOINFO`.
pub(crate) type UndoInfos = BTreeMap<u32, UndoInfo>;

/// Transactions for undo to roll back, and the numbers from which normal operation continues.
pub(crate) struct UnfinishedTransactions {
    pub transactions: Vec<ActiveTransaction>,
    pub next_number: u64,
    /// Newest version id in the log, or 0 if the log contains no version ids.
    pub newest_id: u32,
}

impl Redo {
    /// Ends a transaction, and passes the nodes that it deleted to cleanup.
    pub(super) fn end_transaction(&mut self, open: OpenTransaction, end: LogPosition) -> Result<()> {
        let committed = open.transaction.committed().is_some();
        let mut entries = Vec::new();
        for operation in open.operations {
            let TransactionOperation::Node(operation) = operation else { continue };
            let deleted = operation.may_leave_deleted_node()
                && !operation.node_removed
                && (committed || operation.undone);
            // If the key is empty, later records have removed the node. Either the page has these changes, or the
            // cache stores them for the page.
            if deleted && !operation.key.is_empty() {
                entries.push(self.undo_entry(operation, &open.transaction)?);
            }
        }
        if !entries.is_empty() {
            // Redo of another engine's log runs for a long time, while the checkpoint advances.
            let pin = self.core.log().is_received().then(|| self.core.pins.pin(open.begun));
            self.core.ended.push(EndedTransaction::new(0, end, pin, entries));
        }
        Ok(())
    }

    fn undo_entry(&self, operation: NodeOperation, transaction: &Arc<Transaction>) -> Result<UndoEntry> {
        let file = self.database(operation.database)?.file_id;
        let version =
            operation.version.clone().unwrap_or_else(|| Arc::new(operation.to_version(file, transaction)));
        Ok(UndoEntry::Node(operation.tree, version))
    }

    /// Ends redo. Returns the unfinished transactions, ready to be rolled back.
    pub fn finish(mut self) -> Result<UnfinishedTransactions> {
        let mut transactions = Vec::new();
        for (procid, open) in self.transactions.take_all() {
            // The log ends within changes made outside of sessions. Redo has made these changes either completely or
            // not at all.
            if procid == SYSTEM_PROCID && open.operations.is_empty() {
                continue;
            }
            let mut entries = Vec::new();
            for operation in open.operations {
                match operation {
                    TransactionOperation::Node(operation)
                        if operation.undone && operation.change == VersionChange::Insert =>
                    {
                        let entries = vec![self.undo_entry(operation, &open.transaction)?];
                        self.core.ended.push(EndedTransaction::new(0, LogPosition::MIN, None, entries));
                    }
                    TransactionOperation::Node(operation) if operation.undone => {}
                    TransactionOperation::Node(operation) => {
                        entries.push(self.undo_entry(operation, &open.transaction)?);
                    }
                    TransactionOperation::Counter(counter) if counter.undone => {}
                    TransactionOperation::Counter(counter) => {
                        let (log, position) = (self.log.directory().to_path_buf(), counter.start);
                        return Err(UsageError::UnfinishedCounter { log, position }.into());
                    }
                    TransactionOperation::CreateTree { database, root } => {
                        entries.push(UndoEntry::Tree(self.database(database)?.file_id, root));
                    }
                }
            }
            let pin = self.core.pins.pin(open.begun);
            transactions.push(ActiveTransaction::resumed(
                self.core.clone(),
                procid,
                open.transaction,
                open.level,
                pin,
                entries,
            ));
        }
        Ok(UnfinishedTransactions {
            transactions,
            next_number: self.transactions.newest_number() + 1,
            newest_id: self.transactions.newest_id(),
        })
    }
}

/// Properties, in addition to the version id, that a change and its before-image share. Version ids restart when the
/// engine starts.
type LoggedChange = (Option<PageNumber>, u8, u32);

pub(super) fn change_of(node: &NodeChange) -> LoggedChange {
    (node.root, node.page.database.0, node.page.begin0)
}

/// Returns a node's bookmark and the length of its key. The bookmark is the key, followed by the data if the data is
/// part of the sort order.
pub(super) fn bookmark_of(node: &NodeChange, key: &[u8], data: &[u8]) -> (Vec<u8>, usize) {
    if node.page.flags.contains(PageChangeFlags::UNIQUE) {
        (key.to_vec(), key.len())
    } else {
        ([key, data].concat(), key.len())
    }
}
