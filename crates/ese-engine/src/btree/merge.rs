//! Physical removal of deleted nodes, and the release of pages that become empty or nearly empty.

use jetcell_sync::Arc;

use ese_format::PageNumber;
use ese_format::log::record::{
    DatabaseIdInLog, Delete, EmptiedPage, EmptyTree, LogRecord, MergeFlags, NodeChange, PageChange,
};
use ese_format::page::{NodeFlags, Page, PageFlags, node_space};
use ese_format::space::Extent;

use super::descend::DescentTarget;
use super::tree::{StructureLock, Tree};
use crate::cache::PageDelta;
use crate::log::RecordBatch;
use crate::pages::apply;
use crate::pages::merge::{self, LeafMerge, PathChange, merge_type};
use crate::pages::split::capacity;
use crate::pages::{AtomicGroup, GroupResult, group};
use crate::space::{SpaceLock, SpaceTrees};
use crate::transaction::{CommitNumber, SYSTEM_PROCID, Version};
use crate::{Corruption, Result};

/// How to change the pages above a leaf when the leaf is removed from the tree.
pub(super) enum LeafRemovalPlan {
    /// The pages above the leaf lead to no other leaf.
    Empty,
    Changed {
        path: Vec<PathChange>,
        /// The new key of the affected entries on the path.
        separator: Vec<u8>,
        /// Internal pages that become the last page on their level.
        spine: Vec<PageNumber>,
        /// Whether the key range of the leaf passes to its left neighbour.
        to_left: bool,
    },
    /// The page at this level of the path has no room for its new key.
    NoRoom(usize),
}

/// A leaf that is about to be removed from its tree.
pub(super) struct RemovedLeaf<'a> {
    /// The pages above the leaf, from the root down.
    pub parents: &'a [PageNumber],
    pub leaf: PageNumber,
    pub above: &'a LeafRemovalPlan,
    /// Merge type, which decides what happens to the nodes: [`merge_type::EMPTY_PAGE`] or [`merge_type::FULL_RIGHT`].
    pub kind: u8,
}

impl Tree {
    /// Returns true if the tree has a node with this key that is flagged as deleted.
    pub(crate) fn has_deleted(&self, bytes: &[u8]) -> Result<bool> {
        let leaf = self.leaf_for_read(DescentTarget::Key(bytes))?;
        let page = self.view(&leaf);
        let (line, exact) = self.find(&page, bytes);
        Ok(exact && page.node(line).is_some_and(|node| node.flags.contains(NodeFlags::DELETED)))
    }

    /// Removes a node that is flagged as deleted, along with the version of its deletion. The deletion must be older
    /// than `oldest` and therefore visible in every snapshot.
    pub(crate) fn remove_deleted(
        &self,
        bytes: &[u8],
        version: Option<&Arc<Version>>,
        oldest: CommitNumber,
    ) -> Result<()> {
        let versions = &self.versions;
        let mut leaf = self.leaf_for_write(DescentTarget::Key(bytes))?;
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
            if !self.lock_structure().remove_leaf(bytes, oldest)? {
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
            flags: self.identity().record_flags(),
        };
        let node = NodeChange { page: change, rceid: 0, root: Some(self.root), tree: self.id };
        let mut batch = RecordBatch::new();
        let [begin, commit] = self.file.numbers.enclosing_records(SYSTEM_PROCID);
        [begin, LogRecord::Delete(Delete { node }), commit].iter().for_each(|record| batch.push(record));
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
            self.lock_structure().merge_sparse(bytes, oldest)?;
        }
        Ok(())
    }
}

