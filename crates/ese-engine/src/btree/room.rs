//! Checks whether a page has room for a change, and splits pages until a node fits. Calls
//! [`pages::split`](crate::pages::split) and [`share`](super::share) in a loop, and handles space allocation and the
//! structure lock.

use jetcell_sync::Arc;

use ese_format::PageNumber;
use ese_format::log::record::{Insert, LogRecord, NodeChange, PageChangeFlags};
use ese_format::page::{NodeFlags, Page, PageFlags, node_space};

use super::Tree;
use super::change::insert_size;
use super::descend::DescentTarget;
use super::share::SharingResult;
use crate::cache::{PageDelta, PinnedPage};
use crate::pages::split::{self, IncomingNode, SplitInsert};
use crate::pages::{AtomicGroup, GroupAbort, GroupResult, cut_key, group};
use crate::space::{SpaceLock, SpaceTrees};
use crate::transaction::{ChangeContext, UndoEntry, Version, VersionChange};
use crate::{Result, UsageError};

enum RoomStep {
    /// The insert is done.
    Inserted,
    /// The leaf needs no further change. Retry the plain insert or replace.
    Ready,
    /// One split is done. The caller must check again.
    CheckAgain,
    /// The page at this level of the path must be split first.
    Split(usize),
}

impl Tree {
    /// Returns true if a change may use `need` bytes of the page. The bytes that may be needed to undo uncommitted
    /// changes stay free.
    pub(crate) fn has_room(&self, page: &Page<'_>, need: usize) -> bool {
        self.keeps_undo_reserve(page, need, None)
    }

    /// Returns true if the node with bookmark `bytes` may grow by `growth` bytes. The node's undo reserve shrinks by
    /// the same amount, so the growth is not counted twice.
    pub(super) fn may_grow(&self, page: &Page<'_>, bytes: &[u8], growth: usize) -> bool {
        // A single node can use the whole page, and its current length does not affect the space needed for undo.
        page.node_count() == 1 && page.free_bytes() >= growth
            || self.keeps_undo_reserve(page, growth, Some((bytes, growth)))
    }

    fn keeps_undo_reserve(&self, page: &Page<'_>, need: usize, grown: Option<(&[u8], usize)>) -> bool {
        let Some(left) = page.free_bytes().checked_sub(need) else { return false };
        left > self.file.page_size.bytes() / 2 || left >= self.reserved_for_undo(page, grown)
    }

    /// Returns the number of bytes that may be needed to undo the uncommitted changes on this page. `grown` describes a
    /// node that is about to grow: its bookmark and the additional length.
    pub(super) fn reserved_for_undo(&self, page: &Page<'_>, grown: Option<(&[u8], usize)>) -> usize {
        let replaced = !self.kind.intersects(PageFlags::INDEX | PageFlags::SPACE);
        if !replaced || !self.versions.has_replaces() {
            return 0;
        }
        let (Some(first), Some(last)) = (page.node(0), page.node(page.node_count().saturating_sub(1))) else {
            return 0;
        };
        let (first, last) = (self.bookmark_of(&first), self.bookmark_of(&last));
        let lengths = self.versions.undo_lengths(self.key(), first.bytes(), last.bytes());
        let growth = |(version, length): &(Arc<Version>, usize)| {
            let (line, exact) = self.find(page, &version.bookmark);
            let stored = page.node(line).filter(|_| exact).map_or(0, |node| node.data.len());
            let gained =
                grown.filter(|(bytes, _)| **bytes == *version.bookmark).map_or(0, |(_, gained)| gained);
            length.saturating_sub(stored + gained)
        };
        lengths.iter().map(growth).sum()
    }

