//! Records that redo has read but not replayed yet.

use std::collections::BTreeMap;

use ese_format::log::record::{LogRecord, PageChange};
use ese_format::{DbTime, LogPosition, PageNumber};
use jetcell_sync::Arc;

use super::page_redo::{PageRedo, UndoneChange};
use super::unfinished_transactions::OpenTransaction;
use crate::Result;
use crate::cache::AttachedFileId;
use crate::log::LogReader;
use crate::recovery::replay_window::BufferedRecord;
use crate::transaction::Transaction;

/// Records whose pages have not been replayed yet.
#[derive(Default)]
pub(super) struct PendingRedo {
    pub records: Vec<RedoRecord>,
    pub pages: Vec<PageRedo>,
    /// Last page that each file must contain.
    pub last_pages: BTreeMap<AttachedFileId, PageNumber>,
    /// Transactions that ended, each with the position of its end. A transaction stores whether it committed.
    pub ended: Vec<(OpenTransaction, LogPosition)>,
}

/// An unversioned replace, which may be the first half of an undo.
#[derive(Clone, Copy)]
pub(super) struct PlainReplace {
    pub database: u8,
    pub page: PageNumber,
    pub after: DbTime,
    pub start: LogPosition,
}

/// A record that changes pages.
pub(super) struct RedoRecord {
    pub buffered: BufferedRecord,
    /// Position from which redo must start as long as a page lacks the change. It precedes the record if redo also
    /// needs earlier records.
    pub needs_from: LogPosition,
    /// Position up to which the log must be durable before a page that has the change is written.
    pub needs_until: LogPosition,
    /// Key of a split's incoming node, if this key is the new page's prefix; or the separator of a merge.
    pub key: Option<Box<[u8]>>,
    /// Transaction of a versioned change.
    pub transaction: Option<Arc<Transaction>>,
    /// Change that an Undo record undoes, unless the data has already been restored.
    pub undoes: Option<UndoneChange>,
}

impl RedoRecord {
    pub fn decode(&self, log: &LogReader) -> Result<LogRecord> {
        crate::recovery::decode(log, &self.buffered)
    }
}

impl PlainReplace {
    pub fn is_directly_before(&self, change: &PageChange) -> bool {
        (self.database, self.page, self.after) == (change.database.0, change.page, change.before)
    }
}

impl PendingRedo {
    pub fn require_page(&mut self, file: AttachedFileId, page: PageNumber) {
        let last = self.last_pages.entry(file).or_insert(page);
        *last = page.max(*last);
    }
}
