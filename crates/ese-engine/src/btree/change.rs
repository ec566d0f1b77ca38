//! Versioned changes to single nodes: insert, flag-delete, replace, and undo.
//!
//! A change first checks everything that can fail. Then it appends the log record, and finally it changes the page
//! and the version store. All steps happen under the leaf's write latch. A failed call has therefore changed nothing.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};

use ese_format::log::record::{
    DatabaseIdInLog, FlagDelete, FlagInsert, FlagInsertAndReplaceData, LogRecord, NodeChange, PageChange,
    PageChangeFlags, Undo, operation,
};
use ese_format::page::{NodeFlags, Page, node_space, shared_prefix_len};
use ese_format::{DbTime, PageNumber};
use jetcell_sync::Mutex;

use super::before_image::DeferredBeforeImage;
use super::descend::DescentTarget;
use super::{Bookmark, Tree};
use crate::cache::{PageDelta, PinnedPage, WriteLatch};
use crate::log::RecordBatch;
use crate::page_misfit::PageMisfit;
use crate::pages::cut_key;
use crate::transaction::{
    ActiveRollback, ChangeContext, ReadView, Transaction, UndoEntry, Version, VersionChange,
};
use crate::{Corruption, Error, Result};

impl Tree {
    /// Reads one record and passes its data to `read`.
    pub fn get<T>(
        &self,
        view: &ReadView,
        bookmark: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let leaf = self.leaf_for_read(DescentTarget::Key(bookmark))?;
        let page = self.view(&leaf);
        let (line, exact) = self.find(&page, bookmark);
        let Some(node) = page.node(line).filter(|_| exact) else { return Ok(None) };
        let deleted = node.flags.contains(NodeFlags::DELETED);
        if !node.flags.contains(NodeFlags::VERSIONED) {
            return Ok((!deleted).then(|| read(node.data)));
        }
        let state = self.versions.resolve(self.key(), bookmark, deleted, view);
        Ok(state.exists.then(|| read(state.data(node.data))))
    }

    /// Inserts a record. Fails if the key already exists, on a write conflict, or if the version store or the disk is
    /// full. On error, nothing is changed.
    pub fn insert(&self, context: &mut ChangeContext, key: &[u8], data: &[u8]) -> Result<()> {
        let bytes = self.bookmark_bytes(key, data);
        loop {
            let (leaf, behind) = match self.leaf_to_append(&bytes) {
                Some(leaf) => (leaf, true),
                None => (self.leaf_for_write(DescentTarget::Key(&bytes))?, false),
            };
            let page = self.view(&leaf);
            let (line, exact) = if behind { (page.node_count(), false) } else { self.find(&page, &bytes) };
            if exact {
                let node = page
                    .node(line)
                    .ok_or_else(|| self.file.corrupt(leaf.key().page, Corruption::UnreadableNode))?;
                self.check_conflict(&bytes, context)?;
                if !node.flags.contains(NodeFlags::DELETED) {
                    return Err(Error::KeyDuplicate);
                }
                let growth = data.len().saturating_sub(node.data.len());
                if self.may_grow(&page, &bytes, growth) {
                    return self.reuse_deleted_node(context, leaf, line, key, &bytes, data);
                }
                drop(leaf);
                self.make_room(&bytes, growth)?;
                continue;
            }
            if self.fits(&page, line, insert_size(&page, key, data)) {
                let (prologue, writer, level) = context.prologue()?;
                let version = self.version(&bytes, key.len(), &writer, level, VersionChange::Insert);
                let node = self.node_change(context.procid(), &page, leaf.key().page, line, &version);
                let records = context.records(prologue);
                records.push_insert(&node, cut_key(&page, key), data);
                if !behind && line == page.node_count() && page.next().is_none() {
                    self.append_leaf.store(leaf.key().page.get(), Ordering::Relaxed);
                }
                self.perform(
                    leaf,
                    records,
                    node.page.after,
                    false,
                    &PageDelta::Insert { line, flags: NodeFlags::VERSIONED, key, data },
                    &[&version],
                )?;
                context.changed(UndoEntry::Node(self.id, version));
                return Ok(());
            }
            let next = page.next();
            drop(leaf);
            if self.split_and_insert(context, key, data, &bytes, next)? {
                return Ok(());
            }
        }
    }

