//! Physical removal of deleted nodes, and return of pages that become empty or nearly empty.

use jetcell_sync::Arc;

use ese_format::log::record::{
    BeforeImageFlags, DatabaseIdInLog, Delete, EmptiedPage, EmptyTree, LogRecord, Merge, MergeFlags,
    NodeChange, PageChange,
};
use ese_format::page::{NodeFlags, Page, node_space};
use ese_format::space::Extent;
use ese_format::{DbTime, PageNumber};

use super::Tree;
use super::descend::Target;
use crate::Result;
use crate::cache::PageDelta;
use crate::log::RecordBatch;
use crate::pages::apply::{self, merge_type};
use crate::pages::split::capacity;
use crate::pages::{AtomicGroup, Attempt, Stop, group};
use crate::space::SpaceLock;
use crate::transaction::{CommitNumber, SYSTEM_PROCID, Version};

impl Tree {
    /// Whether the tree has a node with this key that is flagged deleted.
    pub(crate) fn has_deleted(&self, bytes: &[u8]) -> Result<bool> {
        let leaf = self.leaf_for_read(Target::Key(bytes))?;
        let page = self.view(&leaf);
        let (line, exact) = self.find(&page, bytes);
        Ok(exact && page.node(line).is_some_and(|node| node.flags.contains(NodeFlags::DELETED)))
    }

    /// Removes a node flagged deleted, and the version of its deletion. The deletion must be below `oldest`, so that
    /// every snapshot sees it.
    pub(crate) fn remove_deleted(
        &self,
        bytes: &[u8],
        version: Option<&Arc<Version>>,
        oldest: CommitNumber,
    ) -> Result<()> {
        let versions = &self.versions;
        let mut leaf = self.leaf_for_write(Target::Key(bytes))?;
        let page = self.view(&leaf);
        let (line, exact) = self.find(&page, bytes);
        let newest = versions.newest(self.key(), bytes);
        let superseded = newest.is_some_and(|newest| {
            !version.is_some_and(|version| Arc::ptr_eq(version, &newest))
                && newest.transaction.committed().is_none_or(|number| number >= oldest)
        });
        let dead = exact && page.node(line).is_some_and(|node| node.flags.contains(NodeFlags::DELETED));
        if superseded || !dead {
            if let Some(version) = version {
                versions.remove(version);
            }
            return Ok(());
        }
        if page.node_count() == 1 && !page.is_root() {
            drop(leaf);
            if !self.remove_leaf(bytes, oldest)? {
                return self.remove_deleted(bytes, version, oldest);
            }
            if let Some(version) = version {
                versions.remove(version);
            }
            return Ok(());
        }
        let after = self.file.next_time();
        let change = PageChange {
            procid: SYSTEM_PROCID,
            database: DatabaseIdInLog(self.file.log_id),
            page: leaf.key().page,
            after,
            before: page.db_time(),
            begin0: 0,
            level: 0,
            line: line as u16,
            flags: self.shape().record_flags(),
        };
        let node = NodeChange { page: change, rceid: 0, root: Some(self.root), tree: self.id };
        let mut batch = RecordBatch::new();
        batch.push(&LogRecord::Delete(Delete { node }));
        let log = &self.file.log;
        leaf.mark_dirty_by_delta(log.tail());
        let appended = log.append_privileged(&batch)?;
        leaf.apply_delta(&PageDelta::Delete { line, end: line + 1 }, after)
            .expect("a node can always be removed");
        leaf.set_last(appended.end);
        if let Some(version) = version {
            versions.remove(version);
        }
        let page = self.view(&leaf);
        let sparse = !page.is_root() && page.free_bytes() > capacity(self.file.page_size) / 4 * 3;
        drop(leaf);
        if sparse {
            self.merge_sparse(bytes)?;
        }
        Ok(())
    }

