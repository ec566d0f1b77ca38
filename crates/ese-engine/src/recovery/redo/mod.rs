//! Redo: repeats the changes that pages lack, up to the end of the log, and collects the operations of unfinished
//! transactions.
//!
//! A record applies to a page only if the page's dbtime equals the before-change time in the record. If the page's
//! dbtime is equal to or greater than the after-change time, the page already has the change. Any other dbtime is
//! damage and ends recovery. A record that formats a new page applies to every older page. Records between
//! `MacroBegin` and `MacroCommit` wait for the commit, and the time of a page is checked once for all of them
//! ([`macro_changes`]). If the log ends inside a macro, its records are ignored.
//!
//! Therefore the changes to a page depend only on the page and the log, and only their order on that page matters.
//! Redo collects records and transaction operations in log order, and then replays the records page by page
//! ([`page_replay`]). Some information about a change (before-images, keys of deleted nodes) exists only on the page,
//! and is available only after the replay. Before a record that needs such information, redo replays the pages of all
//! earlier records. The same applies to a record that attaches or detaches a database.

mod comparison;
mod copy_tasks;
mod counters;
mod groups;
mod macro_changes;
mod newest_version_id;
mod open_macros;
mod open_transactions;
mod page_redo;
mod page_replay;
mod pending_before_images;
mod pending_redo;
mod record_treatment;
mod released_space;
mod unfinished_transactions;

use std::collections::BTreeMap;
use std::ops::Range;

use ese_format::log::record::{LogRecord, Macro, operation};
use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Arc;

pub use self::comparison::ComparisonResult;
pub(super) use self::copy_tasks::CopyTasks;
use self::groups::OpenGroup;
use self::macro_changes::{PageEffects, macro_effects};
use self::open_macros::{OpenMacro, OpenMacros, macro_key};
use self::open_transactions::OpenTransactions;
pub(super) use self::page_redo::pages_changed;
use self::page_redo::{PageRedo, PageRole, formats};
use self::page_replay::{PageReplay, ReplayOutcome};
use self::pending_redo::{PendingRedo, RedoRecord};
pub(super) use self::record_treatment::redoable;
use self::record_treatment::treatment;
pub(super) use self::unfinished_transactions::{UndoInfos, UnfinishedTransactions};
use super::replay_window::{BufferedRecord, Payloads};
use crate::cache::{MemoryGrant, PageKey};
use crate::core::Core;
use crate::log::LogReader;
use crate::storage::DatabaseFile;
use crate::{Corruption, Error, MacroError, Result};

/// State of a redo in progress.
pub(super) struct Redo {
    core: Arc<Core>,
    log: Arc<LogReader>,
    /// Number of threads that replay pages.
    threads: usize,
    /// Cache memory that holds the window. As the window shrinks, redo returns all but `reserved` bytes of it.
    grant: MemoryGrant,
    pub reserved: usize,
    transactions: OpenTransactions,
    group: Option<OpenGroup>,
    macros: OpenMacros,
    pending: PendingRedo,
    /// Pages that could not be read when the log changed them, with the error and the first record whose change they
    /// lack. A later record may return these pages to the file system.
    unreadable: BTreeMap<PageKey, (Error, LogPosition)>,
    /// Additional redo work if the databases belong to a copy.
    copy: Option<CopyTasks>,
    /// Number of records read.
    pub records: u64,
    /// Number of page changes made.
    pub applied: u64,
    /// Number of page changes left in memory for pages that were not read.
    pub deferred: u64,
}

impl Redo {
    pub fn new(
        core: Arc<Core>,
        log: Arc<LogReader>,
        threads: usize,
        undo_infos: UndoInfos,
        grant: MemoryGrant,
    ) -> Redo {
        let mut transactions = OpenTransactions::default();
        transactions.add_undo_infos(undo_infos);
        Redo {
            core,
            log,
            threads,
            grant,
            reserved: 0,
            transactions,
            group: None,
            macros: OpenMacros::default(),
            pending: PendingRedo::default(),
            unreadable: BTreeMap::new(),
            copy: None,
            records: 0,
            applied: 0,
            deferred: 0,
        }
    }