impl StructureLock<'_> {
    /// Removes the leaf of `bytes` from the tree if its only node is dead. Returns false if the node is no longer
    /// alone or dead, or if another page had to be split first.
    fn remove_leaf(&self, bytes: &[u8], oldest: CommitNumber) -> Result<bool> {
        let space = SpaceLock::new(&self.file);
        let trees = space.trees(self.root)?;
        let path = self.path(DescentTarget::Key(bytes))?;
        let Some((&leaf, parents)) = path.split_last() else { return Ok(false) };
        if parents.is_empty() {
            return Ok(false);
        }
        let above = self.plan_leaf_removal(parents, leaf)?;
        if let LeafRemovalPlan::NoRoom(level) = above {
            self.split_internal(&space, parents, level)?;
            return Ok(false);
        }
        let leaving = RemovedLeaf { parents, leaf, above: &above, kind: merge_type::EMPTY_PAGE };
        let freed = self.remove_from_tree(&space, &trees, &leaving, |group| {
            let page = group.page(leaf)?;
            Ok(page.node_count() == 1 && self.is_dead(&page, bytes, oldest))
        })?;
        Ok(freed > 0)
    }

    /// Removes a leaf from the tree in one atomic group. `is_due` is called once all affected pages are latched; if
    /// it returns false, nothing changes. Returns the number of freed pages.
    pub(super) fn remove_from_tree(
        &self,
        space: &SpaceLock<'_>,
        trees: &SpaceTrees,
        what: &RemovedLeaf<'_>,
        mut is_due: impl FnMut(&mut AtomicGroup) -> GroupResult<bool>,
    ) -> Result<u32> {
        let &RemovedLeaf { parents, leaf, above, kind } = what;
        let (path, separator, spine): (&[PathChange], &[u8], &[PageNumber]) = match above {
            LeafRemovalPlan::Changed { path, separator, spine, .. } => (path, separator, spine),
            LeafRemovalPlan::Empty => (&[], &[], &[]),
            LeafRemovalPlan::NoRoom(_) => return Ok(0),
        };
        let (left, right) = {
            let latch = self.pin(leaf)?.into_read();
            (self.view(&latch).prev(), self.view(&latch).next())
        };
        // Internal pages change only under the structure lock, so it was safe to read them one at a time. From here on,
        // latches are acquired from the top down.
        group::run(&self.file, true, |group| {
            let internal = path.iter().map(|change| change.page).chain(spine.iter().copied());
            let empties_tree = path.is_empty();
            for page in parents.iter().copied().filter(|_| empties_tree).chain(internal) {
                group.page(page)?;
            }
            for page in [left, Some(leaf), right].into_iter().flatten() {
                group.page(page)?;
            }
            if !is_due(group)? {
                return Ok(0);
            }
            let emptied: Vec<PageNumber> = if empties_tree {
                self.empty_tree(group, parents, leaf)?;
                parents[1..].to_vec()
            } else {
                self.remove_upper_limits(group, spine)?;
                let merge = LeafMerge { kind, page: leaf, left, right, line: 0, separator, path };
                merge::merge(group, &self.identity(), &merge)?;
                let emptied = path.iter().filter(|change| change.flags == MergeFlags::EMPTY_PAGE);
                emptied.map(|change| change.page).collect()
            };
            for &page in [&leaf].into_iter().chain(emptied.iter().rev()) {
                space.free(group, trees, Extent { last: page, count: 1 })?;
            }
            Ok(1 + emptied.len() as u32)
        })
    }

    /// Determines how the pages above a leaf change when the leaf is removed from the tree. ESE:
    /// `ErrBTISelectMergeInternalPages`.
    ///
    /// Pages that lead only to the leaf are removed, too. The page above them loses an entry. If that was its last
    /// entry, the key of the preceding entry becomes the new upper limit, and the pages above get this key. The range
    /// of the leaf passes to its right neighbour. Only at the right edge of the tree, where keys have no limit, does
    /// it pass to the left neighbour.
    pub(super) fn plan_leaf_removal(
        &self,
        parents: &[PageNumber],
        leaf: PageNumber,
    ) -> Result<LeafRemovalPlan> {
        let (mut path, mut separator, mut spine) = (Vec::new(), Vec::new(), Vec::new());
        let (mut child, mut child_goes, mut to_left) = (leaf, true, false);
        for (level, &number) in parents.iter().enumerate().rev() {
            let latch = self.pin(number)?.into_read();
            let page = self.view(&latch);
            let line = apply::entry_of(&page, child)
                .ok_or_else(|| self.file.corrupt(number, Corruption::NoParentEntry))?;
            let is_last = line + 1 == page.node_count();
            let mut unlimited = false;
            let flags = if child_goes && page.node_count() == 1 {
                MergeFlags::EMPTY_PAGE
            } else if child_goes {
                if let Some(before) = line.checked_sub(1).filter(|_| is_last).and_then(|line| page.node(line))
                {
                    separator = before.key_to_vec();
                    unlimited = page.node(line).is_some_and(|node| node.key_len() == 0);
                    to_left |= unlimited;
                    if let Some(before) = before.child().filter(|_| unlimited && child != leaf) {
                        spine.push(before);
                    }
                }
                MergeFlags::DELETE_NODE
            } else {
                let need = node_space(separator.len(), false, 4);
                if page.free_bytes() + page.node_size(line) < need {
                    return Ok(LeafRemovalPlan::NoRoom(level));
                }
                MergeFlags::KEY_CHANGE
            };
            path.push(PathChange { page: number, line, flags });
            (child, child_goes) = (number, flags == MergeFlags::EMPTY_PAGE);
            if !child_goes && (!is_last || unlimited) {
                break;
            }
        }
        if child_goes {
            return Ok(LeafRemovalPlan::Empty);
        }
        path.reverse();
        self.extend_spine(&mut spine)?;
        Ok(LeafRemovalPlan::Changed { path, separator, spine, to_left })
    }

    /// Extends the spine with the last child of its last page, down to the level above the leaves.
    fn extend_spine(&self, spine: &mut Vec<PageNumber>) -> Result<()> {
        while let Some(&number) = spine.last() {
            let latch = self.pin(number)?.into_read();
            let page = self.view(&latch);
            let last = page.node_count().checked_sub(1).and_then(|last| page.node(last));
            match last.and_then(|node| node.child()) {
                Some(child) if !page.flags().contains(PageFlags::PARENT_OF_LEAF) => spine.push(child),
                _ => break,
            }
        }
        Ok(())
    }

    /// Removes the upper limits of internal pages that are about to become the last page of their level. ESE keeps
    /// the page to their right instead.
    fn remove_upper_limits(&self, group: &mut AtomicGroup, spine: &[PageNumber]) -> GroupResult<()> {
        let shape = self.identity();
        for &number in spine {
            let page = group.page(number)?;
            let last = page.node_count().checked_sub(1);
            let entry = last.and_then(|line| page.node(line).map(|node| (line, node.data.to_vec())));
            if let Some((line, child)) = entry {
                group.delete(&shape, number, line)?;
                group.insert(&shape, number, line, &[], &child)?;
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

    /// Removes all pages below the root. The root becomes an empty leaf.
    fn empty_tree(
        &self,
        group: &mut AtomicGroup,
        parents: &[PageNumber],
        leaf: PageNumber,
    ) -> GroupResult<()> {
        let change = group.change(self.root, 0, self.identity().record_flags())?;
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

    /// Returns true if all nodes flagged as deleted are dead. A merge drops dead nodes.
    pub(super) fn all_deleted_are_dead(&self, page: &Page<'_>, oldest: CommitNumber) -> bool {
        let mut deleted = page.nodes().filter(|node| node.flags.contains(NodeFlags::DELETED));
        deleted.all(|node| self.is_dead(page, self.bookmark_of(&node).bytes(), oldest))
    }

    /// Merges the sparse leaf of `bytes` into its right neighbour, or merges its left neighbour into it. Does so only
    /// if a quarter of the merged page stays free.
    fn merge_sparse(&self, bytes: &[u8], oldest: CommitNumber) -> Result<()> {
        let space = SpaceLock::new(&self.file);
        let trees = space.trees(self.root)?;
        let path = self.path(DescentTarget::Key(bytes))?;
        let [.., parent, leaf] = path[..] else { return Ok(()) };
        // Only neighbours under the same parent are merged. A merge therefore changes only one separator.
        let (line, before, after) = {
            let latch = self.pin(parent)?.into_read();
            let page = self.view(&latch);
            let Some(line) = apply::entry_of(&page, leaf) else { return Ok(()) };
            let child = |line: usize| page.node(line).and_then(|node| node.child());
            (line, line.checked_sub(1).and_then(child), child(line + 1))
        };
        for (source, line, target) in [(Some(leaf), line, after), (before, line.wrapping_sub(1), Some(leaf))]
        {
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
                // Nodes can grow when they are recompressed. A quarter of the page stays free for this growth and for
                // inserts.
                let uncompressed: usize = from.nodes().map(|node| node.prefix.len()).sum();
                if used(&from) + uncompressed + used(&to) > room / 4 * 3
                    || to.prev() != Some(source)
                    || !self.all_deleted_are_dead(&from, oldest)
                {
                    return Ok(false);
                }
                let merge = LeafMerge {
                    kind: merge_type::FULL_RIGHT,
                    page: source,
                    left,
                    right: Some(target),
                    line: 0,
                    separator: &[],
                    path: &[PathChange { page: parent, line, flags: MergeFlags::DELETE_NODE }],
                };
                merge::merge(group, &self.identity(), &merge)?;
                space.free(group, &trees, Extent { last: source, count: 1 })?;
                Ok(true)
            })?;
            if merged {
                return Ok(());
            }
        }
        Ok(())
    }
}
