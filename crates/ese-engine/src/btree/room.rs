//! Making room in this tree until a node fits: the loop around [`split`] and [`share`](super::share), with space
//! allocation and structure lock.

use std::sync::Arc;

use ese_format::PageNumber;
use ese_format::log::record::{Insert, LogRecord, PageChangeFlags};
use ese_format::page::{NodeFlags, node_space};

use super::Tree;
use super::change::insert_size;
use super::descend::Target;
use super::group::{self, AtomicGroup, Attempt, Stop, cut_key};
use super::split::{self, Incoming};
use crate::cache::{Edit, PinnedPage};
use crate::session::{ActiveTransaction, Done};
use crate::space::{SpaceLock, SpaceTrees};
use crate::versions::{Change, Version};
use crate::{Error, Result};

enum Step {
    /// The insert is done.
    Inserted,
    /// The leaf is as it should be now; try the plain way again.
    Ready,
    /// One split done; look again.
    Again,
    /// This level must be split first.
    Split(usize),
}

impl Tree {
    /// Gives nodes of the leaf of `bytes` to its neighbour, or splits it, and inserts the node in the same atomic group.
    /// `next` is the leaf behind it. False: try the plain insert again.
    pub(crate) fn split_and_insert(
        self: &Arc<Self>,
        session: &mut ActiveTransaction,
        key: &[u8],
        data: &[u8],
        bytes: &[u8],
        next: Option<PageNumber>,
    ) -> Result<bool> {
        let _neighbour = self.pin_ahead(next);
        let _structure = self.structure.lock();
        let space = SpaceLock::new(&self.db);
        loop {
            let trees = space.prepare(self.root, 1)?;
            let path = self.path(Target::Key(bytes))?;
            let (prologue, writer, level) = session.prologue()?;
            let version = self.version(bytes, key.len(), &writer, level, Change::Insert);
            let step = group::run_as(&self.db, session.procid(), false, |group| {
                let (parent, leaf) = match path[..] {
                    [_] => return self.split_root_leaf(group, &space, &trees, bytes, key, data),
                    [.., parent, leaf] => (parent, leaf),
                    [] => return Ok(Step::Again),
                };
                group.page(parent)?;
                let page = group.page(leaf)?;
                let (line, exact) = self.find(&page, bytes);
                if exact || self.fits(&page, line, insert_size(&page, key, data)) {
                    return Ok(Step::Ready);
                }
                let incoming = Incoming { line, key, data };
                if let Some(plan) = self.plan_with_neighbour(group, parent, leaf, incoming)? {
                    let place = self.share(group, (&space, &trees), [parent, leaf], line, &plan)?;
                    let Some((page, line)) = place else { return Ok(Step::Split(path.len() - 2)) };
                    prologue.iter().for_each(|record| group.record(record.clone()));
                    self.insert_versioned(group, page, line, key, data, &version)?;
                    return Ok(Step::Inserted);
                }
                let page = group.page(leaf)?;
                let shape = self.shape();
                let with = split::choose_cut(&shape, &page, self.db.page_size, Some(incoming));
                // A large node between others may fit on neither side: then the page is cut where the node belongs,
                // and the next round gives it a page of its own.
                let alone = with.is_none();
                let cut =
                    with.or_else(|| split::cut_at(&shape, &page, line)).ok_or_else(|| too_large(data))?;
                let right = page.next();
                if !self.parent_fits(group, parent, cut.separator.len())? {
                    return Ok(Step::Split(path.len() - 2));
                }
                if let Some(right) = right {
                    group.page(right)?;
                }
                let new = space.take_page(group, &trees)?;
                split::split_page(group, &self.shape(), parent, leaf, new, &cut)?;
                if alone {
                    return Ok(Step::Again);
                }
                let (page, line) = if cut.incoming_right { (new, line - cut.line) } else { (leaf, line) };
                prologue.iter().for_each(|record| group.record(record.clone()));
                self.insert_versioned(group, page, line, key, data, &version)?;
                Ok(Step::Inserted)
            })?;
            match step {
                Step::Inserted => {
                    session.did(Done::Node(self.clone(), version));
                    return Ok(true);
                }
                Step::Ready => return Ok(false),
                Step::Again => {}
                Step::Split(level) => self.split_internal(&space, &path, level)?,
            }
        }
    }

    /// Reads what a split of the leaf of `bytes` may have to read, before the structure lock is taken, so that other
    /// splits do not wait for the disk. Only a hint: the neighbour may be another page by then.
    fn pin_right_neighbour(&self, bytes: &[u8]) -> Result<Option<PinnedPage>> {
        let leaf = self.leaf_for_read(Target::Key(bytes))?;
        let next = self.view(&leaf).next();
        drop(leaf);
        Ok(self.pin_ahead(next))
    }

    fn pin_ahead(&self, neighbour: Option<PageNumber>) -> Option<PinnedPage> {
        neighbour.and_then(|page| self.pin(page).ok())
    }

