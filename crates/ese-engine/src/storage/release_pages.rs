//! Returns pages to the file system: truncates the file, or punches holes into it.
//!
//! Normal operation and redo share this code. The steps are made durable in this order: space trees, all changes to
//! the pages, log record, file, header. The header stores the end of the last record whose pages were returned. The
//! pages can be used again only when this position is durable. Redo therefore repeats the return of pages if a crash
//! may have interrupted it, but never returns pages that are in use again.

use ese_format::space::Extent;
use ese_format::{LogPosition, LogTime, PageNumber};
use jetcell_vfs::IoReason;

use super::DatabaseFile;
use crate::{Error, Result, UsageError};

/// Pages that are returned to the file system.
#[derive(Clone, Debug)]
pub(crate) enum ReleasedRanges {
    /// All pages after this one.
    After(PageNumber),
    /// The pages of these extents, which are sorted.
    Holes(Vec<Extent>),
}

impl ReleasedRanges {
    /// Returns true if `page` is one of these pages.
    pub fn contains(&self, page: PageNumber) -> bool {
        match self {
            ReleasedRanges::After(last) => page > *last,
            ReleasedRanges::Holes(extents) => {
                let at = extents.partition_point(|extent| extent.last < page);
                extents.get(at).is_some_and(|extent| extent.first() <= page)
            }
        }
    }

    /// Returns the first and last page of each range.
    fn ranges(&self) -> Vec<(u32, u32)> {
        match self {
            ReleasedRanges::After(last) => vec![(last.get().saturating_add(1), u32::MAX)],
            ReleasedRanges::Holes(extents) => {
                extents.iter().map(|extent| (extent.first().get(), extent.last.get())).collect()
            }
        }
    }
}

impl DatabaseFile {
    /// Writes the last changes to pages that are about to be returned to the file system, and syncs the file.
    pub(crate) fn flush_before(&self, pages: &ReleasedRanges) -> Result<()> {
        self.cache.flush_pages(self.file_id, |page| pages.contains(page))
    }

    /// Returns pages to the file system. The pages must belong to no tree, or be available, and nothing else may use
    /// them during the call.
    ///
    /// The log record for the operation ends at `end`, and the log must be durable up to this position. After a
    /// failure, nothing in this database may change.
    pub(crate) fn release_pages(&self, pages: &ReleasedRanges, end: LogPosition) -> Result<()> {
        self.change_file(pages, end).inspect_err(|error| self.cache.fail(error.cause()))
    }

    /// Repeats [`DatabaseFile::release_pages`] for the log record from `start` to `end`. Changes to these pages by
    /// earlier records are no longer needed.
    pub(crate) fn redo_release(
        &self,
        pages: &ReleasedRanges,
        start: LogPosition,
        end: LogPosition,
    ) -> Result<()> {
        let until = self.released_until();
        // As in ESE: if the header does not contain the position, the pages may have newer content.
        let unknown = until == LogPosition::MIN && start.generation <= self.newest_applied();
        if until >= end || unknown { self.drop_from_cache(pages) } else { self.release_pages(pages, end) }
    }

    fn drop_from_cache(&self, pages: &ReleasedRanges) -> Result<()> {
        self.cache.drop_pages(self.file_id, &pages.ranges(), |page| pages.contains(page))
    }

    fn change_file(&self, pages: &ReleasedRanges, end: LogPosition) -> Result<()> {
        self.drop_from_cache(pages)?;
        let io_error = |e: std::io::Error| Error::io(&self.path, &e);
        let file_pages = self.file_pages()?;
        match pages {
            ReleasedRanges::After(last) if file_pages > last.get() => {
                let len = self.page_size.offset_of(last.plus(1));
                self.file.truncate(len).map_err(io_error)?;
            }
            ReleasedRanges::After(_) => {}
            ReleasedRanges::Holes(extents) => {
                for extent in extents.iter().filter(|extent| extent.first().get() <= file_pages) {
                    let offset = self.page_size.offset_of(extent.first());
                    let pages = extent.count.min(file_pages - extent.first().get() + 1);
                    let len = u64::from(pages) * self.page_size.bytes() as u64;
                    self.file.punch_hole(offset, len).map_err(io_error)?;
                }
            }
        }
        self.file.sync(IoReason::DatabaseExtend).map_err(io_error)?;
        let now = LogTime::from_unix_ms(self.vfs.clock().unix_ms());
        self.update_header(|header| {
            header.resize_position = end;
            match pages {
                ReleasedRanges::After(_) => {
                    header.shrink_count = header.shrink_count.saturating_add(1);
                    header.shrink_time = now;
                }
                ReleasedRanges::Holes(_) => header.trim_count = header.trim_count.saturating_add(1),
            }
        })
    }

    /// Fails if the file system cannot punch holes. Does not change the file.
    pub(crate) fn check_holes(&self) -> Result<()> {
        let hole_error = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::Unsupported => UsageError::NoHolePunching(self.path.clone()).into(),
            _ => Error::io(&self.path, &e),
        };
        let end = self.file.len().map_err(hole_error)?;
        self.file.punch_hole(end, self.page_size.bytes() as u64).map_err(hole_error)
    }

    /// Allocates the blocks of an extent that may contain holes. Otherwise, writing one of its pages could fail
    /// because the disk is full, and page writes must not fail.
    pub(crate) fn fill_holes(&self, extent: &Extent) -> Result<()> {
        if !self.has_holes() {
            return Ok(());
        }
        let offset = self.page_size.offset_of(extent.first());
        let len = u64::from(extent.count) * self.page_size.bytes() as u64;
        self.file.reserve(offset, len).map_err(|e| Error::io(&self.path, &e))
    }
}
