//! Redo: bringing pages to where the log ends, and collecting what unfinished transactions did.
//!
//! A record applies to a page exactly when the page's dbtime is the record's time before; a page at or past the
//! time after has the change already; anything else is damage and ends recovery. Pages that a record formats
//! from nothing are formatted whenever they are older. Records between MacroBegin and MacroCommit wait for the
//! commit; a macro that the log cuts off never happened.

mod page;
mod unfinished;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ese_format::log::record::{
    Insert, LogRecord, Merge, NodeChange, PageChangeFlags, Replace, Split, Undo, operation,
};
use ese_format::page::{NodeFlags, Page, PageMut};
use ese_format::space::SpaceHeader;
use ese_format::{DbTime, LogPosition, PageNumber};

pub(crate) use self::unfinished::UndoInfos;
use self::unfinished::{Act, Unfinished};
use crate::btree::apply;
use crate::btree::change::undo_on_page;
use crate::core::Core;
use crate::database::Database;
use crate::space::{convert_root_pages, create_root_pages};
use crate::versions::{Change, Transaction};
use crate::{Error, Result};

/// Redo in progress.
pub(crate) struct Redo {
    core: Arc<Core>,
    infos: UndoInfos,
    transactions: BTreeMap<u16, Unfinished>,
    macros: BTreeMap<u16, Vec<(LogPosition, LogPosition, LogRecord)>>,
    /// Database, page and time of the last plain replace: an Undo record right behind it finds its data restored.
    restored: Option<(u8, PageNumber, DbTime)>,
    newest_number: u64,
    newest_id: u32,
    /// Records looked at, and page changes that had to be made.
    pub records: u64,
    pub applied: u64,
}

impl Redo {
    pub fn new(core: Arc<Core>, infos: UndoInfos) -> Redo {
        Redo {
            core,
            infos,
            transactions: BTreeMap::new(),
            macros: BTreeMap::new(),
            restored: None,
            newest_number: 0,
            newest_id: 0,
            records: 0,
            applied: 0,
        }
    }

    /// Takes the next record. Attach, detach and create records are the caller's.
    pub fn record(&mut self, start: LogPosition, end: LogPosition, record: LogRecord) -> Result<()> {
        self.records += 1;
        match &record {
            LogRecord::MacroBegin(begin) => {
                self.macros.insert(begin.procid, Vec::new());
                return Ok(());
            }
            LogRecord::MacroAbort(abort) => {
                self.macros.remove(&abort.procid);
                return Ok(());
            }
            LogRecord::MacroCommit(commit) => {
                for (start, end, record) in self.macros.remove(&commit.procid).unwrap_or_default() {
                    self.apply(start, end, &record)?;
                }
                return Ok(());
            }
            // What a crash cut off stays cut off; recovery goes on under the same session numbers.
            LogRecord::RecoveryUndo2(_) | LogRecord::Init2(_) => self.macros.clear(),
            _ => {}
        }
        if let Some(procid) = procid_of(&record)
            && let Some(waiting) = self.macros.get_mut(&procid)
        {
            waiting.push((start, end, record));
            return Ok(());
        }
        self.apply(start, end, &record)
    }

