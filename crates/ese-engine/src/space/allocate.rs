//! Page allocation, release, and growth. A tree gets space from its parent tree, and the system root gets it from the
//! file.

use ese_format::PageNumber;
use ese_format::log::record::{DatabaseIdInLog, ExtendDb, LogRecord};
use ese_format::page::Page;
use ese_format::space::{Extent, SpaceHeader};
use jetcell_sync::{Arc, MutexGuard};

use super::extents::{self, ExtentLocation};
use crate::pages::{AtomicGroup, GroupAbort, GroupResult, TREE_KIND, TreeIdentity, group};
use crate::storage::DatabaseFile;
use crate::transaction::SYSTEM_PROCID;
use crate::{Corruption, InternalError, Result, UsageError};

/// A tree and its two space trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceTrees {
    pub owner: TreeIdentity,
    pub owned: TreeIdentity,
    pub available: TreeIdentity,
    pub parent: Option<PageNumber>,
}

/// Guard that locks a database's space trees.
pub(crate) struct SpaceLock<'a> {
    pub(super) file: &'a Arc<DatabaseFile>,
    _guard: MutexGuard<'a, ()>,
}

/// Position where a search through an entire tree starts.
pub(super) const FIRST: PageNumber = PageNumber::fixed(1);
/// Maximum size in pages of an extent that a tree requests from its parent unless it needs more at once.
const MAX_EXTENT: u32 = 256;
/// Minimum size in pages of an extent that a tree requests.
const MIN_EXTENT: u32 = 4;

