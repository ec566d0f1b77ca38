//! A page that a group has latched: its state before the change, and the deltas of the change.

use ese_format::page::{PageFlags, PageMut};
use ese_format::{DbTime, LogPosition, PageNumber, PageSize};

use super::apply::ApplyResult;
use crate::cache::{PageDelta, WriteLatch};

/// A page in a group. It stays latched until the group ends.
pub(super) struct LatchedPage {
    pub page: PageNumber,
    pub latch: WriteLatch,
    /// The bytes before the first change, or `None` if the page is unchanged. If only the header has changed so far,
    /// this is only the header's bytes.
    ///
    /// The bytes include the free space between nodes and tags. After a rollback, a zeroed page must not contain
    /// leftover data, and the page must be identical to the state that the log produces.
    original: Option<Box<[u8]>>,
    /// Number of bytes to restore after any change. For a page that was just created, this is only the header,
    /// because the remaining bytes are arbitrary.
    ///
    /// The memory of such a page may never have been touched, and reading it before writing to it would cost two page
    /// faults and a TLB flush on all processors.
    restored: usize,
    /// The deltas since the first change, without their database time. `None` if the page was also changed in another
    /// way.
    edits: Option<Vec<u8>>,
}

impl LatchedPage {
    pub fn new(page: PageNumber, latch: WriteLatch, size: PageSize) -> LatchedPage {
        let restored = if latch.is_new() { size.header_len() } else { latch.len() };
        LatchedPage { page, latch, original: None, restored, edits: Some(Vec::new()) }
    }

    /// Returns the page's bytes for arbitrary changes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.edits = None;
        self.save_original()
    }

    fn save_original(&mut self) -> &mut [u8] {
        if self.original.as_ref().is_none_or(|found| found.len() < self.restored) {
            let mut found: Box<[u8]> = self.latch[..self.restored].into();
            if let Some(header) = self.original.take() {
                found[..header.len()].copy_from_slice(&header);
            }
            self.original = Some(found);
        }
        &mut self.latch
    }

    /// Returns the page's bytes for changes to the header only.
    pub fn header_mut(&mut self, size: PageSize) -> &mut [u8] {
        self.edits = None;
        self.save_original_header(size)
    }

    fn save_original_header(&mut self, size: PageSize) -> &mut [u8] {
        self.original.get_or_insert_with(|| self.latch[..size.header_len()].into());
        &mut self.latch
    }

    /// Applies a delta to the page.
    pub fn edit(&mut self, edit: &PageDelta<'_>, size: PageSize) -> ApplyResult {
        let bytes = match edit {
            PageDelta::SetPrev(_) => self.save_original_header(size),
            _ => self.save_original(),
        };
        let mut page = PageMut::new(bytes, size);
        let applied = edit.apply(&mut page);
        if self.edits.as_mut().is_some_and(|edits| edit.encode(DbTime(0), edits).is_none()) {
            self.edits = None;
        }
        applied
    }

    /// Returns true if the group has changed the page.
    pub fn is_changed(&self) -> bool {
        self.original.is_some()
    }

    /// Records that the changes have been logged from `first` to `end`. `time` is the new database time of the page.
    /// The page keeps its scrubbed mark only if the change `scrubs` it.
    pub fn set_logged(
        &mut self,
        time: DbTime,
        (first, end): (LogPosition, LogPosition),
        scrubs: bool,
        size: PageSize,
    ) {
        if self.original.is_none() {
            return;
        }
        let mut page = PageMut::new(&mut self.latch, size);
        page.set_db_time(time);
        let flags = page.as_page().flags();
        if !scrubs && flags.contains(PageFlags::SCRUBBED) {
            page.set_flags(flags - PageFlags::SCRUBBED);
        }
        match &mut self.edits {
            Some(edits) => {
                PageDelta::set_times(edits, time);
                self.latch.mark_dirty_by_delta(first);
                self.latch.record_deltas(edits);
            }
            None => self.latch.mark_dirty(first),
        }
        self.latch.set_last(end);
    }

    /// Undoes the group's changes by restoring the page's original bytes.
    pub fn undo_changes(&mut self) {
        if let Some(found) = &self.original {
            self.latch[..found.len()].copy_from_slice(found);
        }
    }
}
