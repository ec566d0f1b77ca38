//! Reading pages before redo comes to them: records wait in a queue while the pages they name come in.
//!
//! Without it redo waits for one random read after the other. Only a hint: what is not read in time, or cannot be
//! read, is fetched when its record is applied.

use std::collections::VecDeque;

use ese_format::LogPosition;
use ese_format::log::record::LogRecord;

use crate::cache::PageKey;
use crate::core::Core;

/// Pages asked for at once: enough to keep a device busy.
const BATCH: usize = 32;
/// Most records that wait, pages or not.
const MOST_RECORDS: usize = 4096;

/// A record and its place.
pub(super) struct Waiting {
    pub start: LogPosition,
    pub end: LogPosition,
    pub record: LogRecord,
    names_page: bool,
}

/// Records on their way to redo.
pub(super) struct Lookahead {
    waiting: VecDeque<Waiting>,
    /// Pages to ask for with the next batch.
    wanted: Vec<PageKey>,
    /// How many of those that wait name a page.
    pages: usize,
    /// Most of them: a part of the cache that leaves room for what redo works on.
    most_pages: usize,
}

impl Lookahead {
    pub fn new(core: &Core) -> Lookahead {
        let most_pages = (core.cache.counters().frames as usize / 8).max(1);
        Lookahead { waiting: VecDeque::new(), wanted: Vec::new(), pages: 0, most_pages }
    }

    /// Adds the record that was read from the log last.
    pub fn push(&mut self, core: &Core, start: LogPosition, end: LogPosition, record: LogRecord) {
        let page = changed_page(core, &record);
        self.waiting.push_back(Waiting { start, end, record, names_page: page.is_some() });
        let Some(page) = page else { return };
        self.pages += 1;
        self.wanted.push(page);
        if self.wanted.len() >= BATCH.min(self.most_pages) {
            core.cache.preread(&self.wanted);
            self.wanted.clear();
        }
    }

    /// The next record to apply, while enough wait behind it.
    pub fn next(&mut self) -> Option<Waiting> {
        let enough = self.pages > self.most_pages || self.waiting.len() > MOST_RECORDS;
        if enough { self.take() } else { None }
    }

    /// The next record to apply, however few wait behind it.
    pub fn take(&mut self) -> Option<Waiting> {
        let next = self.waiting.pop_front()?;
        self.pages -= usize::from(next.names_page);
        Some(next)
    }
}

/// The page that must be read to redo a record. Databases attached by a record that still waits have none.
fn changed_page(core: &Core, record: &LogRecord) -> Option<PageKey> {
    let change = match record {
        LogRecord::UndoInfo(_) => return None,
        LogRecord::Split2(split) => &split.change,
        LogRecord::Merge2(merge) => &merge.change,
        record => &record.node_change()?.page,
    };
    let database = core.database_in_log(change.database.0)?;
    Some(database.page_key(change.page))
}