    fn apply(&mut self, start: LogPosition, end: LogPosition, record: &LogRecord) -> Result<()> {
        let at = At { start, end };
        // Databases that were shut down cleanly later on are not attached: their files have all of this.
        if record.database().is_some_and(|id| self.attached(id.0).is_none()) {
            return Ok(());
        }
        match record {
            LogRecord::Begin0(begin) => {
                self.newest_number = self.newest_number.max(u64::from(begin.begin0));
                self.transactions.insert(
                    begin.procid,
                    Unfinished {
                        transaction: Transaction::new(u64::from(begin.begin0)),
                        begun: start,
                        level: begin.levels.count().max(1),
                        acts: Vec::new(),
                    },
                );
                Ok(())
            }
            LogRecord::Begin(begin) => {
                if let Some(open) = self.transactions.get_mut(&begin.procid) {
                    open.level = begin.levels.from() + begin.levels.count();
                }
                Ok(())
            }
            LogRecord::Commit(commit) => {
                if let Some(open) = self.transactions.get_mut(&commit.procid) {
                    open.level = commit.level;
                }
                Ok(())
            }
            LogRecord::Commit0(commit) => {
                self.newest_number = self.newest_number.max(u64::from(commit.commit0));
                let Some(open) = self.transactions.remove(&commit.procid) else { return Ok(()) };
                open.transaction.set_committed(u64::from(commit.commit0), end);
                self.settle(open, end)
            }
            LogRecord::Rollback(rollback) => {
                let Some(open) = self.transactions.get_mut(&rollback.procid) else { return Ok(()) };
                open.level = open.level.saturating_sub(rollback.levels);
                if open.level > 0 {
                    return Ok(());
                }
                let Some(open) = self.transactions.remove(&rollback.procid) else { return Ok(()) };
                open.transaction.set_rolled_back();
                self.settle(open, end)
            }
            LogRecord::Insert(insert) => self.insert(at, insert),
            LogRecord::FlagInsert(revive) => {
                let (node, data) = (revive.node, &revive.data);
                let latch = self.node(at, &node, |page, line| {
                    apply::replace(page, line, data, kept(page, line, &node))
                })?;
                self.remember(&node, Some(bookmark_of(&node, &revive.key, data)), Change::Insert, latch)
            }
            LogRecord::FlagInsertAndReplaceData(revive) => {
                let (node, data) = (revive.node, &revive.data);
                let mut old = None;
                let latch = self.node(at, &node, |page, line| {
                    old = page.as_page().node(line).map(|node| node.data.to_vec());
                    apply::replace(page, line, data, kept(page, line, &node))
                })?;
                let replaced = NodeChange { rceid: revive.replace_rceid, ..node };
                let bookmark = Some(bookmark_of(&node, &revive.key, data));
                self.remember(&replaced, bookmark.clone(), replaced_from(old), latch)?;
                self.remember(&node, bookmark, Change::Insert, None)
            }
            LogRecord::FlagDelete(delete) => {
                let node = delete.node;
                let mut bookmark = None;
                let unique = node.page.flags.contains(PageChangeFlags::UNIQUE);
                let latch = self.node(at, &node, |page, line| {
                    let flags = kept(page, line, &node) | NodeFlags::DELETED;
                    bookmark = bookmark_at(&page.as_page(), line, unique);
                    page.set_node_flags(line, flags);
                    Ok(())
                })?;
                // The record names only the line. If the page has moved on, an UndoInfo record has the key.
                self.remember(&node, bookmark, Change::FlagDelete, latch)
            }
            LogRecord::Replace(replace) => self.replace(at, replace),
            LogRecord::Delete(delete) => self
                .node(at, &delete.node, |page, line| {
                    page.delete_node(line);
                    Ok(())
                })
                .map(|_| ()),
            LogRecord::Undo(undo) => self.undo(at, undo),
            LogRecord::SetExternalHeader(set) if set.data.is_empty() => {
                // The creation of a tree was taken back: what was done in it needs no undo nor cleanup any more.
                if let Some(open) = self.transactions.get_mut(&set.node.page.procid) {
                    let gone = (set.node.page.database.0, set.node.page.page);
                    open.acts.retain(|act| match act {
                        Act::Node(act) => (act.database, act.root) != gone,
                        Act::Tree { database, root } => (*database, *root) != gone,
                    });
                }
                self.node(at, &set.node, |page, _| {
                    page.set_external_header(&set.data).map_err(|_| "external header does not fit")
                })
                .map(|_| ())
            }
            LogRecord::SetExternalHeader(set) => self
                .node(at, &set.node, |page, _| {
                    page.set_external_header(&set.data).map_err(|_| "external header does not fit")
                })
                .map(|_| ()),
            LogRecord::Split2(split) => self.split(at, split),
            LogRecord::Merge2(merge) => self.merge(at, merge),
            LogRecord::EmptyTree(empty) => {
                let change = empty.node.page;
                for entry in empty.entries() {
                    let Some(page) = PageNumber::new(entry.page) else { continue };
                    self.page(at, change.database.0, page, entry.before, change.after, |page| {
                        apply::merge_source(page);
                        Ok(())
                    })?;
                }
                self.change(at, &change, |page| {
                    apply::empty_root(page);
                    Ok(())
                })
                .map(|_| ())
            }
            LogRecord::CreateMultiExtentFdp(create) => {
                let change = create.change;
                for page in [change.page, create.owned_root, create.available_root] {
                    self.format(at, change.database.0, page, change.after, |bytes, size| {
                        Ok(create_root_pages(bytes, size, page, create))
                    })?;
                }
                self.database(change.database.0)?.tree_id_used(create.tree);
                if let Some(open) = self.transactions.get_mut(&change.procid) {
                    open.acts.push(Act::Tree { database: change.database.0, root: change.page });
                }
                Ok(())
            }
            LogRecord::ConvertFdp2(convert) => {
                let change = convert.change;
                for page in [convert.owned_root, convert.available_root] {
                    self.format(at, change.database.0, page, change.after, |bytes, size| {
                        Ok(convert_root_pages(bytes, size, page, convert))
                    })?;
                }
                self.change(at, &change, |page| {
                    let mut external = page.as_page().external_header().to_vec();
                    let header = SpaceHeader::decode(&external).map_err(|_| "root has no space header")?;
                    let header = SpaceHeader {
                        multiple: true,
                        owned_root_or_bitmap: convert.owned_root.get(),
                        ..header
                    };
                    header.update(&mut external);
                    page.set_external_header(&external).map_err(|_| "external header does not fit")
                })
                .map(|_| ())
            }
            // All transactions were over when the engine wrote these.
            LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) => {
                self.transactions.clear();
                Ok(())
            }
            LogRecord::ExtendDb(extend) => self.database(extend.database.0)?.grow_file(extend.last),
            _ => Ok(()),
        }
    }

    fn insert(&mut self, at: At, insert: &Insert) -> Result<()> {
        let node = insert.node;
        let versioned = node.page.flags.contains(PageChangeFlags::VERSIONED);
        let flags = if versioned { NodeFlags::VERSIONED } else { NodeFlags::empty() };
        let latch =
            self.node(at, &node, |page, line| apply::insert(page, line, &insert.key(), &insert.data, flags))?;
        self.remember(&node, Some(bookmark_of(&node, &insert.key(), &insert.data)), Change::Insert, latch)
    }

    fn replace(&mut self, at: At, replace: &Replace) -> Result<()> {
        let node = replace.node;
        self.restored = Some((node.page.database.0, node.page.page, node.page.after));
        let mut found = None;
        let latch = self.node(at, &node, |page, line| {
            let view = page.as_page();
            found = view.node(line).map(|node| (node.key_to_vec(), node.data.to_vec()));
            let flags = kept(page, line, &node);
            apply::replace(page, line, &replace.data, flags)
        })?;
        match found {
            Some((key, old)) => {
                let key_len = key.len();
                self.remember(&node, Some((key, key_len)), Change::Replace { before: old.into() }, latch)
            }
            None => self.remember(&node, None, Change::ReplaceUnknown, None),
        }
    }

    fn undo(&mut self, at: At, undo: &Undo) -> Result<()> {
        let node = undo.node;
        let mut change = None;
        if let Some(open) = self.transactions.get_mut(&node.page.procid) {
            for act in open.acts.iter_mut().rev() {
                if let Act::Node(remembered) = act
                    && remembered.id == node.rceid
                    && !remembered.undone
                {
                    remembered.undone = true;
                    if let Some(version) = &remembered.version {
                        version.settled.store(true, Ordering::Release);
                    }
                    remembered.key = [&undo.key[..], &undo.bookmark_data].concat();
                    remembered.key_len = undo.key.len();
                    change = Some(remembered.change.clone());
                    break;
                }
            }
        }
        let restored = self.restored == Some((node.page.database.0, node.page.page, node.page.before));
        let change = change.unwrap_or(match undo.operation {
            operation::INSERT => Change::Insert,
            operation::FLAG_DELETE => Change::FlagDelete,
            _ => Change::ReplaceUnknown,
        });
        self.node(at, &node, |page, line| {
            if restored {
                return Ok(());
            }
            let flags = apply::flags_of(page, line);
            undo_on_page(page, line, flags, &change)
        })
        .map(|_| ())
    }

    fn split(&mut self, at: At, split: &Split) -> Result<()> {
        let change = split.change;
        let database = self.database(change.database.0)?;
        let size = database.page_size;
        let image = split
            .before_page(size, |_| None)
            .map_err(|e| self.misfit(&database, change.page, &format!("split record: {e}")))?
            .unwrap_or_else(|| vec![0; size.bytes()]);
        let before = Page::new(&image, size);
        let new_page =
            split.new_page.ok_or_else(|| self.misfit(&database, change.page, "split without new page"))?;
        self.format(at, change.database.0, new_page, change.after, |bytes, size| {
            apply::split_new(bytes, size, &before, split)
        })?;
        self.bytes(at, change.database.0, change.page, change.before, change.after, |bytes| {
            let own = bytes.to_vec();
            apply::split_source(&mut PageMut::new(bytes, size), &Page::new(&own, size), split)
        })?;
        if let Some(right) = split.right {
            self.page(at, change.database.0, right, split.right_before, change.after, |page| {
                apply::split_right(page, split);
                Ok(())
            })?;
        }
        if let Some(parent) = split.parent {
            self.page(at, change.database.0, parent, split.parent_before, change.after, |page| {
                apply::split_parent(page, split)
            })?;
        }
        Ok(())
    }

    fn merge(&mut self, at: At, merge: &Merge) -> Result<()> {
        let change = merge.change;
        let database = self.database(change.database.0)?;
        let size = database.page_size;
        let source = merge
            .before_page(size, |_| None)
            .map_err(|e| self.misfit(&database, change.page, &format!("merge record: {e}")))?
            .unwrap_or_else(|| vec![0; size.bytes()]);
        let source = Page::new(&source, size);
        if let Some(right) = merge.right {
            self.bytes(at, change.database.0, right, merge.right_before, change.after, |bytes| {
                apply::merge_right(bytes, size, &source, merge)
            })?;
        }
        if let Some(left) = merge.left {
            self.page(at, change.database.0, left, merge.left_before, change.after, |page| {
                apply::merge_left(page, merge);
                Ok(())
            })?;
        }
        if let Some(parent) = merge.parent {
            self.page(at, change.database.0, parent, merge.parent_before, change.after, |page| {
                apply::merge_parent(page, merge)
            })?;
        }
        self.change(at, &change, |page| {
            apply::merge_source(page);
            Ok(())
        })
        .map(|_| ())
    }

    fn attached(&self, log_id: u8) -> Option<Arc<Database>> {
        self.core.database_in_log(log_id)
    }

    fn database(&self, log_id: u8) -> Result<Arc<Database>> {
        self.attached(log_id).ok_or_else(|| Error::Corrupt {
            path: "log".into(),
            page: None,
            what: format!("log names database {log_id}, which is not attached"),
        })
    }

    fn misfit(&self, database: &Database, page: PageNumber, what: &str) -> Error {
        Error::Corrupt { path: database.path.clone(), page: Some(page), what: format!("page {page}: {what}") }
    }
}

