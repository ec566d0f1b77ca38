//! Transactions that have begun and not ended at this position in the log, and their operations.

use std::collections::BTreeMap;

use ese_format::LogPosition;
use ese_format::log::record::{Delta, Delta64, LogRecord, NodeChange, PageChange, Undo, operation};
use jetcell_sync::Arc;

use super::counters::{CounterChange, CounterOperation, is_counter};
use super::newest_version_id::NewestVersionId;
use super::page_redo::{UndoneChange, versioned};
use super::pending_before_images::RecoveredVersion;
use super::pending_redo::PlainReplace;
use super::unfinished_transactions::{
    NodeOperation, OpenTransaction, TransactionOperation, UndoInfos, bookmark_of, change_of,
};
use crate::transaction::{Transaction, VersionChange};

/// The open transactions of all sessions.
#[derive(Default)]
pub(in crate::recovery) struct OpenTransactions {
    open: BTreeMap<u16, OpenTransaction>,
    undo_infos: UndoInfos,
    /// The last unversioned replace. If it is directly followed, on the same page, by the Undo record of a replace,
    /// the data is already restored.
    last_plain_replace: Option<PlainReplace>,
    newest_number: u64,
    newest_id: NewestVersionId,
}

impl OpenTransactions {
    /// Adds before-images from the part of the log that will be replayed next.
    pub fn add_undo_infos(&mut self, infos: UndoInfos) {
        // Later records must not reuse the version id of an UndoInfo record.
        infos.keys().for_each(|id| self.newest_id.update(*id));
        self.undo_infos.extend(infos);
    }

    /// Adds before-images to the changes that precede them in the log, and then drops all collected before-images.
    pub fn finish_part(&mut self) {
        let infos = std::mem::take(&mut self.undo_infos);
        self.open.values_mut().for_each(|open| open.complete_from(&infos));
    }

    /// Adds to the operations the information that redo found on a window's pages.
    pub(super) fn complete(&mut self, recovered: &mut BTreeMap<u32, RecoveredVersion>) {
        self.open.values_mut().for_each(|open| open.complete(recovered));
    }

    /// Returns the number of the newest transaction.
    pub fn newest_number(&self) -> u64 {
        self.newest_number
    }

    /// Returns the newest version id in the log, or 0 if the log contains no version ids.
    pub fn newest_id(&self) -> u32 {
        self.newest_id.get()
    }

    /// Removes and returns all transactions, by session.
    pub(super) fn take_all(&mut self) -> BTreeMap<u16, OpenTransaction> {
        std::mem::take(&mut self.open)
    }

    /// Returns the start of the oldest transaction.
    pub fn oldest(&self) -> Option<LogPosition> {
        self.open.values().map(|open| open.begun).min()
    }

    /// Returns the transaction of a session.
    pub fn transaction(&self, procid: u16) -> Option<Arc<Transaction>> {
        self.open.get(&procid).map(|open| open.transaction.clone())
    }

