//! Redo of records that return pages to the file system. Before such a record, redo may find that its pages are missing,
//! zeros or torn.

use std::ops::Range;

use ese_format::log::record::{LogRecord, ShrinkDb3};
use ese_format::space::Extent;
use ese_format::{LogPosition, PageNumber};

use super::Redo;
use super::page_redo::PageRole;
use crate::Result;
use crate::cache::PageKey;
use crate::recovery::replay_window::Payloads;
use crate::storage::GivenBackPages;

/// The most pages of a copy that wait for a repair. If there are more, the replay has failed.
const MOST_BAD_PAGES: usize = 100;

/// The pages that a record returns to the file system.
fn returned_by(record: &LogRecord) -> Option<GivenBackPages> {
    match record {
        LogRecord::ShrinkDb(shrink) | LogRecord::ShrinkDb2(shrink) => {
            Some(GivenBackPages::Behind(shrink.last))
        }
        LogRecord::ShrinkDb3(ShrinkDb3 { shrink, .. }) => Some(GivenBackPages::Behind(shrink.last)),
        LogRecord::TrimDb(trim) => {
            let last = trim.first.get().checked_add(trim.count.checked_sub(1)?)?;
            let last = PageNumber::new(last)?;
            Some(GivenBackPages::Holes(vec![Extent { last, count: trim.count }]))
        }
        _ => None,
    }
}

impl Redo {
    /// Replays a record that returns pages to the file system.
    pub(super) fn return_space(
        &mut self,
        record: &LogRecord,
        span: Range<LogPosition>,
        payloads: &Payloads,
    ) -> Result<()> {
        let (Some(id), Some(pages)) = (record.database(), returned_by(record)) else { return Ok(()) };
        self.replay_pages(payloads)?;
        let database = self.database(id.0)?;
        if let LogRecord::ShrinkDb3(shrink) = record {
            database.time_used(shrink.db_time);
        }
        self.unreadable.retain(|key, _| key.file != database.file_id || !pages.contains(key.page));
        database.redo_giving_back(&pages, span.start, span.end)
    }

    /// Leaves out pages that are missing in the file because a later record cut them off.
    pub(super) fn without_missing(
        &self,
        record: &LogRecord,
        start: LogPosition,
        pages: &mut Vec<(PageNumber, PageRole)>,
    ) -> Result<()> {
        if let Some(database) = record.database().and_then(|id| self.attached(id.0))
            && start < database.given_back_until()
        {
            let last = database.file_pages()?;
            pages.retain(|(page, _)| page.get() <= last);
        }
        Ok(())
    }

    /// Fails if redo could not read a page that the log changes, and that its database still has at the end of the log.
    pub fn check_readable(&self) -> Result<()> {
        if self.copy.is_some() && self.unreadable.len() <= MOST_BAD_PAGES {
            // They are repaired.
            return Ok(());
        }
        self.refuse_unreadable(|_| true)
    }

    /// Like [`Redo::check_readable`], for the pages of a database before it is closed, or of all of them. No page can wait for
    /// its repair then: the file would say that it has all changes, and a page that can be read again later would lack them.
    /// A later record can still return pages of the databases that stay open.
    pub fn check_readable_to_close(&self, log_id: Option<u8>) -> Result<()> {
        let closed = log_id.and_then(|id| self.attached(id)).map(|database| database.file_id);
        self.refuse_unreadable(|key| log_id.is_none() || closed == Some(key.file))
    }

    fn refuse_unreadable(&self, is_needed: impl Fn(&PageKey) -> bool) -> Result<()> {
        let Some((key, (error, _))) = self.unreadable.iter().find(|(key, _)| is_needed(key)) else {
            return Ok(());
        };
        if let Some(database) = self.core.file(key.file) {
            // Read again, so that it is reported. The first error says more.
            drop(database.pin(key.page));
        }
        Err(error.clone())
    }
}
