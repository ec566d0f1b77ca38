//! Allocation of extents whose pages may be written without the cache.

use ese_format::PageNumber;
use ese_format::space::Extent;

use super::allocate::{FIRST, SpaceLock, SpaceTrees};
use super::extents::{self, ExtentLocation};
use crate::pages::{AtomicGroup, GroupResult, TreeIdentity, group};
use crate::{InternalError, Result};

impl SpaceLock<'_> {
    /// Adds an extent of at most `pages` settled pages to the tree. Only the owner will read or write settled pages
    /// (`UnsettledPages`).
    ///
    /// The tree owns the pages, but they are not available: the caller uses them, or returns them with
    /// [`SpaceLock::return_settled`]. The caller must not hold a latch.
    pub fn add_settled_extent(&self, root: PageNumber, pages: u32) -> Result<Extent> {
        let (owners, system) = self.owners(root)?;
        loop {
            let found = extents::search(self.file, &system.available, FIRST, |extent| {
                self.settled_run(extent, pages).is_some()
            })?;
            let Some(found) = found else {
                self.grow_file(&system, pages)?;
                continue;
            };
            let added = group::run(self.file, false, |group| {
                self.take_settled(group, &system, &owners, found, pages)
            })?;
            // The result is `None` if a repair has written one of the pages in the meantime.
            if let Some(extent) = added {
                return Ok(extent);
            }
        }
    }

    fn settled_run(&self, extent: &Extent, pages: u32) -> Option<Extent> {
        self.file.unsettled.first_settled_run(extent, (pages / 4).max(1), pages)
    }

    /// Returns pages that were added by [`SpaceLock::add_settled_extent`] but not written.
    ///
    /// The first `kept` pages become available to the tree. The remaining pages go to the root of the database, where
    /// the next extent can use them. If the owned extents cannot be adjusted for this without an additional page, the
    /// remaining pages become available to the tree, too.
    pub fn return_settled(&self, root: PageNumber, extent: Extent, kept: u32) -> Result<()> {
        let (owners, system) = self.owners(root)?;
        let kept = Extent::starting_at(extent.first(), kept.min(extent.count));
        let rest = Extent { last: extent.last, count: extent.count - kept.count };
        let mut fits = true;
        let returned = group::run(self.file, false, |group| {
            fits = true;
            if kept.count > 0 {
                self.free_unused(group, &owners[0], kept)?;
            }
            if rest.count > 0 {
                self.remove_owned(group, &owners, rest, &mut fits)?;
                self.free_unused(group, &system, rest)?;
            }
            Ok(())
        });
        if !fits {
            group::run(self.file, false, |group| self.free_unused(group, &owners[0], extent))
        } else {
            returned
        }
    }

    /// Returns the space trees of a tree and its ancestors, and those of the database root.
    pub(super) fn owners(&self, root: PageNumber) -> Result<(Vec<SpaceTrees>, SpaceTrees)> {
        let mut owners = vec![self.trees(root)?];
        while let Some(parent) = owners.last().and_then(|owner| owner.parent) {
            owners.push(self.trees(parent)?);
        }
        match owners.pop() {
            Some(system) if !owners.is_empty() => Ok((owners, system)),
            _ => Err(InternalError::SpaceTree.into()),
        }
    }

    /// Takes part of an extent from the database root and adds it to the first of the `owners`. Each owner is a child
    /// of the next owner in the list.
    fn take_settled(
        &self,
        group: &mut AtomicGroup,
        system: &SpaceTrees,
        owners: &[SpaceTrees],
        found: Extent,
        pages: u32,
    ) -> GroupResult<Option<Extent>> {
        let found = extents::at(group, &system.available, found)?;
        let Some(mut extent) = self.settled_run(&found.extent, pages) else { return Ok(None) };
        let mut spare = |group: &mut AtomicGroup| self.take_page(group, system);
        take_part(group, &system.available, &found, extent, &mut spare)?;
        self.file.fill_holes(&extent)?;
        for owner in owners.iter().rev() {
            extent = self.add_owned(group, owner, extent)?;
        }
        Ok(Some(extent))
    }
}

/// Removes part of an extent from a space tree. `spare` allocates pages if the space tree must be split.
pub(super) fn take_part(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    found: &ExtentLocation,
    part: Extent,
    spare: &mut dyn FnMut(&mut AtomicGroup) -> GroupResult<PageNumber>,
) -> GroupResult<()> {
    let before = part.first().get() - found.extent.first().get();
    let behind = found.extent.last.get() - part.last.get();
    match behind {
        0 => extents::remove(group, tree, found)?,
        _ => extents::resize(group, tree, found, behind)?,
    }
    match before {
        0 => Ok(()),
        _ => extents::insert(group, tree, Extent::starting_at(found.extent.first(), before), spare),
    }
}
