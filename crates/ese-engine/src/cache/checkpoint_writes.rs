//! Writes the dirty pages of one file, either to advance the checkpoint or to flush the file.

use std::time::Duration;

use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Arc;
use jetcell_vfs::IoReason;

use super::{AttachedFileId, Cache, PageKey, PinnedPage};
use crate::cache::shared::{AttachedFile, WRITES_IN_FLIGHT};
use crate::cache::write::{UnflushedPagePolicy, WRITE_BATCH, WriteBack, WriteReason};
use crate::{Corruption, Error, InstanceFailure, Result};

/// Number of pages that a flush writes per round.
const FLUSH_ROUND: usize = 1024;
/// Pause before a flush retries pages that were in use.
const FLUSH_RETRY_INTERVAL: Duration = Duration::from_micros(200);

impl Cache {
    fn writer(&self) -> &WriteBack {
        self.supply().writer()
    }

    /// Starts writing the file's oldest dirty pages that were first changed before `position`, up to `max_pages` of
    /// them.
    ///
    /// Returns the number of writes started. Pages that are latched or being written are skipped. The call waits
    /// while too many writes are in flight. Once the writes have completed, [`Cache::sync_file`] allows
    /// [`Cache::oldest_dirty`] to advance.
    pub fn write_below(
        &self,
        file: AttachedFileId,
        position: LogPosition,
        max_pages: usize,
    ) -> Result<usize> {
        let attached = self.shared.file(file)?;
        self.writer().write_retained(&attached);
        // Pages first changed after the waypoint can be written later without a copy.
        let position = position.min(attached.wal.waypoint());
        let mut oldest: Vec<_> = attached.dirty_pages.lock().below(position).take(max_pages).collect();
        oldest.sort_unstable();
        let mut started = 0;
        // Evicted pages are read back into frames before they are written. The batch size limits the number of these
        // frames.
        for batch in oldest.chunks(WRITE_BATCH.min(self.limits.frames / 4).max(1)) {
            self.shared.background.wait_below(WRITES_IN_FLIGHT);
            // Read errors are ignored here. An unreadable page keeps the checkpoint from advancing, and a session that
            // fetches the page gets the error.
            let (pages, _) = self.pin_all(&attached, batch);
            started += self.writer().write_pages(
                pages,
                WriteReason::Checkpoint,
                UnflushedPagePolicy::RetainCopy,
                &Arc::default(),
            )?;
        }
        Ok(started)
    }

    /// Starts writing those of `pages` that are dirty, combining adjacent pages into one transfer. Intended for callers
    /// that change a file's pages in file order. Must not be called with a latch held.
    pub fn write_behind(&self, pages: &[PageKey]) -> Result<usize> {
        self.shared.background.wait_below(WRITES_IN_FLIGHT);
        let pages = pages.iter().filter_map(|key| self.page_table().pin(*key)).collect();
        self.writer().write_pages(
            pages,
            WriteReason::Checkpoint,
            UnflushedPagePolicy::RetainCopy,
            &Arc::default(),
        )
    }

    /// Writes all pages of the file that were dirty when the call started, and syncs the file. After success, every
    /// change that was complete at that time is durable. Must not be called with a latch held.
    pub fn flush_file(&self, file: AttachedFileId) -> Result<()> {
        let attached = self.shared.file(file)?;
        let latest = attached.dirty_pages.lock().latest_change();
        if let Some(latest) = latest {
            let end = latest.next_byte();
            while attached.dirty_pages.lock().oldest_dirty().is_some_and(|first| first < end) {
                self.writer().write_retained(&attached);
                if self.flush_below(&attached, end)? == 0 {
                    self.shared.check()?;
                    if let Some(page) = self.page_with_unfinished_change(&attached) {
                        return Err(Error::Corrupt {
                            path: attached.file.path().to_path_buf(),
                            page: Some(page),
                            fault: Corruption::DetachedInTransaction,
                        });
                    }
                    attached.in_flight.wait();
                    self.clock.sleep(FLUSH_RETRY_INTERVAL);
                }
            }
        }
        self.sync_file(file)
    }

    /// Writes the `wanted` pages of the file and syncs the file. Nothing may change these pages while the call runs.
    /// Must not be called with a latch held.
    pub(crate) fn flush_pages(
        &self,
        file: AttachedFileId,
        wanted: impl Fn(PageNumber) -> bool,
    ) -> Result<()> {
        let attached = self.shared.file(file)?;
        let round = FLUSH_ROUND.min(self.limits.frames / 4).max(1);
        loop {
            let (mut dirty, in_flight) = attached.dirty_pages.lock().matching(&wanted);
            if dirty.is_empty() && in_flight == 0 {
                return self.sync_file(file);
            }
            dirty.sort_unstable();
            let (mut started, ended) = (0, Arc::default());
            for pages in dirty.chunks(round) {
                self.shared.check()?;
                let (pages, readable) = self.pin_all(&attached, pages);
                readable?;
                started += self.writer().write_pages(
                    pages,
                    WriteReason::Flush,
                    UnflushedPagePolicy::Flush,
                    &ended,
                )?;
                ended.wait_below(round);
            }
            ended.wait();
            if started == 0 {
                self.shared.check()?;
                self.clock.sleep(FLUSH_RETRY_INTERVAL);
            }
        }
    }