    /// Splits until the leaf of `bytes` has `need` more bytes free.
    pub(crate) fn make_room(self: &Arc<Self>, bytes: &[u8], need: usize) -> Result<()> {
        let _neighbour = self.pin_right_neighbour(bytes)?;
        let _structure = self.structure.lock();
        let space = SpaceLock::new(&self.db);
        loop {
            let trees = space.prepare(self.root, 1)?;
            let path = self.path(Target::Key(bytes))?;
            let step = group::run(&self.db, true, |group| {
                let (parent, leaf) = match path[..] {
                    [root] => {
                        let page = group.page(root)?;
                        if self.has_room(&page, need) {
                            return Ok(Step::Ready);
                        }
                        let new = space.take_page(group, &trees)?;
                        split::split_root(group, &self.shape(), new)?;
                        return Ok(Step::Again);
                    }
                    [.., parent, leaf] => (parent, leaf),
                    [] => return Ok(Step::Again),
                };
                group.page(parent)?;
                let page = group.page(leaf)?;
                if self.has_room(&page, need) {
                    return Ok(Step::Ready);
                }
                let cut = split::choose_cut(&self.shape(), &page, self.db.page_size, None);
                // A page that cannot be cut holds one node: what undo reserved is its own, so it may grow.
                let Some(cut) = cut else {
                    return if page.free_bytes() >= need { Ok(Step::Ready) } else { Err(too_large(bytes)) };
                };
                let right = page.next();
                if !self.parent_fits(group, parent, cut.separator.len())? {
                    return Ok(Step::Split(path.len() - 2));
                }
                if let Some(right) = right {
                    group.page(right)?;
                }
                let new = space.take_page(group, &trees)?;
                split::split_page(group, &self.shape(), parent, leaf, new, &cut)?;
                Ok(Step::Again)
            })?;
            match step {
                Step::Ready | Step::Inserted => return Ok(()),
                Step::Again => {}
                Step::Split(level) => self.split_internal(&space, &path, level)?,
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
    ) -> Attempt<Step> {
        let page = group.page(self.root)?;
        let (line, _) = self.find(&page, bytes);
        if self.fits(&page, line, insert_size(&page, key, data)) {
            return Ok(Step::Ready);
        }
        if page.node_count() == 0 {
            return Err(too_large(data));
        }
        let new = space.take_page(group, trees)?;
        split::split_root(group, &self.shape(), new)?;
        Ok(Step::Again)
    }

    /// Splits the internal page `path[level]`, or the ancestor that must be split before it.
    pub(super) fn split_internal(
        self: &Arc<Self>,
        space: &SpaceLock<'_>,
        path: &[PageNumber],
        level: usize,
    ) -> Result<()> {
        let trees = space.prepare(self.root, 1)?;
        let step = group::run(&self.db, true, |group| {
            let Some(parent) = level.checked_sub(1).map(|above| path[above]) else {
                let new = space.take_page(group, &trees)?;
                split::split_root(group, &self.shape(), new)?;
                return Ok(Step::Again);
            };
            group.page(parent)?;
            let page = group.page(path[level])?;
            let cut = split::choose_cut(&self.shape(), &page, self.db.page_size, None)
                .ok_or_else(|| too_large(&[]))?;
            if !self.parent_fits(group, parent, cut.separator.len())? {
                return Ok(Step::Split(level - 1));
            }
            let new = space.take_page(group, &trees)?;
            split::split_page(group, &self.shape(), parent, path[level], new, &cut)?;
            Ok(Step::Again)
        })?;
        match step {
            Step::Split(above) => self.split_internal(space, path, above),
            _ => Ok(()),
        }
    }

    fn parent_fits(&self, group: &mut AtomicGroup, parent: PageNumber, separator: usize) -> Attempt<bool> {
        Ok(group.page(parent)?.free_bytes() >= node_space(separator, false, 4))
    }

    fn insert_versioned(
        self: &Arc<Self>,
        group: &mut AtomicGroup,
        page: PageNumber,
        line: usize,
        key: &[u8],
        data: &[u8],
        version: &Arc<Version>,
    ) -> Attempt<()> {
        let view = group.page(page)?;
        let mut node = self.node_change(0, &view, page, line, version);
        node.page.flags |= PageChangeFlags::VERSIONED;
        let [prefix, suffix] = cut_key(&view, key).map(<[u8]>::to_vec);
        node.page.procid = group.procid();
        let record = Insert { node, prefix, suffix, data: data.to_vec() };
        let (key, flags) = (record.key(), NodeFlags::VERSIONED);
        let applied = group.edit(page, node.page.after, &Edit::Insert { line, flags, key: &key, data })?;
        group.done(page, applied, LogRecord::Insert(record))?;
        let (core, version) = (self.db.core.clone(), version.clone());
        group.on_commit(move || core.versions.add(version));
        Ok(())
    }
}

fn too_large(data: &[u8]) -> Stop {
    Stop::Failed(Error::Usage(format!("record of {} bytes does not fit a page", data.len())))
}