    /// Collects the next record. The caller handles attach and detach records. The pages are changed later, by
    /// [`Redo::replay_pages`], which gets the payloads of all records collected since its last call.
    pub fn record(&mut self, buffered: BufferedRecord, record: LogRecord, payloads: &Payloads) -> Result<()> {
        self.records += 1;
        if let Some(reason) = treatment(&record).refusal() {
            let (record, position) = (record.name(), buffered.start);
            let fault = Corruption::RefusedRecord { record, position, reason };
            return Err(Error::corrupt(self.log.directory(), fault));
        }
        match self.take_for_group(buffered, record, payloads)? {
            Some((buffered, record)) => self.one_record(buffered, record, payloads),
            None => Ok(()),
        }
    }

    /// Collects a record that is not part of a group, or whose group is complete.
    fn one_record(&mut self, buffered: BufferedRecord, record: LogRecord, payloads: &Payloads) -> Result<()> {
        match &record {
            LogRecord::MacroBegin(begin) => {
                self.macros.begin(begin, buffered.start);
                return Ok(());
            }
            LogRecord::MacroAbort(abort) => {
                self.macros.abort(abort);
                return Ok(());
            }
            LogRecord::MacroCommit(commit) => return self.end_macro(commit, &buffered, payloads),
            // A macro that a crash interrupted is never completed. Recovery reuses the session numbers.
            LogRecord::RecoveryUndo2(_) | LogRecord::Init2(_) => self.macros.clear(),
            _ => {}
        }
        match self.macros.macro_of(&record, buffered.start) {
            Err(error) => return Err(self.macro_error(&record, buffered.start, error)),
            Ok(Some(open)) => {
                open.records.push(buffered);
                return Ok(());
            }
            Ok(None) => {}
        }
        let placed = PageEffects::from_single_record(&record);
        let span = buffered.start..buffered.end;
        self.collect(buffered, &record, placed, span, payloads)
    }

    /// Collects the records of a complete macro.
    fn end_macro(&mut self, commit: &Macro, end: &BufferedRecord, payloads: &Payloads) -> Result<()> {
        let ended = self.macros.end(commit);
        let ended =
            ended.map_err(|error| self.macro_error(&LogRecord::MacroCommit(*commit), end.start, error))?;
        let Some(OpenMacro { begun, has_begin: whole, records }) = ended else { return Ok(()) };
        let decoded: Vec<_> =
            records.iter().map(|buffered| super::decode(&self.log, buffered)).collect::<Result<_>>()?;
        let placed = macro_effects(&decoded, whole)
            .map_err(|error| self.macro_error(&LogRecord::MacroBegin(*commit), begun, error))?;
        for ((buffered, record), placed) in records.into_iter().zip(&decoded).zip(placed) {
            self.collect(buffered, record, placed, begun..end.end, payloads)?;
        }
        Ok(())
    }

    fn macro_error(&self, record: &LogRecord, position: LogPosition, error: MacroError) -> Error {
        let (path, record) = (self.log.directory().to_path_buf(), record.name());
        if error.is_of_earlier_version() {
            Error::EarlierVersion { path, record, position, difference: error }
        } else {
            Error::corrupt(path, Corruption::Macro { record, position, error })
        }
    }

    /// Adds the effects of a record. `span` is the range of the record or its macro.
    fn collect(
        &mut self,
        buffered: BufferedRecord,
        record: &LogRecord,
        placed: PageEffects,
        span: Range<LogPosition>,
        payloads: &Payloads,
    ) -> Result<()> {
        let (start, end) = (buffered.start, buffered.end);
        // A database that was later shut down cleanly is not attached, because its file already has this change. A
        // missing database is not attached either: either the log detaches it later, or recovery fails.
        if record.database().is_some_and(|id| self.attached(id.0).is_none()) {
            return Ok(());
        }
        let (mut undoes, mut needs_from) = (None, span.start);
        if let Some(ended) = self.transactions.note(record, start, end) {
            self.pending.ended.push((ended, end));
        }
        match record {
            LogRecord::ScanCheck(_) | LogRecord::ScanCheck2(_) | LogRecord::PagePatchRequest(_) => {
                return self.collect_for_copy(buffered, record);
            }
            LogRecord::Undo(undo) => {
                let restored = self.transactions.restored_before(undo);
                match restored {
                    Some(restored) => needs_from = restored.start,
                    // The before-image may exist only on the page.
                    None if undo.operation == operation::REPLACE => self.replay_pages(payloads)?,
                    None => {}
                }
                undoes = self.transactions.mark_undone(undo).filter(|_| restored.is_none());
            }
            LogRecord::ExtendDb(extend) => {
                let database = self.database(extend.database.0)?;
                // Pages that are missing from the file were removed by a later record.
                if start >= database.released_until() {
                    let required =
                        self.pending.last_pages.get(&database.file_id).copied().map_or(0, PageNumber::get);
                    if extend.last.get() > required.max(database.file_pages()?) {
                        database.count_extension();
                    }
                    self.pending.require_page(database.file_id, extend.last);
                }
            }
            LogRecord::ShrinkDb(_)
            | LogRecord::ShrinkDb2(_)
            | LogRecord::ShrinkDb3(_)
            | LogRecord::TrimDb(_) => self.replay_release(record, start..end, payloads)?,
            _ => {}
        }
        let PageEffects { mut pages, key } = placed;
        self.without_missing(record, start, &mut pages)?;
        let needs_until = span.end;
        let redo_record = RedoRecord { buffered, needs_from, needs_until, key, transaction: None, undoes };
        self.add_page_changes(redo_record, record, pages)
    }

