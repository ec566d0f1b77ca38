//! A page that a group has latched: its state before the change, and its deltas.

use ese_format::page::{Page, PageFlags, PageMut};
use ese_format::{DbTime, LogPosition, PageNumber, PageSize};

use super::apply::Applied;
use crate::cache::{PageDelta, WriteLatch};

/// A page of a group, latched until the group ends.
pub(super) struct Latched {
    pub page: PageNumber,
    pub latch: WriteLatch,
    /// The state before the first change, if there was one.
    found: Option<Found>,
    /// The deltas since then, without their time of change; `None` if the page was also changed in another way.
    edits: Option<Vec<u8>>,
}

/// The old bytes of a page, without the free bytes between its lines and its tags, which have no meaning. While only
/// the header has changed, the old bytes of the header only.
struct Found {
    head: Box<[u8]>,
    tail: Box<[u8]>,
    whole: bool,
}

impl Found {
    fn of(bytes: &[u8], size: PageSize) -> Found {
        let free = Page::new(bytes, size).free_range();
        Found { head: bytes[..free.start].into(), tail: bytes[free.end..].into(), whole: true }
    }

    fn header_of(bytes: &[u8], size: PageSize) -> Found {
        Found { head: bytes[..size.header_len()].into(), tail: Box::default(), whole: false }
    }

    fn put_back(&self, bytes: &mut [u8]) {
        let tail = bytes.len() - self.tail.len();
        bytes[..self.head.len()].copy_from_slice(&self.head);
        bytes[tail..].copy_from_slice(&self.tail);
    }
}

impl Latched {
    pub fn new(page: PageNumber, latch: WriteLatch) -> Latched {
        Latched { page, latch, found: None, edits: Some(Vec::new()) }
    }

    /// The bytes, for any change.
    pub fn bytes_mut(&mut self, size: PageSize) -> &mut [u8] {
        self.edits = None;
        self.about_to_change(size)
    }

    fn about_to_change(&mut self, size: PageSize) -> &mut [u8] {
        if self.found.as_ref().is_none_or(|found| !found.whole) {
            let mut whole = Found::of(&self.latch, size);
            if let Some(header) = self.found.take() {
                header.put_back(&mut whole.head);
            }
            self.found = Some(whole);
        }
        &mut self.latch
    }

    /// The bytes, for any change of the header only.
    pub fn header_mut(&mut self, size: PageSize) -> &mut [u8] {
        self.edits = None;
        self.header_about_to_change(size)
    }

    fn header_about_to_change(&mut self, size: PageSize) -> &mut [u8] {
        self.found.get_or_insert_with(|| Found::header_of(&self.latch, size));
        &mut self.latch
    }

    /// Applies a delta.
    pub fn edit(&mut self, edit: &PageDelta<'_>, size: PageSize) -> Applied {
        let bytes = match edit {
            PageDelta::SetPrev(_) => self.header_about_to_change(size),
            _ => self.about_to_change(size),
        };
        let mut page = PageMut::new(bytes, size);
        let applied = edit.apply(&mut page);
        if self.edits.as_mut().is_some_and(|edits| edit.encode(DbTime(0), edits).is_none()) {
            self.edits = None;
        }
        applied
    }

    /// Whether the group has changed the page.
    pub fn is_changed(&self) -> bool {
        self.found.is_some()
    }

    /// Marks the changes as logged, from `first` to `end`. `time` is their time of change. Only a change that `scrubs` the page
    /// keeps its mark.
    pub fn logged(
        &mut self,
        time: DbTime,
        (first, end): (LogPosition, LogPosition),
        scrubs: bool,
        size: PageSize,
    ) {
        if self.found.is_none() {
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

    /// Restores the state before the first change.
    pub fn take_back(&mut self) {
        if let Some(found) = &self.found {
            found.put_back(&mut self.latch);
        }
    }
}