    /// Inserts a node into the full leaf of `bytes`. In the same atomic group, it moves nodes of the leaf to its
    /// neighbour or splits the leaf. `next` is the following leaf. Returns false if the caller must retry the plain
    /// insert.
    pub(crate) fn split_and_insert(
        &self,
        context: &mut ChangeContext,
        key: &[u8],
        data: &[u8],
        bytes: &[u8],
        next: Option<PageNumber>,
    ) -> Result<bool> {
        let _neighbour = self.pin_ahead(next);
        let structure = self.lock_structure();
        let space = SpaceLock::new(&self.file);
        loop {
            let trees = space.prepare(self.root, 1)?;
            let path = self.path(DescentTarget::Key(bytes))?;
            let (prologue, writer, level) = context.prologue()?;
            let version = self.version(bytes, key.len(), &writer, level, VersionChange::Insert);
            let step = group::run_for_session(&self.file, context.procid(), false, |group| {
                let (parent, leaf) = match path[..] {
                    [_] => return self.split_root_leaf(group, &space, &trees, bytes, key, data),
                    [.., parent, leaf] => (parent, leaf),
                    [] => return Ok(RoomStep::CheckAgain),
                };
                group.page(parent)?;
                let page = group.page(leaf)?;
                let (line, exact) = self.find(&page, bytes);
                if exact || self.fits(&page, line, insert_size(&page, key, data)) {
                    return Ok(RoomStep::Ready);
                }
                let incoming = IncomingNode { line, key, data };
                let node = self.versioned_node(group, leaf, line, &version)?;
                let insert = SplitInsert { incoming, node };
                if let Some(plan) = structure.plan_with_neighbour(group, parent, leaf, incoming)? {
                    match structure.share(group, (&space, &trees), [parent, leaf], &insert, &plan)? {
                        None => return Ok(RoomStep::Split(path.len() - 2)),
                        Some(SharingResult::Room(page, line)) => {
                            self.insert_versioned(group, page, line, key, data, &version)?;
                        }
                        Some(SharingResult::Inserted) => {}
                    }
                    self.inserted(group, &prologue, &version);
                    return Ok(RoomStep::Inserted);
                }
                let page = group.page(leaf)?;
                let shape = self.identity();
                let with = split::choose_cut(&shape, &page, self.file.page_size, Some(incoming));
                // A large node in the middle of a page may fit on neither side. Then the page is cut at the line of
                // the node, and the next iteration puts the node on a separate page.
                let alone = with.is_none();
                let cut =
                    with.or_else(|| split::cut_at(&shape, &page, line)).ok_or_else(|| too_large(data))?;
                let right = page.next();
                if !self.parent_fits(group, parent, cut.separator.len())? {
                    return Ok(RoomStep::Split(path.len() - 2));
                }
                if let Some(right) = right {
                    group.page(right)?;
                }
                let new = space.take_page(group, &trees)?;
                let insert = Some(&insert).filter(|_| !alone);
                split::split_page(group, &self.identity(), parent, leaf, new, &cut, insert)?;
                if alone {
                    return Ok(RoomStep::CheckAgain);
                }
                self.inserted(group, &prologue, &version);
                Ok(RoomStep::Inserted)
            })?;
            match step {
                RoomStep::Inserted => {
                    context.changed(UndoEntry::Node(self.id, version));
                    return Ok(true);
                }
                RoomStep::Ready => return Ok(false),
                RoomStep::CheckAgain => {}
                RoomStep::Split(level) => self.split_internal(&space, &path, level)?,
            }
        }
    }

    /// Pins the page that a split of the leaf of `bytes` may need. This happens before the structure lock is acquired;
    /// otherwise other splits would wait for the disk. The result is only a hint: the leaf can have another neighbour
    /// by the time the lock is acquired.
    fn pin_right_neighbour(&self, bytes: &[u8]) -> Result<Option<PinnedPage>> {
        let leaf = self.leaf_for_read(DescentTarget::Key(bytes))?;
        let next = self.view(&leaf).next();
        drop(leaf);
        Ok(self.pin_ahead(next))
    }

    fn pin_ahead(&self, neighbour: Option<PageNumber>) -> Option<PinnedPage> {
        neighbour.and_then(|page| self.pin(page).ok())
    }

    /// Splits pages until there is room for the node with bookmark `bytes` to grow by `growth` bytes.
    pub(crate) fn make_room(&self, bytes: &[u8], growth: usize) -> Result<()> {
        let _neighbour = self.pin_right_neighbour(bytes)?;
        let _structure = self.lock_structure();
        let space = SpaceLock::new(&self.file);
        loop {
            let trees = space.prepare(self.root, 1)?;
            let path = self.path(DescentTarget::Key(bytes))?;
            let step = group::run(&self.file, true, |group| {
                let (parent, leaf) = match path[..] {
                    [root] => {
                        let page = group.page(root)?;
                        if self.may_grow(&page, bytes, growth) {
                            return Ok(RoomStep::Ready);
                        }
                        let new = space.take_page(group, &trees)?;
                        split::split_root(group, &self.identity(), new)?;
                        return Ok(RoomStep::CheckAgain);
                    }
                    [.., parent, leaf] => (parent, leaf),
                    [] => return Ok(RoomStep::CheckAgain),
                };
                group.page(parent)?;
                let page = group.page(leaf)?;
                if self.may_grow(&page, bytes, growth) {
                    return Ok(RoomStep::Ready);
                }
                let cut = split::choose_cut(&self.identity(), &page, self.file.page_size, None);
                // A page that cannot be cut has only one node. If this returned `Ready`, the caller would retry
                // endlessly.
                let cut = cut.ok_or_else(|| too_large(bytes))?;
                let right = page.next();
                if !self.parent_fits(group, parent, cut.separator.len())? {
                    return Ok(RoomStep::Split(path.len() - 2));
                }
                if let Some(right) = right {
                    group.page(right)?;
                }
                let new = space.take_page(group, &trees)?;
                split::split_page(group, &self.identity(), parent, leaf, new, &cut, None)?;
                Ok(RoomStep::CheckAgain)
            })?;
            match step {
                RoomStep::Ready | RoomStep::Inserted => return Ok(()),
                RoomStep::CheckAgain => {}
                RoomStep::Split(level) => self.split_internal(&space, &path, level)?,
            }
        }
    }