    /// Flushes all pages of a file that can be written. Unlike [`Cache::flush_file`], it skips pages whose
    /// before-images cannot be logged (`DeferredUndo::can_log`).
    pub fn flush_possible(&self, file: AttachedFileId) -> Result<()> {
        let attached = self.shared.file(file)?;
        loop {
            let written = self.flush_below(&attached, LogPosition::MAX)?;
            attached.in_flight.wait();
            if written == 0 {
                return self.sync_file(file);
            }
        }
    }

    /// Returns a page that must not be written because the before-image of an unfinished change cannot be logged.
    fn page_with_unfinished_change(&self, attached: &AttachedFile) -> Option<PageNumber> {
        let pages: Vec<_> = attached.dirty_pages.lock().below(LogPosition::MAX).collect();
        pages.into_iter().find(|page| {
            let pinned = self.page_table().pin(PageKey { file: attached.id, page: *page });
            pinned.is_some_and(|pinned| {
                let undo = pinned.frame().undo_being_logged.lock();
                undo.front().is_some_and(|change| change.resolved_at().is_none() && !change.can_log())
            })
        })
    }

    /// Writes the dirty pages of the file that were first changed before `end`, and waits for the writes. Pages that
    /// are latched or must not be written yet are skipped.
    ///
    /// Returns the number of pages written. If some pages cannot be read, all others are written before the error is
    /// returned.
    fn flush_below(&self, attached: &AttachedFile, end: LogPosition) -> Result<usize> {
        let round = FLUSH_ROUND.min(self.limits.frames / 4).max(1);
        let mut pages: Vec<_> = attached.dirty_pages.lock().below(end).collect();
        // Many of these pages may have to be read first, so all of them are processed in file order.
        pages.sort_unstable();
        let (mut started, mut outcome, ended) = (0, Ok(()), Arc::default());
        for pages in pages.chunks(round) {
            self.shared.check()?;
            let (pages, readable) = self.pin_all(attached, pages);
            outcome = outcome.and(readable);
            started += self.writer().write_pages(
                pages,
                WriteReason::Flush,
                UnflushedPagePolicy::MoveWaypoint,
                &ended,
            )?;
            // The next round's pages are read while this round's are written.
            ended.wait_below(round);
        }
        ended.wait();
        outcome.map(|()| started)
    }

    /// Makes all completed writes of the file durable. [`Cache::oldest_dirty`] can then advance. A failure is final:
    /// the device may have lost the pages, so the cache stops writing.
    pub fn sync_file(&self, file: AttachedFileId) -> Result<()> {
        let attached = self.shared.file(file)?;
        self.shared.check()?;
        let _turn = attached.sync.lock();
        attached.dirty_pages.lock().begin_sync();
        match attached.file.sync(IoReason::CheckpointWrite) {
            Ok(()) => {
                attached.dirty_pages.lock().complete_sync();
                self.shared.check()
            }
            Err(error) => {
                self.shared.fail(InstanceFailure::io(attached.file.path(), &error));
                self.shared.check()
            }
        }
    }

    /// Pins dirty pages to write them. Evicted pages are read first. Skips pages that cannot be read, and returns the
    /// first error.
    fn pin_all(&self, attached: &AttachedFile, pages: &[PageNumber]) -> (Vec<PinnedPage>, Result<()>) {
        let keys: Vec<_> = pages.iter().map(|page| PageKey { file: attached.id, page: *page }).collect();
        let evicted: Vec<_> =
            keys.iter().filter(|key| self.page_table().is_evicted_dirty(**key)).copied().collect();
        self.shared.deltas.account_read_for_write(evicted.len());
        self.preread(&evicted);
        let mut outcome = Ok(());
        let mut pin = |key: PageKey| {
            let resident = self.page_table().pin(key);
            let deltas_pending = resident.as_ref().map_or_else(
                || self.page_table().is_evicted_dirty(key),
                |page| page.frame().deltas_pending(),
            );
            if !deltas_pending {
                return resident;
            }
            // The pin is dropped first, because `fetch_cold` reads a created but unchanged page only if the page has no
            // other pin.
            drop(resident);
            self.fetch_cold(key).map_err(|error| outcome = outcome.clone().and(Err(error))).ok()
        };
        let pinned = keys.into_iter().filter_map(&mut pin).collect();
        (pinned, outcome)
    }
}