    /// Returns the right-most leaf if the last insert went to its end and the new node belongs after it. Inserts in
    /// key order therefore need no descent.
    fn leaf_to_append(&self, bytes: &[u8]) -> Option<WriteLatch> {
        let last = PageNumber::new(self.append_leaf.load(Ordering::Relaxed))?;
        let appends = |leaf: &WriteLatch| {
            let page = self.view(leaf);
            let last = page.node_count().checked_sub(1).and_then(|line| page.node(line));
            self.is_live_leaf(&page)
                && page.next().is_none()
                && last.is_some_and(|last| self.order(&last, bytes).is_lt())
        };
        let leaf = self.file.resident(last).map(PinnedPage::into_write).filter(appends);
        if leaf.is_none() {
            self.append_leaf.store(0, Ordering::Relaxed);
        }
        leaf
    }

    /// Flags a record as deleted.
    pub fn flag_delete(&self, context: &mut ChangeContext, bookmark: &Bookmark) -> Result<()> {
        let bytes = bookmark.bytes();
        let (leaf, line) = self.node_to_change(context, bookmark)?;
        let page = self.view(&leaf);
        let (prologue, writer, level) = context.prologue()?;
        let version = self.version(bytes, bookmark.key_len(), &writer, level, VersionChange::FlagDelete);
        let node = self.node_change(context.procid(), &page, leaf.key().page, line, &version);
        let records = context.records(prologue);
        records.push(&LogRecord::FlagDelete(FlagDelete { node }));
        self.perform(
            leaf,
            records,
            node.page.after,
            false,
            &PageDelta::SetFlags { line, flags: NodeFlags::VERSIONED | NodeFlags::DELETED },
            &[&version],
        )?;
        context.changed(UndoEntry::Node(self.id, version));
        Ok(())
    }

    /// Replaces the data of a record. Only unique trees support this: in other trees, the data determines the
    /// position of the node.
    pub fn replace(&self, context: &mut ChangeContext, bookmark: &Bookmark, data: &[u8]) -> Result<()> {
        debug_assert!(self.is_unique());
        let bytes = bookmark.bytes();
        loop {
            let (leaf, line) = self.node_to_change(context, bookmark)?;
            let page = self.view(&leaf);
            let old = page.node(line).map_or(&[][..], |node| node.data);
            let growth = data.len().saturating_sub(old.len());
            if !self.may_grow(&page, bytes, growth) {
                drop(leaf);
                self.make_room(bytes, growth)?;
                continue;
            }
            let (prologue, writer, level) = context.prologue()?;
            let old_len = old.len() as u16;
            let version = self.version(
                bytes,
                bookmark.key_len(),
                &writer,
                level,
                VersionChange::Replace { before: old.into() },
            );
            let node = self.node_change(context.procid(), &page, leaf.key().page, line, &version);
            let records = context.records(prologue);
            records.push_replace(&node, old_len, data);
            self.perform(
                leaf,
                records,
                node.page.after,
                false,
                &PageDelta::Replace { line, flags: NodeFlags::VERSIONED, data },
                &[&version],
            )?;
            context.changed(UndoEntry::Node(self.id, version));
            return Ok(());
        }
    }

