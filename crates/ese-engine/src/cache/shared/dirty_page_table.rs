//! The dirty page table of a file: pages that are not on disk yet, each with the log position of its first change.
//!
//! ```text
//!  changed ──> dirty (by first position) ──write completes──> unsynced ──sync begins──> syncing ──ends──> durable
//!                 ^──────── changed while being written ───────┘
//! ```
//!
//! Invariant: the log from `oldest()` on is sufficient to redo every change that is not durable in the file. A
//! completed write alone does not advance `oldest()`, because the device can still lose the page before a sync.

use std::collections::BTreeSet;

use ese_format::{LogPosition, PageNumber};

/// Dirty pages of one file. ESE: the `OB0` index.
#[doc(alias = "OB0")]
#[derive(Default)]
pub(in crate::cache) struct DirtyPageTable {
    dirty: BTreeSet<(LogPosition, PageNumber)>,
    /// Dirty pages with a write in flight.
    writing: BTreeSet<(LogPosition, PageNumber)>,
    unsynced: Option<LogPosition>,
    syncing: Option<LogPosition>,
    /// The largest log position at which a change began.
    latest: LogPosition,
}

impl DirtyPageTable {
    /// Adds a previously clean page, first changed at log position `first`.
    pub fn insert(&mut self, page: PageNumber, first: LogPosition) {
        self.dirty.insert((first, page));
        self.latest = self.latest.max(first);
    }

    /// Records a change to a page while an earlier state of the page is being written.
    pub fn changed_during_write(&mut self, first: LogPosition) {
        self.latest = self.latest.max(first);
    }

    pub fn begin_write(&mut self, page: PageNumber, first: LogPosition) {
        self.dirty.remove(&(first, page));
        self.writing.insert((first, page));
    }

    pub fn fail_write(&mut self, page: PageNumber, first: LogPosition) {
        self.writing.remove(&(first, page));
        self.dirty.insert((first, page));
    }

    /// Records the completion of a write. If the page has changes that the write did not include, `again` is the
    /// position of the first such change.
    pub fn complete_write(&mut self, page: PageNumber, first: LogPosition, again: Option<LogPosition>) {
        self.writing.remove(&(first, page));
        self.unsynced = earlier(self.unsynced, Some(first));
        if let Some(again) = again {
            self.dirty.insert((again, page));
        }
    }

    /// Replaces a dirty page's first position with an earlier one.
    pub fn lower_first(&mut self, page: PageNumber, first: LogPosition, earlier: LogPosition) {
        self.dirty.remove(&(first, page));
        self.dirty.insert((earlier, page));
    }

    /// Removes a dirty page without writing it.
    pub fn remove(&mut self, page: PageNumber, first: LogPosition) {
        self.dirty.remove(&(first, page));
        self.writing.remove(&(first, page));
    }

    pub fn begin_sync(&mut self) {
        self.syncing = earlier(self.syncing, self.unsynced.take());
    }

    /// Records a successful sync. Must not be called after a failed sync, because the state of the pages is then
    /// unknown.
    pub fn complete_sync(&mut self) {
        self.syncing = None;
    }

    pub fn oldest(&self) -> Option<LogPosition> {
        earlier(self.oldest_dirty(), earlier(self.unsynced, self.syncing))
    }

    /// Returns the oldest first position among pages that have not been written yet. Unlike `oldest`, this ignores
    /// pages that have been written but not synced.
    pub fn oldest_dirty(&self) -> Option<LogPosition> {
        let first = |pages: &BTreeSet<_>| pages.first().map(|(first, _)| *first);
        earlier(first(&self.dirty), first(&self.writing))
    }

    /// Returns an upper bound for the positions at which changes to currently dirty pages began.
    pub fn latest_change(&self) -> Option<LogPosition> {
        (self.dirty_count() > 0).then_some(self.latest)
    }

    pub fn dirty_count(&self) -> usize {
        self.dirty.len() + self.writing.len()
    }

    /// Returns the dirty pages that are `wanted` and have no write in flight, and the number of wanted pages with a
    /// write in flight.
    pub fn matching(&self, wanted: impl Fn(PageNumber) -> bool) -> (Vec<PageNumber>, usize) {
        let dirty = self.dirty.iter().map(|(_, page)| *page).filter(|page| wanted(*page)).collect();
        (dirty, self.writing.iter().filter(|(_, page)| wanted(*page)).count())
    }

    /// Returns the dirty pages that have no write in flight and whose first change is before `position`, oldest
    /// first.
    pub fn below(&self, position: LogPosition) -> impl Iterator<Item = PageNumber> {
        self.dirty.iter().take_while(move |(first, _)| *first < position).map(|(_, page)| *page)
    }
}

