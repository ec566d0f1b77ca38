//! Returns available pages from trees to the database root, and from the root to the file system.
//!
//! Pages at the end of the file are returned to the file system by truncating the file, and pages in the middle by
//! turning them into holes. Holes remain available for allocation. No session can allocate pages while this module
//! runs.

use ese_format::PageNumber;
use ese_format::log::record::{DatabaseIdInLog, LogRecord, ShrinkDb, TrimDb};
use ese_format::space::Extent;

use super::allocate::{SpaceLock, SpaceTrees};
use super::extents;
use super::settled_extents::take_part;
use crate::log::RecordBatch;
use crate::pages::{AtomicGroup, GroupAbort, GroupResult, group};
use crate::storage::ReleasedRanges;
use crate::{Corruption, InternalError, Result};

/// Minimum size in bytes of an extent that is returned to the root or turned into a hole. Holes in Windows file systems
/// have this size.
const MIN_BYTES: usize = 64 << 10;
/// Maximum number of holes per batch of log records. The header is written after each batch.
const HOLES_PER_BATCH: usize = 256;
/// Maximum number of extents per step. This limits memory use.
const EXTENTS_PER_STEP: usize = 1 << 14;

const ROOT: PageNumber = PageNumber::fixed(1);

/// Extents of a space tree that are processed in one step.
#[derive(Default)]
struct ExtentStep {
    wanted: Vec<Extent>,
    /// Page at which the next step starts. `None` at the end of the tree.
    next: Option<PageNumber>,
}