    /// Removes the leaf of `bytes` from the tree if its only node is a dead one. Returns false if this is no longer so.
    fn remove_leaf(&self, bytes: &[u8], oldest: CommitNumber) -> Result<bool> {
        let _structure = self.structure.lock();
        let space = SpaceLock::new(&self.file);
        let trees = space.trees(self.root)?;
        let path = self.path(Target::Key(bytes))?;
        let Some((&leaf, parents)) = path.split_last() else { return Ok(false) };
        let (left, right) = {
            let latch = self.pin(leaf)?.into_read();
            (self.view(&latch).prev(), self.view(&latch).next())
        };
        // The ancestors that lead to no other leaf are removed together with the leaf. Internal pages change only under
        // the structure lock, so they can be read one by one. Afterwards latches are taken from the top down.
        let mut keeper = parents.len();
        let mut entries = 0;
        while keeper > 0 && entries <= 1 {
            keeper -= 1;
            let latch = self.pin(parents[keeper])?.into_read();
            entries = self.view(&latch).node_count();
        }
        if parents.is_empty() {
            return Ok(false);
        }
        let empties_tree = entries <= 1;
        let spine = match parents.get(keeper + 1) {
            Some(&going) if !empties_tree => self.right_spine(parents[keeper], going)?,
            _ => Vec::new(),
        };
        let mut narrow = None;
        let removed = group::run(&self.file, true, |group| {
            for &page in parents[keeper..].iter().chain(&spine) {
                group.page(page)?;
            }
            narrow = self.first_without_room(group, parents[keeper], &spine)?;
            if narrow.is_some() {
                return Ok(false);
            }
            for page in [left, Some(leaf), right].into_iter().flatten() {
                group.page(page)?;
            }
            let page = group.page(leaf)?;
            if page.node_count() != 1 || !self.is_dead(&page, bytes, oldest) {
                return Ok(false);
            }
            if empties_tree {
                self.empty_tree(group, parents, leaf)?;
            } else {
                self.unlink(group, leaf, left, right, parents, keeper)?;
                self.widen_spine(group, parents[keeper], &spine)?;
            }
            for &page in parents[keeper + 1..].iter().chain([&leaf]) {
                space.free(group, &trees, Extent { last: page, count: 1 })?;
            }
            Ok(true)
        })?;
        if let Some(at) = narrow {
            let path = [&parents[..=keeper], &spine[..=at]].concat();
            self.split_internal(&space, &path, keeper + 1 + at)?;
        }
        Ok(removed)
    }

    /// The internal pages that get a new upper bound when the internal page `going` is removed from `parent`. There are
    /// none, unless `going` is the last child of `parent`. Then the page before it gets its separator, and so does
    /// each last child below that page: the last entry of an internal page repeats the separator above it.
    fn right_spine(&self, parent: PageNumber, going: PageNumber) -> Result<Vec<PageNumber>> {
        let mut spine = Vec::new();
        let mut next = {
            let latch = self.pin(parent)?.into_read();
            let page = self.view(&latch);
            let line = apply::entry_of(&page, going).filter(|line| line + 1 == page.node_count());
            line.and_then(|line| line.checked_sub(1))
                .and_then(|line| page.node(line))
                .and_then(|node| node.child())
        };
        while let Some(number) = next {
            let latch = self.pin(number)?.into_read();
            let page = self.view(&latch);
            if page.is_leaf() {
                break;
            }
            spine.push(number);
            next = page
                .node_count()
                .checked_sub(1)
                .and_then(|last| page.node(last))
                .and_then(|node| node.child());
        }
        Ok(spine)
    }