    fn split_root_leaf(
        &self,
        group: &mut AtomicGroup,
        space: &SpaceLock<'_>,
        trees: &SpaceTrees,
        bytes: &[u8],
        key: &[u8],
        data: &[u8],
    ) -> GroupResult<RoomStep> {
        let page = group.page(self.root)?;
        let (line, _) = self.find(&page, bytes);
        if self.fits(&page, line, insert_size(&page, key, data)) {
            return Ok(RoomStep::Ready);
        }
        if page.node_count() == 0 {
            return Err(too_large(data));
        }
        let new = space.take_page(group, trees)?;
        split::split_root(group, &self.identity(), new)?;
        Ok(RoomStep::CheckAgain)
    }

    /// Splits the internal page `path[level]`, or an ancestor that must be split first.
    pub(super) fn split_internal(
        &self,
        space: &SpaceLock<'_>,
        path: &[PageNumber],
        level: usize,
    ) -> Result<()> {
        let trees = space.prepare(self.root, 1)?;
        let step = group::run(&self.file, true, |group| {
            let Some(parent) = level.checked_sub(1).map(|above| path[above]) else {
                let new = space.take_page(group, &trees)?;
                split::split_root(group, &self.identity(), new)?;
                return Ok(RoomStep::CheckAgain);
            };
            group.page(parent)?;
            let page = group.page(path[level])?;
            let cut = split::choose_cut(&self.identity(), &page, self.file.page_size, None)
                .ok_or_else(|| too_large(&[]))?;
            if !self.parent_fits(group, parent, cut.separator.len())? {
                return Ok(RoomStep::Split(level - 1));
            }
            let new = space.take_page(group, &trees)?;
            split::split_page(group, &self.identity(), parent, path[level], new, &cut, None)?;
            Ok(RoomStep::CheckAgain)
        })?;
        match step {
            RoomStep::Split(above) => self.split_internal(space, path, above),
            _ => Ok(()),
        }
    }

    fn parent_fits(
        &self,
        group: &mut AtomicGroup,
        parent: PageNumber,
        separator: usize,
    ) -> GroupResult<bool> {
        Ok(group.page(parent)?.free_bytes() >= node_space(separator, false, 4))
    }

    /// Returns the fields at the start of the log record for a versioned insert.
    fn versioned_node(
        &self,
        group: &mut AtomicGroup,
        page: PageNumber,
        line: usize,
        version: &Version,
    ) -> GroupResult<NodeChange> {
        let mut node = self.node_change(group.procid(), &group.page(page)?, page, line, version);
        node.page.flags |= PageChangeFlags::VERSIONED;
        Ok(node)
    }

    fn insert_versioned(
        &self,
        group: &mut AtomicGroup,
        page: PageNumber,
        line: usize,
        key: &[u8],
        data: &[u8],
        version: &Version,
    ) -> GroupResult<()> {
        let node = self.versioned_node(group, page, line, version)?;
        let [prefix, suffix] = cut_key(&group.page(page)?, key).map(<[u8]>::to_vec);
        let record = Insert { node, prefix, suffix, data: data.to_vec() };
        let (key, flags) = (record.key(), NodeFlags::VERSIONED);
        let applied = group.edit(page, &PageDelta::Insert { line, flags, key: &key, data })?;
        group.record_if_applied(page, applied, LogRecord::Insert(record))
    }

    /// Completes a group that has inserted the node of `version`.
    fn inserted(&self, group: &mut AtomicGroup, prologue: &Option<LogRecord>, version: &Arc<Version>) {
        prologue.iter().for_each(|record| group.record_before(record.clone()));
        let (versions, version) = (self.versions.clone(), version.clone());
        group.on_commit(move || versions.add(version));
    }
}

fn too_large(data: &[u8]) -> GroupAbort {
    GroupAbort::Failed(UsageError::RecordTooLong(data.len()).into())
}