    /// Adds the page changes of a record.
    fn add_page_changes(
        &mut self,
        mut redo_record: RedoRecord,
        record: &LogRecord,
        pages: Vec<(PageNumber, PageRole)>,
    ) -> Result<()> {
        let Some((procid, after)) = macro_key(record) else { return Ok(()) };
        let Some(id) = record.database() else { return Ok(()) };
        let database = self.database(id.0)?;
        // The time and the tree id are in use even if the record changes no page.
        database.advance_time_to(after);
        if let Some(tree) = record.tree() {
            database.advance_tree_id_to(tree);
        }
        if pages.is_empty() {
            return Ok(());
        }
        let record_index = self.pending.records.len() as u32;
        for (page, role) in pages {
            let key = database.page_key(page);
            if formats(record, role) {
                self.pending.require_page(key.file, page);
            }
            self.pending.pages.push(PageRedo { key, after, record_index, role });
        }
        self.transactions.add_operation(record, record_index, redo_record.buffered.start);
        redo_record.transaction = self.transactions.transaction(procid);
        self.pending.records.push(redo_record);
        Ok(())
    }

    /// Replays the pages of all records collected so far.
    pub fn replay_pages(&mut self, payloads: &Payloads) -> Result<()> {
        let PendingRedo { records, mut pages, last_pages, ended } = std::mem::take(&mut self.pending);
        for (file, page) in last_pages {
            if let Some(database) = self.core.file(file) {
                database.grow_file(page)?;
            }
        }
        // The sort is stable, so the changes to each page stay in log order.
        pages.sort_by_key(|page| page.key);
        let memory = (&self.grant, self.reserved);
        let images = self.copy.as_ref().map(|copy| &copy.images);
        let mut replay = PageReplay::new(&self.core, &records, payloads, &self.log, memory, images);
        let result = replay.run(&pages, self.threads);
        let ReplayOutcome { mut recovered, applied, deferred, unreadable, built, copy } = replay.outcome;
        for (key, why) in unreadable {
            self.unreadable.entry(key).or_insert(why);
        }
        self.unreadable.retain(|key, _| !built.contains(key));
        if let Some(work) = &mut self.copy {
            work.add(copy, &self.core);
        }
        self.applied += applied;
        self.deferred += deferred;
        result?;
        self.transactions.complete(&mut recovered);
        for (mut open, end) in ended {
            open.complete(&mut recovered);
            if open.transaction.is_running() {
                open.transaction.set_rolled_back();
            }
            self.end_transaction(open, end)?;
        }
        Ok(())
    }

    /// Returns the position where redo would have to start in order to read all records of unfinished transactions
    /// and incomplete macros. On a copy, this includes the changes that unreadable pages lack.
    pub fn needed_from(&self) -> Option<LogPosition> {
        let skipped = self.unreadable.values().map(|(_, since)| *since).filter(|_| self.copy.is_some()).min();
        let group = self.group.as_ref().map(|group| group.begun);
        [self.transactions.oldest(), self.macros.oldest(), group, skipped].into_iter().flatten().min()
    }

    /// Returns the transactions that have not ended at this position.
    pub fn transactions(&mut self) -> &mut OpenTransactions {
        &mut self.transactions
    }

    /// Returns the number of macros whose end has not been read. Their records have not been replayed.
    pub fn incomplete_macros(&self) -> usize {
        self.macros.len()
    }

    fn attached(&self, log_id: u8) -> Option<Arc<DatabaseFile>> {
        self.core.file_in_log(log_id)
    }

    fn database(&self, log_id: u8) -> Result<Arc<DatabaseFile>> {
        self.attached(log_id).ok_or_else(|| Error::corrupt("log", Corruption::NotAttached(log_id)))
    }
}