    /// Inserts a record by reusing a node that is flagged as deleted. The node gets the new data.
    fn reuse_deleted_node(
        &self,
        context: &mut ChangeContext,
        leaf: WriteLatch,
        line: usize,
        key: &[u8],
        bytes: &[u8],
        data: &[u8],
    ) -> Result<()> {
        let page = self.view(&leaf);
        let old: Vec<u8> = page.node(line).map_or(Vec::new(), |node| node.data.to_vec());
        let (prologue, writer, level) = context.prologue()?;
        let replaced = (old != data).then(|| {
            self.version(
                bytes,
                key.len(),
                &writer,
                level,
                VersionChange::Replace { before: old.into_boxed_slice() },
            )
        });
        let version = self.version(bytes, key.len(), &writer, level, VersionChange::Insert);
        let node = self.node_change(context.procid(), &page, leaf.key().page, line, &version);
        let (key, data) = (key.to_vec(), data.to_vec());
        let records = context.records(prologue);
        records.push(&match &replaced {
            Some(replaced) => LogRecord::FlagInsertAndReplaceData(FlagInsertAndReplaceData {
                node,
                replace_rceid: replaced.id,
                key,
                data: data.clone(),
            }),
            None => LogRecord::FlagInsert(FlagInsert { node, key, data: data.clone() }),
        });
        let versions: Vec<&Arc<Version>> = replaced.iter().chain([&version]).collect();
        self.perform(
            leaf,
            records,
            node.page.after,
            false,
            &PageDelta::Replace { line, flags: NodeFlags::VERSIONED, data: &data },
            &versions,
        )?;
        for version in replaced.into_iter().chain([version]) {
            context.changed(UndoEntry::Node(self.id, version));
        }
        Ok(())
    }

    /// Undoes one change, for rollback. Works on a full disk as long as there are reserve logs.
    pub(crate) fn undo(&self, version: &Arc<Version>, by: &ActiveRollback) -> Result<()> {
        let bytes = &version.bookmark;
        loop {
            let leaf = self.leaf_for_write(DescentTarget::Key(bytes))?;
            let page = self.view(&leaf);
            let (line, exact) = self.find(&page, bytes);
            let Some(stored) = page.node(line).filter(|_| exact) else {
                return Err(self.file.corrupt(leaf.key().page, Corruption::NothingToRollBack));
            };
            let kept = stored.flags - NodeFlags::COMPRESSED;
            let growth = match &version.change {
                VersionChange::Replace { before } => before.len().saturating_sub(stored.data.len()),
                _ => 0,
            };
            if page.free_bytes() < growth {
                drop(leaf);
                self.make_room(bytes, growth)?;
                continue;
            }
            let number = match version.change {
                VersionChange::Insert => operation::INSERT,
                VersionChange::FlagDelete => operation::FLAG_DELETE,
                VersionChange::Replace { .. } | VersionChange::ReplaceUnknown => operation::REPLACE,
            };
            let edit = undo_edit(line, kept, &version.change)
                .map_err(|what| self.file.corrupt(leaf.key().page, what))?;
            let mut node = self.node_change(by.procid, &page, leaf.key().page, line, version);
            node.page.begin0 = by.transaction.snapshot as u32;
            node.page.level = by.level;
            // An Undo record contains no data, so the old data is logged before it as a plain replace. Redo of the Undo
            // record alone would need a before-image, whose log record may precede the checkpoint.
            let mut records = RecordBatch::new();
            if let VersionChange::Replace { before } = &version.change {
                let mut restored = node;
                restored.page.flags -= PageChangeFlags::VERSIONED;
                restored.rceid = 0;
                records.push_replace(&restored, stored.data.len() as u16, before);
                node.page.before = restored.page.after;
                node.page.after = self.file.next_time();
            }
            let record = Undo {
                node,
                key: version.bookmark[..version.key_len].to_vec(),
                bookmark_data: version.bookmark[version.key_len..].to_vec(),
                operation: number,
                level: by.level,
            };
            records.push(&LogRecord::Undo(record));
            let leaf = self.perform(leaf, &records, node.page.after, true, &edit, &[])?;
            self.versions.remove(version);
            drop(leaf);
            return Ok(());
        }
    }

    /// Returns the leaf and line of a record that the transaction may change.
    fn node_to_change(&self, context: &ChangeContext, bookmark: &Bookmark) -> Result<(WriteLatch, usize)> {
        let bytes = bookmark.bytes();
        let leaf = match bookmark.leaf_hint().and_then(|leaf| self.last_known_leaf(leaf, bytes)) {
            Some(leaf) => leaf,
            None => self.leaf_for_write(DescentTarget::Key(bytes))?,
        };
        let page = self.view(&leaf);
        let (line, exact) = self.find(&page, bytes);
        let Some(node) = page.node(line).filter(|_| exact) else { return Err(Error::RecordNotFound) };
        if node.flags.contains(NodeFlags::VERSIONED) {
            self.check_conflict(bytes, context)?;
        }
        if node.flags.contains(NodeFlags::DELETED) {
            return Err(Error::RecordNotFound);
        }
        Ok((leaf, line))
    }

