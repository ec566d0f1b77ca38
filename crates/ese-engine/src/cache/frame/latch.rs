//! Handles to pages: pins keep pages resident, latches protect their bytes.
//!
//! Invariants: a latch owns a pin and releases the latch first. Latches are held only during in-memory work: a thread
//! with a latch must not fetch, flush or wait.

use std::ops::{Deref, DerefMut};

use ese_format::page::PageMut;
use ese_format::{DbTime, LogPosition};
use jetcell_sync::atomic::Ordering;
use jetcell_sync::{Arc, ArcRwLockReadGuard, ArcRwLockWriteGuard, RawRwLock, RwLock};

use crate::cache::frame::{Frame, FrameBody, FrameState};
use crate::cache::{DeferredUndo, PageDelta, PageKey};
use crate::page_misfit::PageMisfit;

/// A pin on a cached page. The page stays in memory while this value exists.
pub struct PinnedPage {
    frame: Arc<Frame>,
}

impl PinnedPage {
    /// Wraps a pin that has already been counted in the frame.
    pub(in crate::cache) fn adopt(frame: Arc<Frame>) -> PinnedPage {
        PinnedPage { frame }
    }

    pub(in crate::cache) fn shared_frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    pub(in crate::cache) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Returns the file and number of the page.
    pub fn key(&self) -> PageKey {
        self.frame.key()
    }

    /// Waits for the shared latch. A thread that already holds the shared latch must not acquire it again: it would
    /// deadlock with a waiting writer.
    pub fn read(&self) -> ReadLatch {
        ReadLatch { body: RwLock::read_arc(&self.frame.body), page: self.clone() }
    }

    /// Converts the pin into the shared latch, waiting for it if necessary.
    pub fn into_read(self) -> ReadLatch {
        ReadLatch { body: RwLock::read_arc(&self.frame.body), page: self }
    }

    /// Waits for the exclusive latch.
    pub fn write(&self) -> WriteLatch {
        WriteLatch { body: RwLock::write_arc(&self.frame.body), page: self.clone() }
    }

    /// Converts the pin into the exclusive latch, waiting for it if necessary.
    pub fn into_write(self) -> WriteLatch {
        WriteLatch { body: RwLock::write_arc(&self.frame.body), page: self }
    }

    /// Returns the shared latch if it can be acquired without waiting.
    pub fn try_read(&self) -> Option<ReadLatch> {
        Some(ReadLatch { body: RwLock::try_read_arc(&self.frame.body)?, page: self.clone() })
    }

    /// Returns the exclusive latch if it can be acquired without waiting.
    pub fn try_write(&self) -> Option<WriteLatch> {
        Some(WriteLatch { body: RwLock::try_write_arc(&self.frame.body)?, page: self.clone() })
    }

    /// Returns true if the page differs from the page on disk.
    pub fn is_dirty(&self) -> bool {
        self.frame.is_dirty()
    }
}

impl Clone for PinnedPage {
    fn clone(&self) -> PinnedPage {
        self.frame.pin();
        PinnedPage { frame: self.frame.clone() }
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        self.frame.unpin();
    }
}

impl std::fmt::Debug for PinnedPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedPage({:?})", self.key())
    }
}

/// Latch that gives shared read access to a page's bytes.
pub struct ReadLatch {
    body: ArcRwLockReadGuard<RawRwLock, FrameBody>,
    page: PinnedPage,
}

impl ReadLatch {
    /// Returns the file and number of the page.
    pub fn key(&self) -> PageKey {
        self.page.key()
    }

    /// Returns the pin. Clone it to keep the page in memory after the latch is released.
    pub fn page(&self) -> &PinnedPage {
        &self.page
    }

    /// Returns the page's before-images that have not been logged yet.
    pub fn deferred_undo(&self) -> &[Arc<dyn DeferredUndo>] {
        &self.body.undo
    }
}

impl Deref for ReadLatch {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.body.bytes
    }
}

/// Latch that gives exclusive write access to a page's bytes.
///
/// A change must follow this order: read the log's tip, call [`mark_dirty`](WriteLatch::mark_dirty) with it, append
/// the records, call [`set_last`](WriteLatch::set_last), and only then release the latch.
pub struct WriteLatch {
    body: ArcRwLockWriteGuard<RawRwLock, FrameBody>,
    page: PinnedPage,
}

impl WriteLatch {
    /// Returns the file and number of the page.
    pub fn key(&self) -> PageKey {
        self.page.key()
    }