    /// Updates the open transactions for a record that begins or ends one, or changes its level. Returns the
    /// transaction if it ended.
    pub(super) fn note(
        &mut self,
        record: &LogRecord,
        start: LogPosition,
        end: LogPosition,
    ) -> Option<OpenTransaction> {
        match record {
            LogRecord::Begin0(begin) => {
                self.newest_number = self.newest_number.max(u64::from(begin.begin0));
                let open = OpenTransaction {
                    transaction: Transaction::new(begin.procid, u64::from(begin.begin0)),
                    begun: start,
                    level: begin.levels.count().max(1),
                    operations: Vec::new(),
                };
                self.open.insert(begin.procid, open);
            }
            LogRecord::Begin(begin) => {
                if let Some(open) = self.open.get_mut(&begin.procid) {
                    open.level = begin.levels.from() + begin.levels.count();
                }
            }
            LogRecord::Commit(commit) => {
                if let Some(open) = self.open.get_mut(&commit.procid) {
                    open.level = commit.level;
                }
            }
            LogRecord::Commit0(commit) => {
                self.newest_number = self.newest_number.max(u64::from(commit.commit0));
                if let Some(mut open) = self.open.remove(&commit.procid) {
                    // Set before the pages are replayed, because a committed change needs no before-image.
                    open.transaction.set_committed(u64::from(commit.commit0), end);
                    open.operations.retain(|operation| {
                        matches!(operation, TransactionOperation::Node(node) if node.may_leave_deleted_node())
                    });
                    return Some(open);
                }
            }
            LogRecord::Rollback(rollback) => {
                if let Some(open) = self.open.get_mut(&rollback.procid) {
                    open.level = open.level.saturating_sub(rollback.levels);
                    if open.level == 0
                        && let Some(open) = self.open.remove(&rollback.procid)
                    {
                        return Some(open);
                    }
                }
            }
            // When the engine wrote these records, all transactions had ended.
            LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) | LogRecord::RecoveryQuitKeepAttachments(_) => {
                self.open.clear();
            }
            _ => {}
        }
        None
    }

    /// Returns the replace that has already restored the data of an undone replace.
    pub(super) fn restored_before(&self, undo: &Undo) -> Option<PlainReplace> {
        let of_replace = undo.operation == operation::REPLACE;
        self.last_plain_replace.filter(|restored| of_replace && restored.is_directly_before(&undo.node.page))
    }

    /// Returns the transaction of a versioned change. If the transaction ended before the checkpoint, redo may read
    /// some of its changes without its Begin record.
    fn transaction_of(&mut self, node: &NodeChange) -> Option<&mut OpenTransaction> {
        if !versioned(node) || node.root.is_none() {
            return None;
        }
        Some(self.open.entry(node.page.procid).or_insert_with(|| OpenTransaction {
            transaction: Transaction::new(node.page.procid, u64::from(node.page.begin0)),
            begun: LogPosition::MIN,
            level: node.page.level,
            operations: Vec::new(),
        }))
    }

    /// Adds a versioned change to its transaction. `bookmark` comes from the record itself. `record_index` is the
    /// record's index in the window if the page may provide more information.
    fn add_node_operation(
        &mut self,
        node: &NodeChange,
        bookmark: Option<(Vec<u8>, usize)>,
        change: VersionChange,
        record_index: Option<u32>,
    ) {
        let Some(root) = node.root else { return };
        let info = self.undo_infos.get(&node.rceid).filter(|info| change_of(&info.node) == change_of(node));
        let logged = info.map(|info| ([&info.key[..], &info.bookmark_data].concat(), info.key.len()));
        let (key, key_len) = bookmark.or(logged).unwrap_or_default();
        let change = match (change, info) {
            (VersionChange::ReplaceUnknown, Some(info)) => {
                VersionChange::Replace { before: info.before.clone().into() }
            }
            (change, _) => change,
        };
        let operation = NodeOperation {
            database: node.page.database.0,
            root,
            tree: node.tree,
            id: node.rceid,
            begin0: node.page.begin0,
            key,
            key_len,
            level: node.page.level,
            change,
            undone: false,
            record_index,
            version: None,
            node_removed: false,
        };
        if let Some(open) = self.transaction_of(node) {
            open.operations.push(TransactionOperation::Node(operation));
        }
    }

    /// Adds the operation of a record to its transaction.
    pub fn add_operation(&mut self, record: &LogRecord, record_index: u32, start: LogPosition) {
        if let Some(node) = record.node_change() {
            self.newest_id.update(node.rceid);
        }
        match record {
            LogRecord::Insert(insert) => {
                let bookmark = bookmark_of(&insert.node, &insert.key(), &insert.data);
                self.add_node_operation(&insert.node, Some(bookmark), VersionChange::Insert, None);
            }
            LogRecord::FlagInsert(revive) => {
                let bookmark = bookmark_of(&revive.node, &revive.key, &revive.data);
                self.add_node_operation(&revive.node, Some(bookmark), VersionChange::Insert, None);
            }
            LogRecord::FlagInsertAndReplaceData(revive) => {
                let bookmark = Some(bookmark_of(&revive.node, &revive.key, &revive.data));
                self.newest_id.update(revive.replace_rceid);
                let replaced = NodeChange { rceid: revive.replace_rceid, ..revive.node };
                self.add_node_operation(
                    &replaced,
                    bookmark.clone(),
                    VersionChange::ReplaceUnknown,
                    Some(record_index),
                );
                self.add_node_operation(&revive.node, bookmark, VersionChange::Insert, None);
            }
            // The record contains only the line. If the page already has the change, an UndoInfo record has the key.
            LogRecord::FlagDelete(delete) => {
                self.add_node_operation(&delete.node, None, VersionChange::FlagDelete, Some(record_index));
            }
            LogRecord::Replace(replace) | LogRecord::ReplaceD(replace) => {
                let PageChange { database, page, after, .. } = replace.node.page;
                if !versioned(&replace.node) {
                    self.last_plain_replace = Some(PlainReplace { database: database.0, page, after, start });
                }
                self.add_node_operation(
                    &replace.node,
                    None,
                    VersionChange::ReplaceUnknown,
                    Some(record_index),
                );
            }
            LogRecord::Delta(Delta { node, .. }) | LogRecord::Delta64(Delta64 { node, .. }) => {
                if let (Some(change), Some(open)) =
                    (CounterChange::from_record(record), self.transaction_of(node))
                {
                    let operation = CounterOperation { id: node.rceid, change, undone: false, start };
                    open.operations.push(TransactionOperation::Counter(operation));
                }
            }
            LogRecord::SetExternalHeader(set) if set.data.is_empty() => {
                // The creation of a tree was undone. Changes in the tree need neither undo nor cleanup.
                if let Some(open) = self.open.get_mut(&set.node.page.procid) {
                    let removed = (set.node.page.database.0, set.node.page.page);
                    open.operations.retain(|operation| match operation {
                        TransactionOperation::Node(node) => (node.database, node.root) != removed,
                        TransactionOperation::CreateTree { database, root } => (*database, *root) != removed,
                        TransactionOperation::Counter(_) => true,
                    });
                }
            }
            LogRecord::CreateMultiExtentFdp(create) => {
                let change = create.change;
                if let Some(open) = self.open.get_mut(&change.procid) {
                    open.operations.push(TransactionOperation::CreateTree {
                        database: change.database.0,
                        root: change.page,
                    });
                }
            }
            _ => {}
        }
    }

    /// Marks a change as undone and returns it.
    pub(super) fn mark_undone(&mut self, undo: &Undo) -> Option<UndoneChange> {
        if is_counter(undo.operation) {
            Some(UndoneChange::Counter(self.mark_counter_undone(undo)))
        } else {
            self.mark_node_undone(undo).map(UndoneChange::Change)
        }
    }

    fn mark_counter_undone(&mut self, undo: &Undo) -> Option<CounterChange> {
        let open = self.open.get_mut(&undo.node.page.procid)?;
        let operation = open.operations.iter_mut().rev().find_map(|operation| match operation {
            TransactionOperation::Counter(counter) if counter.id == undo.node.rceid && !counter.undone => {
                Some(counter)
            }
            _ => None,
        })?;
        operation.undone = true;
        Some(operation.change)
    }

    fn mark_node_undone(&mut self, undo: &Undo) -> Option<VersionChange> {
        let node = undo.node;
        let operations = self.open.get_mut(&node.page.procid).map(|open| open.operations.iter_mut().rev());
        let undone = operations.into_iter().flatten().find_map(|operation| match operation {
            TransactionOperation::Node(operation) if operation.id == node.rceid && !operation.undone => {
                Some(operation)
            }
            _ => None,
        });
        if let Some(operation) = undone {
            operation.undone = true;
            operation.key = [&undo.key[..], &undo.bookmark_data].concat();
            operation.key_len = undo.key.len();
            return Some(operation.change.clone());
        }
        Some(match undo.operation {
            operation::INSERT => VersionChange::Insert,
            operation::FLAG_DELETE => VersionChange::FlagDelete,
            _ => VersionChange::ReplaceUnknown,
        })
    }
}
