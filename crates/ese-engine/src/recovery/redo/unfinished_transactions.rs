//! What transactions did that had not ended when the log did, and deletions that still wait for cleanup.

use std::collections::BTreeMap;

use ese_format::log::record::{NodeChange, PageChangeFlags, UndoInfo};
use ese_format::{LogPosition, PageNumber, TreeId};
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Mutex};

use super::Redo;
use super::page_redo::versioned;
use super::pending_before_images::ReplayedVersion;
use crate::Result;
use crate::cache::FileId;
use crate::transaction::{ActiveTransaction, Change, EndedTransaction, Transaction, UndoEntry, Version};

/// A change as redo remembers it, until its transaction ends.
pub(super) struct NodeChangeOf {
    pub database: u8,
    pub root: PageNumber,
    pub tree: TreeId,
    pub id: u32,
    pub key: Vec<u8>,
    pub key_len: usize,
    pub level: u8,
    pub change: Change,
    pub undone: bool,
    /// The place of its record in the window, until its page has been brought forward.
    pub step: Option<u32>,
    /// The version that hangs on the page until its before-image is logged or it is settled.
    pub version: Option<Arc<Version>>,
    /// Its node was removed by a later record.
    pub gone: bool,
}

impl NodeChangeOf {
    fn version_of(&self, file: FileId, transaction: &Arc<Transaction>) -> Version {
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

    /// Whether cleanup may have to remove its node, once the transaction is committed.
    pub fn may_leave_a_node(&self) -> bool {
        match self.change {
            Change::FlagDelete => !self.undone,
            Change::Insert => self.undone,
            _ => false,
        }
    }

    /// Takes over what its page told, if redo made the change. Otherwise the page has moved on, and key and
    /// before-image are in an UndoInfo record if they can be needed.
    fn learn(&mut self, found: &mut BTreeMap<u32, ReplayedVersion>) {
        if let Some(found) = self.step.take().and_then(|step| found.remove(&step)) {
            (self.key, self.key_len, self.change) = (found.key, found.key_len, found.change);
            (self.version, self.gone) = (found.version, found.gone);
        }
        if let Some(version) = self.version.as_ref().filter(|_| self.undone) {
            version.settled.store(true, Ordering::Release);
        }
    }
}

pub(super) enum Act {
    Node(NodeChangeOf),
    Tree { database: u8, root: PageNumber },
}

pub(super) struct OpenTransaction {
    pub transaction: Arc<Transaction>,
    pub begun: LogPosition,
    pub level: u8,
    pub acts: Vec<Act>,
}

impl OpenTransaction {
    pub fn learn(&mut self, found: &mut BTreeMap<u32, ReplayedVersion>) {
        for act in &mut self.acts {
            if let Act::Node(act) = act {
                act.learn(found);
            }
        }
    }
}

/// Before-images and keys that the log holds, by version id: collected before redo, because a record that needs
/// one may stand before it. ESE: `LRUNDOINFO`.
pub(crate) type UndoInfos = BTreeMap<u32, UndoInfo>;

/// What is left to do after redo.
pub(crate) struct UnfinishedTransactions {
    pub unfinished: Vec<ActiveTransaction>,
    pub next_number: u64,
    pub newest_id: u32,
}

impl Redo {
    /// The transaction of a versioned change. One that was over before the checkpoint may still have changes behind
    /// it, without its Begin.
    pub(super) fn transaction_of(&mut self, node: &NodeChange) -> Option<&mut OpenTransaction> {
        if !versioned(node) || node.root.is_none() {
            return None;
        }
        Some(self.transactions.entry(node.page.procid).or_insert_with(|| OpenTransaction {
            transaction: Transaction::new(u64::from(node.page.begin0)),
            begun: LogPosition::MIN,
            level: node.page.level,
            acts: Vec::new(),
        }))
    }

    /// Remembers a versioned change of an open transaction. `bookmark` is what the record itself tells; `step` is its
    /// place in the window, if the page may tell more.
    pub(super) fn remember(
        &mut self,
        node: &NodeChange,
        bookmark: Option<(Vec<u8>, usize)>,
        change: Change,
        step: Option<u32>,
    ) {
        let Some(root) = node.root else { return };
        let info = self.infos.get(&node.rceid);
        let known = info.map(|info| ([&info.key[..], &info.bookmark_data].concat(), info.key.len()));
        let (key, key_len) = bookmark.or(known).unwrap_or_default();
        let change = match (change, info) {
            (Change::ReplaceUnknown, Some(info)) => Change::Replace { before: info.before.clone().into() },
            (change, _) => change,
        };
        let remembered = NodeChangeOf {
            database: node.page.database.0,
            root,
            tree: node.tree,
            id: node.rceid,
            key,
            key_len,
            level: node.page.level,
            change,
            undone: false,
            step,
            version: None,
            gone: false,
        };
        if let Some(open) = self.transaction_of(node) {
            open.acts.push(Act::Node(remembered));
        }
    }

    /// A transaction ended: its deletions are left for cleanup.
    pub(super) fn settle(&mut self, open: OpenTransaction, end: LogPosition) -> Result<()> {
        let committed = open.transaction.committed().is_some();
        let mut changes = Vec::new();
        for act in open.acts {
            let Act::Node(act) = act else { continue };
            let dead = act.may_leave_a_node() && !act.gone && (committed || act.undone);
            // Without a key: the node has been removed since, by records that the page has or that are kept for it.
            if dead && !act.key.is_empty() {
                changes.push(self.undo_entry(act, &open.transaction)?);
            }
        }
        if !changes.is_empty() {
            self.core.ended.push(EndedTransaction::new(0, end, None, changes));
        }
        Ok(())
    }

    fn undo_entry(&self, act: NodeChangeOf, transaction: &Arc<Transaction>) -> Result<UndoEntry> {
        let file = self.database(act.database)?.file_id;
        let version = act.version.clone().unwrap_or_else(|| Arc::new(act.version_of(file, transaction)));
        Ok(UndoEntry::Node(act.tree, version))
    }

    /// Ends redo: what unfinished transactions did, ready to be rolled back.
    pub fn finish(mut self) -> Result<UnfinishedTransactions> {
        let mut unfinished = Vec::new();
        for (procid, open) in std::mem::take(&mut self.transactions) {
            let mut undo = Vec::new();
            for act in open.acts {
                match act {
                    Act::Node(act) if act.undone && act.change == Change::Insert => {
                        let changes = vec![self.undo_entry(act, &open.transaction)?];
                        self.core.ended.push(EndedTransaction::new(0, LogPosition::MIN, None, changes));
                    }
                    Act::Node(act) if act.undone => {}
                    Act::Node(act) => undo.push(self.undo_entry(act, &open.transaction)?),
                    Act::Tree { database, root } => {
                        undo.push(UndoEntry::Tree(self.database(database)?.file_id, root));
                    }
                }
            }
            let pin = self.core.pins.pin(open.begun);
            unfinished.push(ActiveTransaction::resumed(
                self.core.clone(),
                procid,
                open.transaction,
                open.level,
                pin,
                undo,
            ));
        }
        Ok(UnfinishedTransactions {
            unfinished,
            next_number: self.newest_number + 1,
            newest_id: self.newest_id,
        })
    }
}

/// Key and, where it is part of the order, data; and the length of the key.
pub(super) fn bookmark_of(node: &NodeChange, key: &[u8], data: &[u8]) -> (Vec<u8>, usize) {
    match node.page.flags.contains(PageChangeFlags::UNIQUE) {
        true => (key.to_vec(), key.len()),
        false => ([key, data].concat(), key.len()),
    }
}