    /// Returns the pin. Clone it to keep the page in memory after the latch is released.
    pub fn page(&self) -> &PinnedPage {
        &self.page
    }

    /// Returns true if the page was created but has not been changed yet. Such a page has a header of zeros, followed
    /// by arbitrary bytes.
    pub(crate) fn is_new(&self) -> bool {
        self.page.frame.state() == FrameState::Fresh
    }

    /// Marks the page as different from the page on disk since log position `first`. This position must not be after
    /// the first record that describes the change. The call succeeds even after the cache has failed; see
    /// [`Cache::check_writable`](crate::cache::Cache::check_writable).
    #[doc(alias = "OB0")]
    pub fn mark_dirty(&mut self, first: LogPosition) {
        self.page.frame.mark_dirty(first);
    }

    /// Marks the page dirty for changes that are recorded as deltas. Either [`apply_delta`](WriteLatch::apply_delta)
    /// makes the changes, or the caller passes them to [`record_deltas`](WriteLatch::record_deltas) before it
    /// releases the latch.
    pub(crate) fn mark_dirty_by_delta(&mut self, first: LogPosition) {
        self.page.frame.mark_dirty_by_delta(first);
    }

    /// Applies a delta and sets the dbtime of the page to `time`. Fails if the delta does not fit the page.
    pub(crate) fn apply_delta(&mut self, delta: &PageDelta<'_>, time: DbTime) -> Result<(), PageMisfit> {
        let frame = &self.page.frame;
        let mut page = PageMut::new(&mut self.body.bytes, frame.shared.page_size);
        delta.apply(&mut page)?;
        self.record_delta(delta, time);
        Ok(())
    }

    /// Records a delta that was applied, and sets the dbtime of the page to `time`.
    pub(crate) fn record_delta(&mut self, delta: &PageDelta<'_>, time: DbTime) {
        let frame = &self.page.frame;
        PageMut::new(&mut self.body.bytes, frame.shared.page_size).set_db_time(time);
        frame.record_deltas(|deltas| delta.encode(time, deltas));
    }

    /// Records deltas that were already applied, in the encoding of [`PageDelta::encode`].
    pub(crate) fn record_deltas(&mut self, deltas: &[u8]) {
        self.page.frame.record_deltas(|all| {
            all.extend_from_slice(deltas);
            Some(())
        });
    }

    /// Drops deferred undo that is no longer needed. Returns false if some undo is still needed.
    pub(in crate::cache) fn discard_resolved_undo(&mut self) -> bool {
        let frame = &self.page.frame;
        let Some(being_logged) = frame.undo_being_logged.try_lock() else { return false };
        self.body.undo.retain(|undo| undo.resolved_at().map(|end| frame.set_last(end)).is_none());
        let resolved = self.body.undo.is_empty() && being_logged.is_empty();
        frame.has_undo.store(!resolved, Ordering::Release);
        resolved
    }

    /// Requires the log to be durable up to `end` before the page may be written. The position never moves backwards.
    pub fn set_last(&mut self, end: LogPosition) {
        self.page.frame.set_last(end);
    }

    /// Requires that this before-image be logged before the page is written.
    pub fn defer_undo(&mut self, undo: Arc<dyn DeferredUndo>) {
        // Otherwise, a page that is never written would accumulate the before-images of all its transactions.
        if self.body.undo.len() >= 16 {
            let frame = &self.page.frame;
            self.body.undo.retain(|undo| undo.resolved_at().map(|end| frame.set_last(end)).is_none());
        }
        self.body.undo.push(undo);
        self.page.frame.has_undo.store(true, Ordering::Release);
    }

    /// Returns the page's before-images that have not been logged yet.
    pub fn deferred_undo(&self) -> &[Arc<dyn DeferredUndo>] {
        &self.body.undo
    }

    /// Returns the deferred undo of the page, including before-images that a writer is currently logging.
    pub fn undo_to_share(&self) -> Vec<Arc<dyn DeferredUndo>> {
        let being_logged = self.page.frame.undo_being_logged.lock();
        self.body.undo.iter().chain(being_logged.iter()).cloned().collect()
    }

    /// Removes the deferred undo from the page. The caller logs it, or moves it to another page together with its node.
    pub fn take_deferred_undo(&mut self) -> Vec<Arc<dyn DeferredUndo>> {
        self.page.frame.has_undo.store(false, Ordering::Release);
        std::mem::take(&mut self.body.undo)
    }
}

impl Deref for WriteLatch {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.body.bytes
    }
}

impl DerefMut for WriteLatch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.body.bytes
    }
}