#[derive(Clone, Copy)]
struct At {
    start: LogPosition,
    end: LogPosition,
}

/// Flags for a node that stays, after a versioned or unversioned change.
fn kept(page: &PageMut<'_>, line: usize, node: &NodeChange) -> NodeFlags {
    if node.page.flags.contains(PageChangeFlags::VERSIONED) {
        NodeFlags::VERSIONED
    } else {
        apply::flags_of(page, line)
    }
}

fn replaced_from(old: Option<Vec<u8>>) -> Change {
    old.map_or(Change::ReplaceUnknown, |before| Change::Replace { before: before.into() })
}

/// Key and, where it is part of the order, data; and the length of the key.
fn bookmark_of(node: &NodeChange, key: &[u8], data: &[u8]) -> (Vec<u8>, usize) {
    match node.page.flags.contains(PageChangeFlags::UNIQUE) {
        true => (key.to_vec(), key.len()),
        false => ([key, data].concat(), key.len()),
    }
}

fn bookmark_at(page: &Page<'_>, line: usize, unique: bool) -> Option<(Vec<u8>, usize)> {
    let node = page.node(line)?;
    let mut key = node.key_to_vec();
    let key_len = key.len();
    if !unique {
        key.extend_from_slice(node.data);
    }
    Some((key, key_len))
}

/// The session a record belongs to, if macros can hold it back.
fn procid_of(record: &LogRecord) -> Option<u16> {
    Some(match record {
        LogRecord::Begin(r) => r.procid,
        LogRecord::Begin0(r) => r.procid,
        LogRecord::Insert(r) => r.node.page.procid,
        LogRecord::FlagInsert(r) => r.node.page.procid,
        LogRecord::FlagInsertAndReplaceData(r) => r.node.page.procid,
        LogRecord::FlagDelete(r) => r.node.page.procid,
        LogRecord::Replace(r) => r.node.page.procid,
        LogRecord::Delete(r) => r.node.page.procid,
        LogRecord::SetExternalHeader(r) => r.node.page.procid,
        LogRecord::Split2(r) => r.change.procid,
        LogRecord::Merge2(r) => r.change.procid,
        LogRecord::EmptyTree(r) => r.node.page.procid,
        LogRecord::CreateMultiExtentFdp(r) => r.change.procid,
        LogRecord::ConvertFdp2(r) => r.change.procid,
        _ => return None,
    })
}
