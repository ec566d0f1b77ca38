//! Redo of records that return pages to the file system. Before redo reaches such a record, the pages may be missing,
//! zero or torn.

use std::ops::Range;

use ese_format::log::record::{LogRecord, ShrinkDb3};
use ese_format::space::Extent;
use ese_format::{LogPosition, PageNumber};

use super::Redo;
use super::page_redo::PageRole;
use crate::Result;
use crate::cache::PageKey;
use crate::recovery::replay_window::Payloads;
use crate::storage::ReleasedRanges;

/// Maximum number of a copy's pages that may wait for repair. If more pages are unreadable, the replay fails.
const MAX_BAD_PAGES: usize = 100;

/// Returns the pages that a record returns to the file system.
fn released_by(record: &LogRecord) -> Option<ReleasedRanges> {
    match record {
        LogRecord::ShrinkDb(shrink) | LogRecord::ShrinkDb2(shrink) => {
            Some(ReleasedRanges::After(shrink.last))
        }
        LogRecord::ShrinkDb3(ShrinkDb3 { shrink, .. }) => Some(ReleasedRanges::After(shrink.last)),
        LogRecord::TrimDb(trim) => {
            let last = trim.first.get().checked_add(trim.count.checked_sub(1)?)?;
            let last = PageNumber::new(last)?;
            Some(ReleasedRanges::Holes(vec![Extent { last, count: trim.count }]))
        }
        _ => None,
    }
}

impl Redo {
    /// Replays a record that returns pages to the file system.
    pub(super) fn replay_release(
        &mut self,
        record: &LogRecord,
        span: Range<LogPosition>,
        payloads: &Payloads,
    ) -> Result<()> {
        let (Some(id), Some(pages)) = (record.database(), released_by(record)) else { return Ok(()) };
        self.replay_pages(payloads)?;
        let database = self.database(id.0)?;
        if let LogRecord::ShrinkDb3(shrink) = record {
            database.advance_time_to(shrink.db_time);
        }
        self.unreadable.retain(|key, _| key.file != database.file_id || !pages.contains(key.page));
        database.redo_release(&pages, span.start, span.end)
    }

    /// Removes from the list the pages that are missing because a later record removed the end of the file.
    pub(super) fn without_missing(
        &self,
        record: &LogRecord,
        start: LogPosition,
        pages: &mut Vec<(PageNumber, PageRole)>,
    ) -> Result<()> {
        if let Some(database) = record.database().and_then(|id| self.attached(id.0))
            && start < database.released_until()
        {
            let last = database.file_pages()?;
            pages.retain(|(page, _)| page.get() <= last);
        }
        Ok(())
    }

    /// Returns an error if redo could not read a page that the log changes and that still belongs to its database at
    /// the end of the log.
    pub fn check_readable(&self) -> Result<()> {
        if self.copy.is_some() && self.unreadable.len() <= MAX_BAD_PAGES {
            // These pages will be repaired.
            return Ok(());
        }
        self.refuse_unreadable(|_| true)
    }

    /// Checks the pages of a database, or of all databases, before closing. Otherwise works like
    /// [`Redo::check_readable`].
    ///
    /// At this point, no page may be waiting for repair: the file would claim to have all changes, although a page that
    /// becomes readable later lacks some. If a database stays open, in contrast, a later record can still return the
    /// pages.
    pub fn check_readable_to_close(&self, log_id: Option<u8>) -> Result<()> {
        let closed = log_id.and_then(|id| self.attached(id)).map(|database| database.file_id);
        self.refuse_unreadable(|key| log_id.is_none() || closed == Some(key.file))
    }

    fn refuse_unreadable(&self, is_needed: impl Fn(&PageKey) -> bool) -> Result<()> {
        let Some((key, (error, _))) = self.unreadable.iter().find(|(key, _)| is_needed(key)) else {
            return Ok(());
        };
        if let Some(database) = self.core.file(key.file) {
            // The page is reread only to report the damage. The first error is returned because it is more specific.
            drop(database.pin(key.page));
        }
        Err(error.clone())
    }
}