impl SpaceLock<'_> {
    fn min_pages(&self) -> u32 {
        (MIN_BYTES / self.file.page_size.bytes()).max(1) as u32
    }

    /// Moves large available extents from a tree to the database root. Other trees and the file system can then use
    /// them. Returns the number of pages moved. The tree must not be removed during the call.
    pub fn release(&self, root: PageNumber) -> Result<u64> {
        let trees = self.existing_trees(root)?;
        let Some(trees) = trees.filter(|trees| trees.parent.is_some()) else { return Ok(0) };
        let (owners, system) = self.owners(root)?;
        let least = self.min_pages();
        let (mut released, mut from) = (0, Some(ROOT));
        while let Some(first) = from {
            let step = self.available_extents(&trees, first, |extent| extent.count >= least)?;
            from = step.next;
            for extent in step.wanted {
                released += self.release_extent(&trees, &owners, &system, extent)?;
            }
        }
        Ok(released)
    }

    /// Moves an available extent from a tree to the database root, unless this would need an additional page. Returns
    /// the number of pages moved.
    fn release_extent(
        &self,
        trees: &SpaceTrees,
        owners: &[SpaceTrees],
        system: &SpaceTrees,
        extent: Extent,
    ) -> Result<u64> {
        let mut fits = true;
        let done = group::run(self.file, false, |group| {
            fits = true;
            let available = extents::ending_at(group, &trees.available, extent.last)?;
            let Some(available) = available.filter(|found| found.extent == extent) else { return Ok(0) };
            extents::remove(group, &trees.available, &available)?;
            self.remove_owned(group, owners, extent, &mut fits)?;
            self.free(group, system, extent)?;
            Ok(u64::from(extent.count))
        });
        match done {
            Err(_) if !fits => Ok(0),
            done => done,
        }
    }

    /// Removes an extent from the owned extents of the given trees. If this would need an additional page, or if no
    /// single owned extent contains it, the call sets `fits` to false and fails.
    pub(super) fn remove_owned(
        &self,
        group: &mut AtomicGroup,
        owners: &[SpaceTrees],
        extent: Extent,
        fits: &mut bool,
    ) -> GroupResult<()> {
        let no_room = || GroupAbort::Failed(InternalError::SpaceTree.into());
        for owner in owners {
            let found = extents::find(group, &owner.owned, extent.last, |_| true)?;
            let found = found
                .filter(|found| found.extent.first() <= extent.first() && extent.last <= found.extent.last);
            let Some(found) = found else {
                *fits = false;
                return Err(no_room());
            };
            let mut spare = |_: &mut AtomicGroup| {
                *fits = false;
                Err(no_room())
            };
            take_part(group, &owner.owned, &found, extent, &mut spare)?;
        }
        Ok(())
    }

    /// Returns a limited number of a tree's available extents, starting at a page.
    fn available_extents(
        &self,
        trees: &SpaceTrees,
        from: PageNumber,
        wanted: impl Fn(&Extent) -> bool,
    ) -> Result<ExtentStep> {
        let (mut step, mut seen) = (ExtentStep::default(), 0);
        let last = extents::search(self.file, &trees.available, from, |extent| {
            step.wanted.extend(Some(*extent).filter(&wanted));
            seen += 1;
            seen == EXTENTS_PER_STEP
        })?;
        step.next = last.map(|found| found.last.plus(1));
        Ok(step)
    }

    /// Truncates the file to remove the available pages at its end. Returns the file's page count before and after.
    pub fn shrink(&self) -> Result<(u32, u32)> {
        let system = self.trees(ROOT)?;
        let owned = self.owned_extents(&system)?;
        let last = group::run(self.file, false, |group| self.remove_tail(group, &system, &owned))?;
        // After a crash, the file can have pages that no tree owns.
        let pages = self.file.file_pages()?;
        let Some(count) = pages.checked_sub(last.get()).filter(|count| *count > 0) else {
            return Ok((pages, pages));
        };
        let database = DatabaseIdInLog(self.file.log_id);
        let record = LogRecord::ShrinkDb(ShrinkDb { database, last, count });
        self.log_and_release(&[record], &ReleasedRanges::After(last))?;
        // Page images and log records of earlier changes to these pages may still exist when the file grows again.
        self.file.unsettled.add(Extent { last: last.plus(count), count });
        Ok((pages, last.get()))
    }

    /// Removes the available pages at the end of the file from the space trees. Returns the last page that is still
    /// owned.
    fn remove_tail(
        &self,
        group: &mut AtomicGroup,
        system: &SpaceTrees,
        owned: &[Extent],
    ) -> GroupResult<PageNumber> {
        let Some(end) = owned.last() else {
            return Err(GroupAbort::Failed(self.file.corrupt(system.owned.root, Corruption::NoExtent)));
        };
        let available = extents::ending_at(group, &system.available, end.last)?;
        let last = available.and_then(|found| PageNumber::new(found.extent.first().get() - 1));
        let (Some(available), Some(last)) = (available, last) else { return Ok(end.last) };
        extents::remove(group, &system.available, &available)?;
        for extent in owned.iter().rev().take_while(|extent| extent.last > last) {
            if let Some(found) = extents::ending_at(group, &system.owned, extent.last)? {
                extents::remove(group, &system.owned, &found)?;
            }
            if extent.first() <= last {
                let kept = Extent { last, count: last.get() - extent.first().get() + 1 };
                let mut spare = |group: &mut AtomicGroup| self.take_page(group, system);
                extents::insert(group, &system.owned, kept, &mut spare)?;
            }
        }
        Ok(last)
    }

    /// Turns the root's large available extents into holes, unless they already are holes. Returns the number of new
    /// holes and their total number of pages.
    pub fn trim(&self) -> Result<(u64, u64)> {
        let system = self.trees(ROOT)?;
        let (file, least) = (self.file, self.min_pages());
        let is_hole =
            |extent: &Extent| file.cache.are_released(file.file_id, extent.first().get(), extent.last.get());
        let (mut holes, mut pages, mut from) = (0, 0, Some(ROOT));
        while let Some(first) = from {
            let wanted = |extent: &Extent| extent.count >= least && !is_hole(extent);
            let step = self.available_extents(&system, first, wanted)?;
            from = step.next;
            for extents in step.wanted.chunks(HOLES_PER_BATCH) {
                let database = DatabaseIdInLog(file.log_id);
                let record = |extent: &Extent| {
                    LogRecord::TrimDb(TrimDb { database, first: extent.first(), count: extent.count })
                };
                let records: Vec<LogRecord> = extents.iter().map(record).collect();
                self.log_and_release(&records, &ReleasedRanges::Holes(extents.to_vec()))?;
                holes += extents.len() as u64;
                pages += extents.iter().map(|extent| u64::from(extent.count)).sum::<u64>();
            }
        }
        Ok((holes, pages))
    }

    /// Logs that pages are returned to the file system, and then returns them.
    fn log_and_release(&self, records: &[LogRecord], pages: &ReleasedRanges) -> Result<()> {
        let file = self.file;
        file.flush_before(pages)?;
        // Redo must process the records until the header states that the pages were returned.
        let pin = file.pins.pin(file.log.tail());
        let given_back = (|| {
            let mut batch = RecordBatch::new();
            records.iter().for_each(|record| batch.push(record));
            let appended = file.log.append_privileged(&batch)?;
            file.log.flush(appended.end)?;
            file.release_pages(pages, appended.end)
        })();
        file.pins.release(pin);
        given_back
    }
}