fn earlier(a: Option<LogPosition>, b: Option<LogPosition>) -> Option<LogPosition> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const P: PageNumber = PageNumber::fixed(7);

    fn at(n: u16) -> LogPosition {
        LogPosition::new(1, n, 0)
    }

    #[test]
    fn a_written_page_holds_the_checkpoint_until_later_sync_completes() {
        let mut dirty_pages = DirtyPageTable::default();
        dirty_pages.insert(P, at(3));
        dirty_pages.begin_sync();
        dirty_pages.begin_write(P, at(3));
        assert_eq!((dirty_pages.oldest(), dirty_pages.below(at(9)).count()), (Some(at(3)), 0));
        dirty_pages.complete_write(P, at(3), None);
        dirty_pages.complete_sync();
        assert_eq!((dirty_pages.oldest(), dirty_pages.oldest_dirty()), (Some(at(3)), None));
        dirty_pages.begin_sync();
        assert_eq!(dirty_pages.oldest(), Some(at(3)));
        dirty_pages.complete_sync();
        assert_eq!(dirty_pages.oldest(), None);
    }

    #[test]
    fn a_page_changed_during_a_write_keeps_the_later_position() {
        let mut dirty_pages = DirtyPageTable::default();
        dirty_pages.insert(P, at(3));
        dirty_pages.begin_write(P, at(3));
        dirty_pages.changed_during_write(at(5));
        assert_eq!(
            dirty_pages.latest_change(),
            Some(at(5)),
            "a flush of all changes so far must write this page again"
        );
        dirty_pages.complete_write(P, at(3), Some(at(5)));
        dirty_pages.begin_sync();
        dirty_pages.complete_sync();
        assert_eq!(dirty_pages.oldest(), Some(at(5)));
        assert_eq!(dirty_pages.below(at(5)).count(), 0);
        assert_eq!(dirty_pages.below(at(6)).collect::<Vec<_>>(), [P]);
    }
    /// A minimal model of the table.
    #[derive(Default)]
    struct Model {
        /// First position of each page, and whether a write is in flight.
        pages: BTreeMap<PageNumber, (LogPosition, bool)>,
        unsynced: Vec<LogPosition>,
        syncing: Vec<LogPosition>,
        latest: LogPosition,
    }

    impl Model {
        /// Performs one operation on both tables.
        fn step(&mut self, table: &mut DirtyPageTable, kind: u8, page: u32, position: u16) {
            let (page, position) = (PageNumber::fixed(page), at(position));
            let before = self.pages.get(&page).copied();
            match (kind, before) {
                (0, None) => {
                    table.insert(page, position);
                    self.pages.insert(page, (position, false));
                    self.latest = self.latest.max(position);
                }
                (0, Some((_, true))) => {
                    table.changed_during_write(position);
                    self.latest = self.latest.max(position);
                }
                (0, Some((first, false))) if position < first => {
                    table.lower_first(page, first, position);
                    self.pages.insert(page, (position, false));
                }
                (1, Some((first, false))) => {
                    table.begin_write(page, first);
                    self.pages.insert(page, (first, true));
                }
                (2, Some((first, true))) => {
                    table.complete_write(page, first, None);
                    self.pages.remove(&page);
                    self.unsynced.push(first);
                }
                (3, Some((first, true))) => {
                    let again = first.max(position);
                    table.complete_write(page, first, Some(again));
                    self.pages.insert(page, (again, false));
                    self.unsynced.push(first);
                }
                (4, Some((first, true))) => {
                    table.fail_write(page, first);
                    self.pages.insert(page, (first, false));
                }
                (5, Some((first, _))) => {
                    table.remove(page, first);
                    self.pages.remove(&page);
                }
                (6, _) => {
                    table.begin_sync();
                    self.syncing.append(&mut self.unsynced);
                }
                (7, _) => {
                    table.complete_sync();
                    self.syncing.clear();
                }
                _ => {}
            }
        }
    }

    proptest! {
        #[test]
        fn dirty_page_table_matches_a_model(steps in prop::collection::vec((0..8u8, 1..6u32, 1..40u16), 1..60)) {
            let (mut table, mut model) = (DirtyPageTable::default(), Model::default());
            for (kind, page, position) in steps {
                model.step(&mut table, kind, page, position);
                let firsts = || model.pages.values().map(|(first, _)| *first);
                prop_assert_eq!(table.oldest_dirty(), firsts().min());
                let written = model.unsynced.iter().chain(&model.syncing).copied();
                prop_assert_eq!(table.oldest(), firsts().chain(written).min());
                prop_assert_eq!(table.dirty_count(), model.pages.len());
                let latest = (!model.pages.is_empty()).then_some(model.latest);
                prop_assert_eq!(table.latest_change(), latest);
                let mut idle: Vec<_> =
                    model.pages.iter().filter(|(_, (_, writing))| !writing).map(|(page, (first, _))| (*first, *page)).collect();
                idle.sort_unstable();
                let below = idle.iter().filter(|(first, _)| *first < at(position)).map(|(_, page)| *page);
                prop_assert_eq!(table.below(at(position)).collect::<Vec<_>>(), below.collect::<Vec<_>>());
                let wanted = |page: PageNumber| page.get().is_multiple_of(2);
                let dirty: Vec<_> = idle.iter().map(|(_, page)| *page).filter(|page| wanted(*page)).collect();
                let writing = model.pages.iter().filter(|(page, (_, writing))| *writing && wanted(**page)).count();
                prop_assert_eq!(table.matching(wanted), (dirty, writing));
            }
        }
    }
}
