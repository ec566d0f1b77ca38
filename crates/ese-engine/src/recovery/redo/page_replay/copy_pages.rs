//! Checks pages of a copy, and replaces them with images.

use ese_format::log::record::LogRecord;
use ese_format::page::Page;
use ese_format::{DbTime, LogPosition};
use jetcell_sync::Arc;

use super::{PageRedo, PageReplay, PageRole};
use crate::cache::PageKey;
use crate::events::DivergenceKind;
use crate::recovery::redo::comparison::{CapturedPage, ComparedPage, ComparisonResult, LoggedPageState};
use crate::storage::DatabaseFile;
use crate::{Error, Result};

impl PageReplay<'_> {
    /// Checks a page that no record in the window changes.
    pub(super) fn check_unchanged_page(&mut self, changes: &[PageRedo]) -> Result<()> {
        let Some(first) = changes.first() else { return Ok(()) };
        let Some(database) = self.core.file(first.key.file) else { return Ok(()) };
        if let Some(at) = self.install_image(changes, &database)? {
            return self.check_unchanged_page(&changes[at + 1..]);
        }
        match self.core.cache.fetch_or_zero(first.key) {
            Ok(pinned) => {
                let latch = pinned.read();
                for change in changes {
                    self.compare_or_capture(change, &self.decode(change)?, &database, &latch);
                }
            }
            Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => {
                self.record_unreadable(changes, &error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Compares a page with a record, or captures an image of it.
    pub(super) fn compare_or_capture(
        &mut self,
        change: &PageRedo,
        record: &LogRecord,
        database: &DatabaseFile,
        bytes: &[u8],
    ) {
        let PageKey { file, page } = change.key;
        let Some(position) = self.start_of(change) else { return };
        let size = database.page_size;
        let copy_time = Page::new(bytes, size).db_time();
        if change.role == PageRole::Request {
            if copy_time != DbTime(0) {
                self.outcome.copy.captured.push(CapturedPage { file, page, position, bytes: bytes.to_vec() });
            }
            return;
        }
        let Some(logged) = LoggedPageState::from_record(record) else { return };
        // Holes and the end of the file are replayed from other records.
        if self.core.cache.are_released(file, page.get(), page.get()) {
            return;
        }
        let is_behind_end = database.file_pages().is_ok_and(|pages| page.get() > pages);
        let comparison = logged.compare(bytes, size, is_behind_end);
        let times = [logged.time, copy_time];
        let header = database.header();
        if comparison == ComparisonResult::Differs(DivergenceKind::ActiveEmpty)
            && (header.trim_count > 0 || header.shrink_count > 0)
        {
            // The page is a hole on the active side. The copy may still have old content here, from a seed or because
            // redo is repeating an old part of the log.
            return;
        }
        self.outcome.copy.compared.push(ComparedPage { file, page, position, comparison, times });
    }

    /// Returns whether redo may continue although the first changed page of a bulk load is unreadable, because the
    /// page may have been returned to the file system later. On a copy, this applies only if pages were returned
    /// after this position. Otherwise an image would repair this page, but the bulk load's other pages would be
    /// missing.
    pub(super) fn may_lack_link(&self, change: &PageRedo, database: &DatabaseFile) -> bool {
        let given_back = self.start_of(change).is_some_and(|start| start < database.released_until());
        self.images.is_none() || given_back
    }

    /// Records that a page lacks all changes starting with `change`.
    pub(super) fn record_missing_changes(&mut self, changes: &[PageRedo], change: &PageRedo, error: Error) {
        self.record_unreadable(changes, &error);
        let since = self.records.get(change.record_index as usize).map(|record| record.needs_from);
        self.outcome.unreadable.insert(change.key, (error, since.unwrap_or(LogPosition::MIN)));
    }

    fn record_unreadable(&mut self, changes: &[PageRedo], error: &Error) {
        for change in changes.iter().filter(|change| change.role == PageRole::Check) {
            let (PageKey { file, page }, times) = (change.key, [DbTime(0); 2]);
            if let Some(position) = self.start_of(change) {
                let comparison = ComparisonResult::Unreadable(error.to_string());
                self.outcome.copy.compared.push(ComparedPage { file, page, position, comparison, times });
            }
        }
    }

    /// Replaces a page with the last available image. Returns the index of the change at which the image was
    /// installed.
    pub(super) fn install_image(
        &mut self,
        changes: &[PageRedo],
        database: &Arc<DatabaseFile>,
    ) -> Result<Option<usize>> {
        let Some(images) = self.images.filter(|images| !images.is_empty()) else { return Ok(None) };
        for (at, change) in changes.iter().enumerate().rev() {
            let Some(record) = self.records.get(change.record_index as usize) else { continue };
            let (start, end) = (record.buffered.start, record.buffered.end);
            let Some((page, image)) = images.get(&start).filter(|_| change.role == PageRole::Check) else {
                continue;
            };
            let Some(logged) = LoggedPageState::from_record(&self.decode(change)?) else { continue };
            if *page != change.key.page || !logged.is_image(*page, image, database.page_size) {
                continue;
            }
            database.grow_file(*page)?;
            let installed = match self.core.cache.fetch_tentatively(change.key) {
                Ok(pinned) => {
                    let mut latch = pinned.write();
                    // Redo may be repeating an old part of the log.
                    let time = Page::new(&latch, database.page_size).db_time();
                    let is_newer = time > logged.current && !time.is_unwritten();
                    if !is_newer {
                        latch.copy_from_slice(image);
                        latch.mark_dirty(start);
                        latch.set_last(end);
                    }
                    !is_newer
                }
                Err(Error::Corrupt { .. } | Error::Io { .. }) => {
                    self.core.cache.install_image(change.key, image, start, end)?
                }
                Err(error) => return Err(error),
            };
            if installed {
                let PageKey { file, page } = change.key;
                self.core.cache.clear_damage(file, page);
                self.outcome.built.insert(change.key);
                self.outcome.copy.repaired.push((file, page, start));
                let times = [logged.time; 2];
                let comparison = ComparisonResult::Equal;
                let compared = ComparedPage { file, page, position: start, comparison, times };
                self.outcome.copy.compared.push(compared);
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn start_of(&self, change: &PageRedo) -> Option<LogPosition> {
        self.records.get(change.record_index as usize).map(|record| record.buffered.start)
    }
}