    /// Returns the leaf in which the node was last seen, if the node is still there. A node is in one leaf only, so
    /// the path to the leaf need not be checked.
    fn last_known_leaf(&self, leaf: PageNumber, bytes: &[u8]) -> Option<WriteLatch> {
        let leaf = self.file.resident(leaf)?.into_write();
        let page = self.view(&leaf);
        (self.is_live_leaf(&page) && self.find(&page, bytes).1).then_some(leaf)
    }

    fn check_conflict(&self, bytes: &[u8], context: &ChangeContext) -> Result<()> {
        if self.versions.conflicts(self.key(), bytes, &context.view()) {
            Err(Error::WriteConflict)
        } else {
            Ok(())
        }
    }

    pub(crate) fn version(
        &self,
        bytes: &[u8],
        key_len: usize,
        writer: &Arc<Transaction>,
        level: u8,
        change: VersionChange,
    ) -> Arc<Version> {
        Arc::new(Version {
            tree: self.key(),
            bookmark: bytes.into(),
            key_len,
            transaction: writer.clone(),
            id: self.versions.next_id(),
            level,
            change,
            settled: AtomicBool::new(false),
            undo_logged: Mutex::new(None),
        })
    }

    pub(crate) fn node_change(
        &self,
        procid: u16,
        page: &Page<'_>,
        number: ese_format::PageNumber,
        line: usize,
        version: &Version,
    ) -> NodeChange {
        let shape = self.identity();
        NodeChange {
            page: PageChange {
                procid,
                database: DatabaseIdInLog(self.file.log_id),
                page: number,
                after: self.file.next_time(),
                before: page.db_time(),
                begin0: version.transaction.snapshot as u32,
                level: version.level,
                line: line as u16,
                flags: shape.record_flags() | PageChangeFlags::VERSIONED,
            },
            rceid: version.id,
            root: Some(self.root),
            tree: self.id,
        }
    }

    /// Logs a change to one leaf and applies it. Returns the leaf, still latched.
    fn perform(
        &self,
        mut leaf: WriteLatch,
        records: &RecordBatch,
        after: DbTime,
        privileged: bool,
        edit: &PageDelta<'_>,
        versions: &[&Arc<Version>],
    ) -> Result<WriteLatch> {
        let log = &self.file.log;
        leaf.mark_dirty_by_delta(log.tail());
        let appended = if privileged { log.append_privileged(records)? } else { log.append(records)? };
        leaf.apply_delta(edit, after).expect("a logged change must fit the page it was checked against");
        leaf.set_last(appended.end);
        for version in versions {
            self.versions.add((*version).clone());
            if matches!(version.change, VersionChange::Replace { .. } | VersionChange::FlagDelete) {
                let page = leaf.key().page;
                let undo = DeferredBeforeImage::new(&self.file, self.identity(), (*version).clone(), page);
                leaf.defer_undo(Arc::new(undo));
            }
        }
        Ok(leaf)
    }
}

/// Returns the edit that undoes `change` on its node. Redo of an Undo record makes the same edit.
pub(crate) fn undo_edit(
    line: usize,
    kept: NodeFlags,
    change: &VersionChange,
) -> std::result::Result<PageDelta<'_>, PageMisfit> {
    match change {
        VersionChange::Insert => Ok(PageDelta::SetFlags { line, flags: kept | NodeFlags::DELETED }),
        VersionChange::FlagDelete => Ok(PageDelta::SetFlags { line, flags: kept - NodeFlags::DELETED }),
        VersionChange::Replace { before } => Ok(PageDelta::Replace { line, flags: kept, data: before }),
        VersionChange::ReplaceUnknown => Err(PageMisfit::NoBeforeImage),
    }
}

/// Returns the number of bytes that inserting this node would use on the page.
pub(crate) fn insert_size(page: &Page<'_>, key: &[u8], data: &[u8]) -> usize {
    let shared = shared_prefix_len(page.prefix(), key);
    node_space(key.len() - shared, shared > 0, data.len())
}