impl<'a> SpaceLock<'a> {
    pub fn new(file: &'a Arc<DatabaseFile>) -> SpaceLock<'a> {
        SpaceLock { file, _guard: file.space.lock() }
    }

    /// Returns the space trees of the tree rooted at `root`, creating them if necessary. The caller must not hold a
    /// latch.
    pub fn trees(&self, root: PageNumber) -> Result<SpaceTrees> {
        if let Some(trees) = self.existing_trees(root)? {
            return Ok(trees);
        }
        let (owner, header) = self.header(root)?;
        self.convert(owner, header)?;
        self.trees(root)
    }

    /// Returns the space trees of the tree rooted at `root`, or `None` if it has none. The caller must not hold a
    /// latch.
    pub fn existing_trees(&self, root: PageNumber) -> Result<Option<SpaceTrees>> {
        let (owner, header) = self.header(root)?;
        let roots = header.owned_root().zip(header.available_root());
        Ok(roots.map(|(owned, available)| SpaceTrees {
            owner,
            owned: extents::space_tree_identity(&owner, owned),
            available: extents::space_tree_identity(&owner, available),
            parent: header.parent,
        }))
    }

    pub(super) fn header(&self, root: PageNumber) -> Result<(TreeIdentity, SpaceHeader)> {
        let latch = self.file.pin(root)?.into_read();
        let page = Page::new(&latch, self.file.page_size);
        let header = SpaceHeader::decode(page.external_header()).map_err(|e| self.file.corrupt(root, e))?;
        Ok((TreeIdentity { root, id: page.tree(), kind: page.flags() & TREE_KIND }, header))
    }

    /// Ensures that at least `pages` pages are available, so that they can be allocated without growth. Returns the
    /// space trees. The caller must not hold a latch.
    pub fn prepare(&self, root: PageNumber, pages: u32) -> Result<SpaceTrees> {
        let trees = self.trees(root)?;
        let mut available = 0u32;
        extents::search(self.file, &trees.available, FIRST, |extent| {
            available = available.saturating_add(extent.count);
            available >= pages
        })?;
        if available < pages {
            self.grow(&trees, pages - available)?;
        }
        Ok(trees)
    }

    /// Allocates the lowest available page. The caller must call [`SpaceLock::prepare`] first.
    pub fn take_page(&self, group: &mut AtomicGroup, trees: &SpaceTrees) -> GroupResult<PageNumber> {
        take_first(group, trees, 1)?
            .map(|extent| extent.last)
            .ok_or_else(|| GroupAbort::Failed(self.file.corrupt(trees.available.root, Corruption::NoExtent)))
    }

    /// Allocates this page if an available extent of the tree starts with it. Returns false otherwise.
    pub fn take_first_of_extent(
        &self,
        group: &mut AtomicGroup,
        trees: &SpaceTrees,
        page: PageNumber,
    ) -> GroupResult<bool> {
        match extent_from(group, trees, page)? {
            Some(found) => take_from(group, trees, &found, 1).map(|_| true),
            None => Ok(false),
        }
    }

    /// Returns true if an available extent of the tree starts with this page. The caller must not hold a latch.
    pub fn begins_extent(&self, trees: &SpaceTrees, page: PageNumber) -> Result<bool> {
        group::run(self.file, false, |group| Ok(extent_from(group, trees, page)?.is_some()))
    }

    /// Returns an available extent of at least `pages` pages. Grows the tree if necessary. The caller must not hold a
    /// latch.
    pub fn prepare_extent(&self, trees: &SpaceTrees, pages: u32) -> Result<Extent> {
        loop {
            match extents::search(self.file, &trees.available, FIRST, |extent| extent.count >= pages)? {
                Some(found) => return Ok(found),
                // The space trees may take some pages of the new extent for themselves. After that, they need no
                // further pages for a long time.
                None => self.grow(trees, pages)?,
            }
        }
    }

    /// Makes an extent available whose pages were in use by the tree.
    pub fn free(&self, group: &mut AtomicGroup, trees: &SpaceTrees, extent: Extent) -> GroupResult<()> {
        // Extents for writes that bypass the cache come only from the root of the database.
        if trees.parent.is_none() {
            self.file.unsettled.add(extent);
        }
        self.free_unused(group, trees, extent)
    }

    /// Makes an extent available whose pages have not been used since they were added to the tree.
    pub(super) fn free_unused(
        &self,
        group: &mut AtomicGroup,
        trees: &SpaceTrees,
        mut extent: Extent,
    ) -> GroupResult<()> {
        let behind = extents::find(group, &trees.available, extent.last.plus(1), |_| true)?;
        if let Some(behind) = behind.filter(|behind| behind.extent.first() == extent.last.plus(1)) {
            let before = self.before(group, trees, extent)?;
            let mut count = behind.extent.count + extent.count;
            if let Some(before) = before {
                count += before.extent.count;
                extents::remove(group, &trees.available, &before)?;
            }
            // Removing the other extent can change this node's line within its leaf.
            let behind = extents::ending_at(group, &trees.available, behind.extent.last)?.unwrap_or(behind);
            return extents::resize(group, &trees.available, &behind, count);
        }
        if let Some(before) = self.before(group, trees, extent)? {
            extent.count += before.extent.count;
            extents::remove(group, &trees.available, &before)?;
        }
        let mut spare = |group: &mut AtomicGroup| self.take_page(group, trees);
        extents::insert(group, &trees.available, extent, &mut spare)
    }

    fn before(
        &self,
        group: &mut AtomicGroup,
        trees: &SpaceTrees,
        extent: Extent,
    ) -> GroupResult<Option<ExtentLocation>> {
        match PageNumber::new(extent.first().get() - 1) {
            Some(last) => extents::ending_at(group, &trees.available, last),
            None => Ok(None),
        }
    }

    /// Grows the tree by at least `need` available pages.
    fn grow(&self, trees: &SpaceTrees, need: u32) -> Result<()> {
        let Some(parent) = trees.parent else { return self.grow_file(trees, need) };
        let owned = self.owned_pages(trees)?;
        let wanted = (owned / 8).clamp(MIN_EXTENT, MAX_EXTENT).max(need);
        self.with_extent(SYSTEM_PROCID, parent, need, wanted, |lock, group, extent| {
            let extent = lock.add_owned(group, trees, extent)?;
            lock.free(group, trees, extent)
        })
    }

    /// Allocates an extent of `need..=wanted` pages from a parent tree and uses it in the same group.
    pub(super) fn with_extent<T>(
        &self,
        procid: u16,
        parent: PageNumber,
        need: u32,
        wanted: u32,
        mut work: impl FnMut(&Self, &mut AtomicGroup, Extent) -> GroupResult<T>,
    ) -> Result<T> {
        let parent = self.trees(parent)?;
        loop {
            let Some((found, count)) = self.extent_to_take(&parent, need, wanted)? else {
                self.grow(&parent, wanted)?;
                continue;
            };
            return group::run_for_session(self.file, procid, false, |group| {
                let found = extents::at(group, &parent.available, found)?;
                let extent = take_from(group, &parent, &found, count)?;
                if parent.parent.is_none() {
                    self.file.fill_holes(&extent)?;
                }
                work(self, group, extent)
            });
        }
    }

    /// Returns an available extent of a tree, and how many pages to take from its start.
    fn extent_to_take(&self, trees: &SpaceTrees, need: u32, wanted: u32) -> Result<Option<(Extent, u32)>> {
        let mut largest = 0;
        let found = extents::search(self.file, &trees.available, FIRST, |extent| {
            largest = largest.max(extent.count);
            extent.count >= wanted
        })?;
        if let Some(found) = found {
            return Ok(Some((found, wanted)));
        }
        // If a tree already has an available extent of at least half of `wanted`, it does not grow for the rest.
        if largest < need.max(wanted / 2) {
            return Ok(None);
        }
        let found = extents::search(self.file, &trees.available, FIRST, |extent| extent.count >= largest)?;
        Ok(found.map(|found| (found, largest)))
    }

    /// Adds an extent to the owned extents and merges it with adjacent extents. If the owned-extent tree must be
    /// split, its new pages are taken from the extent itself. Returns the rest of the extent.
    pub(super) fn add_owned(
        &self,
        group: &mut AtomicGroup,
        trees: &SpaceTrees,
        extent: Extent,
    ) -> GroupResult<Extent> {
        let mut merged = extent;
        let behind = extents::find(group, &trees.owned, extent.last.plus(1), |_| true)?;
        if let Some(behind) = behind.filter(|behind| behind.extent.first() == extent.last.plus(1)) {
            extents::resize(group, &trees.owned, &behind, behind.extent.count + extent.count)?;
            return Ok(extent);
        }
        let last_before = PageNumber::new(extent.first().get() - 1);
        let before =
            last_before.map(|last| extents::ending_at(group, &trees.owned, last)).transpose()?.flatten();
        if let Some(before) = before {
            merged.count += before.extent.count;
            extents::remove(group, &trees.owned, &before)?;
        }
        let mut left = extent;
        let mut spare = |_: &mut AtomicGroup| {
            let page = left.first();
            left.count -= 1;
            if left.count == 0 { Err(GroupAbort::Failed(InternalError::SpaceTree.into())) } else { Ok(page) }
        };
        extents::insert(group, &trees.owned, merged, &mut spare)?;
        Ok(left)
    }

    pub(super) fn owned_pages(&self, trees: &SpaceTrees) -> Result<u32> {
        let mut owned = 0u32;
        extents::search(self.file, &trees.owned, FIRST, |extent| {
            owned = owned.saturating_add(extent.count);
            false
        })?;
        Ok(owned)
    }

    /// Returns the extents that a tree owns, in order.
    pub(super) fn owned_extents(&self, trees: &SpaceTrees) -> Result<Vec<Extent>> {
        let mut all = Vec::new();
        extents::search(self.file, &trees.owned, FIRST, |extent| {
            all.push(*extent);
            false
        })?;
        Ok(all)
    }

    /// Extends the file. The new pages become available to the system root.
    pub(super) fn grow_file(&self, trees: &SpaceTrees, need: u32) -> Result<()> {
        let owned = self.owned_extents(trees)?.last().map_or(0, |extent| extent.last.get());
        let step = self.file.extension_pages();
        let count = need.max(step).div_ceil(step).saturating_mul(step);
        let last = owned.checked_add(count).and_then(PageNumber::new);
        let last = last.ok_or_else(|| UsageError::DatabaseFull(self.file.path.clone()))?;
        self.file.grow_file(last)?;
        self.file.count_extension();
        group::run(self.file, false, |group| {
            let database = DatabaseIdInLog(self.file.log_id);
            group.record_before(LogRecord::ExtendDb(ExtendDb { database, last }));
            let extent = self.add_owned(group, trees, Extent { last, count })?;
            self.free_unused(group, trees, extent)
        })
    }
}

pub(super) fn take_from(
    group: &mut AtomicGroup,
    trees: &SpaceTrees,
    found: &ExtentLocation,
    count: u32,
) -> GroupResult<Extent> {
    let first = found.extent.first();
    if found.extent.count <= count {
        extents::remove(group, &trees.available, found)?;
        return Ok(found.extent);
    }
    extents::resize(group, &trees.available, found, found.extent.count - count)?;
    Ok(Extent::starting_at(first, count))
}

fn extent_from(
    group: &mut AtomicGroup,
    trees: &SpaceTrees,
    first: PageNumber,
) -> GroupResult<Option<ExtentLocation>> {
    let found = extents::find(group, &trees.available, first, |_| true)?;
    Ok(found.filter(|found| found.extent.first() == first))
}

fn take_first(group: &mut AtomicGroup, trees: &SpaceTrees, count: u32) -> GroupResult<Option<Extent>> {
    match extents::find(group, &trees.available, FIRST, |extent| extent.count >= count)? {
        Some(found) => take_from(group, trees, &found, count).map(Some),
        None => Ok(None),
    }
}
