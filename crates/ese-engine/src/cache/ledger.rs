//! Which pages of a file the disk does not have yet, and since which log position.
//!
//! ```text
//!  changed ──> dirty (by first position) ──write completes──> unsynced ──sync starts──> syncing ──ends──> durable
//!                 ^──────── changed while being written ───────┘
//! ```
//!
//! Invariant: the log from `oldest()` on suffices to redo every change that is not durable in the file. A completed
//! write alone does not move it: until a sync the device may still lose the page.

use std::collections::BTreeSet;

use ese_format::{LogPosition, PageNumber};

/// Dirty pages of one file.
#[derive(Default)]
pub(super) struct Ledger {
    dirty: BTreeSet<(LogPosition, PageNumber)>,
    /// Dirty pages with a write in flight.
    writing: BTreeSet<(LogPosition, PageNumber)>,
    unsynced: Option<LogPosition>,
    syncing: Option<LogPosition>,
    /// Where the latest change of a page began.
    latest: LogPosition,
}

impl Ledger {
    /// A clean page was changed.
    pub fn dirtied(&mut self, page: PageNumber, first: LogPosition) {
        self.dirty.insert((first, page));
        self.latest = self.latest.max(first);
    }

    /// A page is changed while a state before that is being written.
    pub fn changed_meanwhile(&mut self, first: LogPosition) {
        self.latest = self.latest.max(first);
    }

    pub fn write_starts(&mut self, page: PageNumber, first: LogPosition) {
        self.dirty.remove(&(first, page));
        self.writing.insert((first, page));
    }

    pub fn write_failed(&mut self, page: PageNumber, first: LogPosition) {
        self.writing.remove(&(first, page));
        self.dirty.insert((first, page));
    }

    /// A write with all changes from `first` up to some point completed; later changes began at `again`.
    pub fn written(&mut self, page: PageNumber, first: LogPosition, again: Option<LogPosition>) {
        self.writing.remove(&(first, page));
        self.unsynced = earlier(self.unsynced, Some(first));
        if let Some(again) = again {
            self.dirty.insert((again, page));
        }
    }

    /// An earlier first position of a dirty page became known.
    pub fn predated(&mut self, page: PageNumber, first: LogPosition, earlier: LogPosition) {
        self.dirty.remove(&(first, page));
        self.dirty.insert((earlier, page));
    }

    /// A dirty page is given up.
    pub fn forgotten(&mut self, page: PageNumber, first: LogPosition) {
        self.dirty.remove(&(first, page));
        self.writing.remove(&(first, page));
    }

    pub fn sync_starts(&mut self) {
        self.syncing = earlier(self.syncing, self.unsynced.take());
    }

    /// Only after success; a failed sync leaves everything undecided.
    pub fn sync_ended(&mut self) {
        self.syncing = None;
    }

    pub fn oldest(&self) -> Option<LogPosition> {
        earlier(self.oldest_dirty(), earlier(self.unsynced, self.syncing))
    }

    /// Not counting pages that are written but not synced.
    pub fn oldest_dirty(&self) -> Option<LogPosition> {
        let first = |pages: &BTreeSet<_>| pages.first().map(|(first, _)| *first);
        earlier(first(&self.dirty), first(&self.writing))
    }

    /// No change of a page that is dirty now began later.
    pub fn latest_change(&self) -> Option<LogPosition> {
        (self.dirty_count() > 0).then_some(self.latest)
    }

    pub fn dirty_count(&self) -> usize {
        self.dirty.len() + self.writing.len()
    }

    /// Dirty pages first changed before `position` with no write in flight, oldest first.
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
    use super::*;

    const P: PageNumber = PageNumber::fixed(7);

    fn at(n: u16) -> LogPosition {
        LogPosition::new(1, n, 0)
    }

    #[test]
    fn a_written_page_holds_the_checkpoint_back_until_a_sync_that_started_later_ends() {
        let mut ledger = Ledger::default();
        ledger.dirtied(P, at(3));
        ledger.sync_starts();
        ledger.write_starts(P, at(3));
        assert_eq!((ledger.oldest(), ledger.below(at(9)).count()), (Some(at(3)), 0));
        ledger.written(P, at(3), None);
        ledger.sync_ended();
        assert_eq!((ledger.oldest(), ledger.oldest_dirty()), (Some(at(3)), None));
        ledger.sync_starts();
        assert_eq!(ledger.oldest(), Some(at(3)));
        ledger.sync_ended();
        assert_eq!(ledger.oldest(), None);
    }

    #[test]
    fn a_page_changed_while_being_written_stays_with_its_later_position() {
        let mut ledger = Ledger::default();
        ledger.dirtied(P, at(3));
        ledger.write_starts(P, at(3));
        ledger.changed_meanwhile(at(5));
        assert_eq!(
            ledger.latest_change(),
            Some(at(5)),
            "who writes all changes made so far must write this one"
        );
        ledger.written(P, at(3), Some(at(5)));
        ledger.sync_starts();
        ledger.sync_ended();
        assert_eq!(ledger.oldest(), Some(at(5)));
        assert_eq!(ledger.below(at(5)).count(), 0);
        assert_eq!(ledger.below(at(6)).collect::<Vec<_>>(), [P]);
    }
}