    /// The first page of the spine that has no room to replace its last separator by the last separator of `parent`.
    fn first_without_room(
        &self,
        group: &mut AtomicGroup,
        parent: PageNumber,
        spine: &[PageNumber],
    ) -> Attempt<Option<usize>> {
        let last_key = |page: &Page<'_>| {
            page.node_count().checked_sub(1).and_then(|last| page.node(last)).map_or(0, |node| node.key_len())
        };
        let need = last_key(&group.page(parent)?);
        for (at, &number) in spine.iter().enumerate() {
            let page = group.page(number)?;
            let last = page.node_count().saturating_sub(1);
            if page.free_bytes() + page.node_size(last) < node_space(need, false, 4) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Replaces the last separator of each page of the spine by the last separator of `parent`.
    fn widen_spine(&self, group: &mut AtomicGroup, parent: PageNumber, spine: &[PageNumber]) -> Attempt<()> {
        let shape = self.shape();
        let last = |page: &Page<'_>| {
            page.node_count()
                .checked_sub(1)
                .and_then(|last| page.node(last).map(|n| (last, n.key_to_vec(), n.data.to_vec())))
        };
        let Some((_, separator, _)) = last(&group.page(parent)?) else { return Ok(()) };
        for &number in spine {
            let Some((line, key, child)) = last(&group.page(number)?) else { return Ok(()) };
            if key != separator {
                group.delete(&shape, number, line)?;
                group.insert(&shape, number, line, &separator, &child)?;
            }
        }
        Ok(())
    }

    fn is_dead(&self, page: &Page<'_>, bytes: &[u8], oldest: CommitNumber) -> bool {
        let (line, exact) = self.find(page, bytes);
        let newest = self.versions.newest(self.key(), bytes);
        exact
            && page.node(line).is_some_and(|node| node.flags.contains(NodeFlags::DELETED))
            && newest
                .is_none_or(|version| version.transaction.committed().is_some_and(|number| number < oldest))
    }

    /// Removes an empty leaf and the ancestors below `parents[keeper]`, which lead only to it.
    fn unlink(
        &self,
        group: &mut AtomicGroup,
        leaf: PageNumber,
        left: Option<PageNumber>,
        right: Option<PageNumber>,
        parents: &[PageNumber],
        keeper: usize,
    ) -> Attempt<()> {
        let going = parents[keeper + 1..].iter().chain([&leaf]).copied();
        for (depth, page) in going.enumerate() {
            let parent = (depth == 0).then_some(parents[keeper]);
            let (left, right) = if page == leaf { (left, right) } else { (None, None) };
            self.merge(group, page, left, right, parent, merge_type::EMPTY_PAGE)?;
        }
        Ok(())
    }

    /// Removes all pages below the root. The root becomes an empty leaf.
    fn empty_tree(&self, group: &mut AtomicGroup, parents: &[PageNumber], leaf: PageNumber) -> Attempt<()> {
        let change = group.change(self.root, 0, self.shape().record_flags())?;
        let mut entries = Vec::new();
        for &page in parents[1..].iter().chain([&leaf]) {
            let view = group.page(page)?;
            entries.push(EmptiedPage {
                before: view.db_time(),
                page: page.get(),
                flags: view.flags().bits(),
            });
        }
        for entry in &entries {
            apply::empty_page(&mut group.page_mut(PageNumber::fixed(entry.page))?);
        }
        apply::empty_root(&mut group.page_mut(self.root)?);
        let node = NodeChange { page: change, rceid: 0, root: Some(self.root), tree: self.id };
        group.record(LogRecord::EmptyTree(EmptyTree { node, pages: EmptyTree::encode_entries(&entries) }));
        Ok(())
    }

