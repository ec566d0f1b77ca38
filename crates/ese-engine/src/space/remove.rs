//! Releases all pages of a tree.
//!
//! A crash during a bulk load can leave torn pages that were neither logged nor protected. They must not remain in
//! the database, even if they are unused, because scans, checks and backups verify every page.

use std::collections::BTreeSet;

use ese_format::PageNumber;
use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::space::Extent;
use jetcell_vfs::{IoBuffer, IoReason};

use super::allocate::{SpaceLock, SpaceTrees};
use super::extents;
use crate::pages::{AtomicGroup, GroupResult, TreeIdentity, group};
use crate::{Error, Result};

/// Maximum number of extents per group. A group must fit into the log buffer, and a large tree has thousands of
/// extents.
const EXTENTS_PER_GROUP: usize = 64;
/// Size in bytes of one read during the search for torn pages.
const READ_BYTES: usize = 1 << 20;

impl SpaceLock<'_> {
    /// Returns all pages of a tree to its parent. No session may use the tree any more. The call's atomic groups are
    /// logged for session `procid`.
    ///
    /// The last group removes the space header from the root. This tells redo that the tree has been removed. After a
    /// crash between two groups, the call is repeated and returns the remaining pages.
    pub fn free_tree(&self, procid: u16, root: PageNumber) -> Result<()> {
        let trees = self.trees(root)?;
        let Some(parent) = trees.parent else { return Ok(()) };
        let parent = self.trees(parent)?;
        let extents = self.owned_extents(&trees)?;
        // The pages that list the remaining extents must be freed last.
        let kept = self.space_pages(&trees)?;
        let is_last = |extent: &Extent| kept.range(extent.first()..=extent.last).next().is_some();
        let (last, first): (Vec<Extent>, Vec<Extent>) = extents.iter().copied().partition(is_last);
        for extents in first.chunks(EXTENTS_PER_GROUP) {
            group::run_for_session(self.file, procid, true, |group| {
                extents.iter().try_for_each(|extent| {
                    if let Some(found) = extents::ending_at(group, &trees.owned, extent.last)? {
                        extents::remove(group, &trees.owned, &found)?;
                    }
                    self.free(group, &parent, *extent)
                })
            })?;
        }
        group::run_for_session(self.file, procid, true, |group| {
            group.set_external_header(&trees.owner, root, &[])?;
            last.iter().try_for_each(|extent| self.free(group, &parent, *extent))
        })
    }

    /// Overwrites pages of the tree with zeros if a crash or a failed write has torn them. Only uncached pages in the
    /// unsettled part of the file can be torn. They are read at full disk speed.
    pub fn clear_torn_pages(&self, root: PageNumber) -> Result<()> {
        let until = self.file.unsettled.until();
        let (file, size) = (self.file, self.file.page_size);
        let trees = self.trees(root)?;
        let io_error = |error: &std::io::Error| Error::io(&file.path, error);
        let mut cleared = false;
        let mut buffer = IoBuffer::zeroed(READ_BYTES.max(size.bytes()));
        for extent in self.owned_extents(&trees)? {
            let mut next = extent.first().get();
            let end = extent.last.get().min(until).min(file.file_pages()?);
            while next <= end {
                let count = ((end - next + 1) as usize).min(buffer.len() / size.bytes());
                let bytes = &mut buffer[..count * size.bytes()];
                let Some(first) = PageNumber::new(next) else { break };
                let read = file.file.read_at(size.offset_of(first), bytes, IoReason::DatabaseRead);
                read.map_err(|error| io_error(&error))?;
                for (index, page) in bytes.chunks_exact_mut(size.bytes()).enumerate() {
                    let number = first.plus(index as u32);
                    let good =
                        matches!(verify_page(page, size, number), PageIntegrity::Good | PageIntegrity::Zero);
                    if good || file.cache.contains(file.page_key(number)) {
                        continue;
                    }
                    let zeros = IoBuffer::zeroed(size.bytes());
                    let written =
                        file.file.write_at(size.offset_of(number), &zeros, IoReason::DatabaseExtend);
                    written.map_err(|error| io_error(&error))?;
                    cleared = true;
                }
                next += count as u32;
            }
        }
        if cleared {
            file.file.sync(IoReason::DatabaseExtend).map_err(|error| io_error(&error))?;
        }
        Ok(())
    }

    /// Returns the root of a tree and the pages of its two space trees.
    fn space_pages(&self, trees: &SpaceTrees) -> Result<BTreeSet<PageNumber>> {
        let mut pages = BTreeSet::new();
        group::run(self.file, false, |group| {
            pages = BTreeSet::from([trees.owner.root]);
            collect(group, &trees.owned, &mut pages)?;
            collect(group, &trees.available, &mut pages)
        })?;
        Ok(pages)
    }
}

/// Adds the pages of a space tree to `pages`.
fn collect(
    group: &mut AtomicGroup,
    tree: &TreeIdentity,
    pages: &mut BTreeSet<PageNumber>,
) -> GroupResult<()> {
    let mut pending = vec![tree.root];
    while let Some(number) = pending.pop() {
        // In a damaged tree, the pages can form a cycle.
        if !pages.insert(number) {
            continue;
        }
        let page = group.page(number)?;
        if !page.is_leaf() {
            pending.extend(page.nodes().filter_map(|node| node.child()));
        }
    }
    Ok(())
}