    /// Merges the sparse leaf of `bytes` into its right neighbour, or its left neighbour into it. Merges only if a
    /// quarter of the merged page stays free.
    fn merge_sparse(&self, bytes: &[u8]) -> Result<()> {
        let _structure = self.structure.lock();
        let space = SpaceLock::new(&self.file);
        let trees = space.trees(self.root)?;
        let path = self.path(Target::Key(bytes))?;
        let [.., parent, leaf] = path[..] else { return Ok(()) };
        // Only neighbours under the same parent, so that only one separator changes.
        let (before, after) = {
            let latch = self.pin(parent)?.into_read();
            let page = self.view(&latch);
            let Some(line) = apply::entry_of(&page, leaf) else { return Ok(()) };
            let child = |line: usize| page.node(line).and_then(|node| node.child());
            (line.checked_sub(1).and_then(child), child(line + 1))
        };
        for (source, target) in [(Some(leaf), after), (before, Some(leaf))] {
            let (Some(source), Some(target)) = (source, target) else { continue };
            let left = {
                let latch = self.pin(source)?.into_read();
                self.view(&latch).prev()
            };
            let merged = group::run(&self.file, true, |group| {
                group.page(parent)?;
                for page in [left, Some(source), Some(target)].into_iter().flatten() {
                    group.page(page)?;
                }
                let (from, to) = (group.copy_of(source)?, group.copy_of(target)?);
                let (from, to) = (self.view(&from), self.view(&to));
                let room = capacity(self.file.page_size);
                let used = |page: &Page<'_>| room - page.free_bytes().min(room);
                // Recompressed nodes can grow. A quarter of the page stays free for that and for inserts.
                let uncompressed: usize = from.nodes().map(|node| node.prefix.len()).sum();
                if used(&from) + uncompressed + used(&to) > room / 4 * 3 || to.prev() != Some(source) {
                    return Ok(false);
                }
                self.merge(group, source, left, Some(target), Some(parent), merge_type::FULL_RIGHT)?;
                space.free(group, &trees, Extent { last: source, count: 1 })?;
                Ok(true)
            })?;
            if merged {
                return Ok(());
            }
        }
        Ok(())
    }

    fn merge(
        &self,
        group: &mut AtomicGroup,
        source: PageNumber,
        left: Option<PageNumber>,
        right: Option<PageNumber>,
        parent: Option<PageNumber>,
        kind: u8,
    ) -> Attempt<()> {
        let before = group.copy_of(source)?;
        let page = self.view(&before);
        let time_of = |group: &mut AtomicGroup, page: Option<PageNumber>| -> Attempt<DbTime> {
            page.map_or(Ok(DbTime(0)), |page| group.time_of(page))
        };
        let mut flags = MergeFlags::empty();
        flags.set(MergeFlags::EMPTY_PAGE, kind == merge_type::EMPTY_PAGE);
        flags.set(MergeFlags::DELETE_NODE, parent.is_some());
        // When a last entry is removed, the entry before it takes over its key.
        let mut separator = Vec::new();
        if let Some(parent) = parent {
            let entries = group.page(parent)?;
            let line = apply::entry_of(&entries, source);
            if let Some(node) =
                line.filter(|line| line + 1 == entries.node_count()).and_then(|line| entries.node(line))
            {
                separator = node.key_to_vec();
                flags |= MergeFlags::KEY_CHANGE;
            }
        }
        let moves = kind == merge_type::FULL_RIGHT;
        let mut record = Merge {
            change: group.change(source, 0, self.shape().record_flags())?,
            right,
            right_before: time_of(group, right)?,
            left,
            left_before: time_of(group, left)?,
            parent,
            parent_before: time_of(group, parent)?,
            root: self.root,
            tree: self.id,
            moved: if moves { page.used_space(0..page.node_count()) as u16 } else { 0 },
            moved_max: 0,
            destination_uncommitted: 0,
            merge_line: 0,
            flags,
            merge_type: kind,
            separator,
            image_flags: BeforeImageFlags::empty(),
            before_image: Vec::new(),
        };
        if moves {
            group.log_deferred_undo(source)?;
            record.set_before_page(&before, self.file.page_size);
        }
        let failed = |what| Stop::Failed(self.damaged(source, what));
        if let Some(right) = right {
            let size = self.file.page_size;
            apply::merge_right(group.bytes_mut(right)?, size, &page, &record).map_err(failed)?;
        }
        if let Some(left) = left {
            apply::merge_left(&mut group.page_mut(left)?, &page, &record).map_err(failed)?;
        }
        if let Some(parent) = parent {
            apply::merge_parent(&mut group.page_mut(parent)?, &record).map_err(failed)?;
        }
        apply::merge_source(&mut group.page_mut(source)?, &record).map_err(failed)?;
        group.record(LogRecord::Merge2(record));
        Ok(())
    }
}
