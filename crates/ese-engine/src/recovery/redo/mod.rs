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
mod page_redo;
mod page_replay;
mod pending_before_images;
mod pending_redo;
mod record_treatment;
mod released_space;
mod unfinished_transactions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;

use ese_format::log::record::{Delta, Delta64, LogRecord, Macro, NodeChange, PageChange, Undo, operation};
use ese_format::{DbTime, LogPosition, PageNumber};
use jetcell_sync::Arc;

pub use self::comparison::ComparisonResult;
pub(super) use self::copy_tasks::CopyTasks;
use self::counters::{CounterChange, CounterOperation, is_counter};
use self::groups::OpenGroup;
use self::macro_changes::{MacroError, OpenMacro, PageEffects, macro_effects};
use self::newest_version_id::NewestVersionId;
pub(super) use self::page_redo::pages_changed;
use self::page_redo::{PageRedo, PageRole, UndoneChange, formats, versioned};
use self::page_replay::{PageReplay, ReplayOutcome};
use self::pending_redo::{PendingRedo, PlainReplace, RedoRecord};
pub(super) use self::record_treatment::redoable;
use self::record_treatment::{RecordTreatment, treatment};
use self::unfinished_transactions::{OpenTransaction, TransactionOperation, bookmark_of};
pub(super) use self::unfinished_transactions::{UndoInfos, UnfinishedTransactions};
use super::replay_window::{BufferedRecord, Payloads};
use crate::cache::{MemoryGrant, PageKey};
use crate::core::Core;
use crate::log::LogReader;
use crate::storage::DatabaseFile;
use crate::transaction::{Transaction, VersionChange};
use crate::{Error, Result};

/// State of a redo in progress.
pub(super) struct Redo {
    core: Arc<Core>,
    log: Arc<LogReader>,
    /// Number of threads that replay pages.
    threads: usize,
    undo_infos: UndoInfos,
    /// Cache memory that holds the window. As the window shrinks, redo returns all but `reserved` bytes of it.
    grant: MemoryGrant,
    pub reserved: usize,
    transactions: BTreeMap<u16, OpenTransaction>,
    group: Option<OpenGroup>,
    /// Open macros by session and change time.
    macros: BTreeMap<(u16, DbTime), OpenMacro>,
    /// Sessions for which a `MacroBegin` record was read.
    began_macros: BTreeSet<u16>,
    /// The last unversioned replace. If it is directly followed, on the same page, by the Undo record of a replace,
    /// the data is already restored.
    last_plain_replace: Option<PlainReplace>,
    pending: PendingRedo,
    /// Pages that could not be read when the log changed them, with the error and the first record whose change they
    /// lack. A later record may return these pages to the file system.
    unreadable: BTreeMap<PageKey, (Error, LogPosition)>,
    /// Additional redo work if the databases belong to a copy.
    copy: Option<CopyTasks>,
    newest_number: u64,
    newest_id: NewestVersionId,
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
        // Later records must not reuse the version id of an UndoInfo record.
        let mut newest_id = NewestVersionId::default();
        undo_infos.keys().for_each(|id| newest_id.update(*id));
        Redo {
            core,
            log,
            threads,
            undo_infos,
            grant,
            reserved: 0,
            transactions: BTreeMap::new(),
            group: None,
            macros: BTreeMap::new(),
            began_macros: BTreeSet::new(),
            last_plain_replace: None,
            pending: PendingRedo::default(),
            unreadable: BTreeMap::new(),
            copy: None,
            newest_number: 0,
            newest_id,
            records: 0,
            applied: 0,
            deferred: 0,
        }
    }

    /// Collects the next record. The caller handles attach and detach records. The pages are changed later, by
    /// [`Redo::replay_pages`], which gets the payloads of all records collected since its last call.
    pub fn record(&mut self, buffered: BufferedRecord, record: LogRecord, payloads: &Payloads) -> Result<()> {
        self.records += 1;
        if let RecordTreatment::Refused(why) = treatment(&record) {
            return Err(self.corrupt_record(&record, buffered.start, why));
        }
        match self.take_for_group(buffered, record, payloads)? {
            Some((buffered, record)) => self.one_record(buffered, record, payloads),
            None => Ok(()),
        }
    }

    /// Collects a record that belongs to no group or to a complete group.
    fn one_record(&mut self, buffered: BufferedRecord, record: LogRecord, payloads: &Payloads) -> Result<()> {
        match &record {
            LogRecord::MacroBegin(begin) => {
                self.began_macros.insert(begin.procid);
                let opened = OpenMacro { begun: buffered.start, has_begin: true, records: Vec::new() };
                self.macros.insert((begin.procid, begin.db_time), opened);
                return Ok(());
            }
            LogRecord::MacroAbort(abort) => {
                self.macros.remove(&(abort.procid, abort.db_time));
                return Ok(());
            }
            LogRecord::MacroCommit(commit) => return self.end_macro(commit, &buffered, payloads),
            // A macro that a crash interrupted is never completed. Recovery reuses the session numbers.
            LogRecord::RecoveryUndo2(_) | LogRecord::Init2(_) => self.macros.clear(),
            _ => {}
        }
        if let Some(open) = self.macro_of(&record, buffered.start)? {
            open.records.push(buffered);
            return Ok(());
        }
        let placed = PageEffects::from_single_record(&record);
        let span = buffered.start..buffered.end;
        self.collect(buffered, &record, placed, span, payloads)
    }

    /// Returns the open macro to which a record belongs.
    fn macro_of(&mut self, record: &LogRecord, start: LogPosition) -> Result<Option<&mut OpenMacro>> {
        let Some((procid, time)) = macro_key(record) else { return Ok(None) };
        let needs_macro = matches!(record, LogRecord::Split2(_) | LogRecord::Merge2(_));
        if needs_macro && !self.began_macros.contains(&procid) {
            // Redo starts inside the macro.
            let opened = OpenMacro { begun: start, has_begin: false, records: Vec::new() };
            return Ok(Some(self.macros.entry((procid, time)).or_insert(opened)));
        }
        if self.macros.contains_key(&(procid, time)) {
            return Ok(self.macros.get_mut(&(procid, time)));
        }
        // A page can be formatted between the records of a macro.
        let is_new_page = matches!(record, LogRecord::NewPage(_));
        if !is_new_page && self.macros.keys().any(|(open, _)| *open == procid) {
            return Err(self.earlier_version(record, start, "has a different dbtime than its macro"));
        }
        if needs_macro {
            return Err(self.corrupt_record(record, start, "is outside a macro"));
        }
        Ok(None)
    }

    /// Collects the records of a complete macro.
    fn end_macro(&mut self, commit: &Macro, end: &BufferedRecord, payloads: &Payloads) -> Result<()> {
        let Some(OpenMacro { begun, has_begin: whole, records }) =
            self.macros.remove(&(commit.procid, commit.db_time))
        else {
            // Redo may start inside a macro.
            return if self.began_macros.insert(commit.procid) {
                Ok(())
            } else {
                Err(self.corrupt_record(
                    &LogRecord::MacroCommit(*commit),
                    end.start,
                    "ends a macro that was not started",
                ))
            };
        };
        let decoded: Vec<_> =
            records.iter().map(|buffered| super::decode(&self.log, buffered)).collect::<Result<_>>()?;
        let begin = LogRecord::MacroBegin(*commit);
        let placed = macro_effects(&decoded, whole).map_err(|error| match error {
            MacroError::MergeOfEarlierVersion => self.earlier_version(&begin, begun, error),
            error => self.corrupt_record(&begin, begun, error),
        })?;
        for ((buffered, record), placed) in records.into_iter().zip(&decoded).zip(placed) {
            self.collect(buffered, record, placed, begun..end.end, payloads)?;
        }
        Ok(())
    }

    fn earlier_version(&self, record: &LogRecord, position: LogPosition, what: impl Display) -> Error {
        let (path, record) = (self.log.directory().to_path_buf(), record.name());
        Error::EarlierVersion { path, record, position, difference: what.to_string() }
    }

    fn corrupt_record(&self, record: &LogRecord, start: LogPosition, what: impl Display) -> Error {
        Error::Corrupt {
            path: self.log.directory().to_path_buf(),
            page: None,
            what: format!("{} record at {start:?} {what}", record.name()),
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
        match record {
            LogRecord::ScanCheck(_) | LogRecord::ScanCheck2(_) | LogRecord::PagePatchRequest(_) => {
                return self.collect_for_copy(buffered, record);
            }
            LogRecord::Begin0(begin) => {
                self.newest_number = self.newest_number.max(u64::from(begin.begin0));
                let open = OpenTransaction {
                    transaction: Transaction::new(begin.procid, u64::from(begin.begin0)),
                    begun: start,
                    level: begin.levels.count().max(1),
                    operations: Vec::new(),
                };
                self.transactions.insert(begin.procid, open);
            }
            LogRecord::Begin(begin) => {
                if let Some(open) = self.transactions.get_mut(&begin.procid) {
                    open.level = begin.levels.from() + begin.levels.count();
                }
            }
            LogRecord::Commit(commit) => {
                if let Some(open) = self.transactions.get_mut(&commit.procid) {
                    open.level = commit.level;
                }
            }
            LogRecord::Commit0(commit) => {
                self.newest_number = self.newest_number.max(u64::from(commit.commit0));
                if let Some(mut open) = self.transactions.remove(&commit.procid) {
                    // Set before the pages are replayed, because a committed change needs no before-image.
                    open.transaction.set_committed(u64::from(commit.commit0), end);
                    open.operations.retain(|operation| {
                        matches!(operation, TransactionOperation::Node(node) if node.may_leave_deleted_node())
                    });
                    self.pending.ended.push((open, end));
                }
            }
            LogRecord::Rollback(rollback) => {
                if let Some(open) = self.transactions.get_mut(&rollback.procid) {
                    open.level = open.level.saturating_sub(rollback.levels);
                    if open.level == 0
                        && let Some(open) = self.transactions.remove(&rollback.procid)
                    {
                        self.pending.ended.push((open, end));
                    }
                }
            }
            LogRecord::Undo(undo) => {
                let of_replace = undo.operation == operation::REPLACE;
                let restored = self
                    .last_plain_replace
                    .filter(|restored| of_replace && restored.is_directly_before(&undo.node.page));
                match restored {
                    Some(restored) => needs_from = restored.start,
                    // The before-image may exist only on the page.
                    None if of_replace => self.replay_pages(payloads)?,
                    None => {}
                }
                undoes = self.mark_undone(undo).filter(|_| restored.is_none());
            }
            // When the engine wrote these records, all transactions had ended.
            LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) | LogRecord::RecoveryQuitKeepAttachments(_) => {
                self.transactions.clear();
            }
            LogRecord::ExtendDb(extend) => {
                let database = self.database(extend.database.0)?;
                // Pages that are missing from the file were removed by a later record.
                if start >= database.released_until() {
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
        let Some((procid, after)) = macro_key(record).filter(|_| !pages.is_empty()) else { return Ok(()) };
        let Some(id) = record.database() else { return Ok(()) };
        let database = self.database(id.0)?;
        database.advance_time_to(after);
        let record_index = self.pending.records.len() as u32;
        for (page, role) in pages {
            let key = database.page_key(page);
            if formats(record, role) {
                self.pending.require_page(key.file, page);
            }
            self.pending.pages.push(PageRedo { key, after, record_index, role });
        }
        self.add_operation(&database, record, record_index, redo_record.buffered.start);
        redo_record.transaction = self.transactions.get(&procid).map(|open| open.transaction.clone());
        self.pending.records.push(redo_record);
        Ok(())
    }

    /// Adds the operation to the record's transaction.
    fn add_operation(
        &mut self,
        database: &Arc<DatabaseFile>,
        record: &LogRecord,
        record_index: u32,
        start: LogPosition,
    ) {
        if let Some(node) = record.node_change() {
            self.newest_id.update(node.rceid);
        }
        match record {
            LogRecord::Insert(insert) => {
                let bookmark = bookmark_of(&insert.node, &insert.key(), &insert.data);
                self.add_node_operation(&insert.node, Some(bookmark), VersionChange::Insert, None);
            }
            LogRecord::FlagInsert(revive) => {
                let bookmark = bookmark_of(&revive.node, &revive.key, &revive.data);
                self.add_node_operation(&revive.node, Some(bookmark), VersionChange::Insert, None);
            }
            LogRecord::FlagInsertAndReplaceData(revive) => {
                let bookmark = Some(bookmark_of(&revive.node, &revive.key, &revive.data));
                self.newest_id.update(revive.replace_rceid);
                let replaced = NodeChange { rceid: revive.replace_rceid, ..revive.node };
                self.add_node_operation(
                    &replaced,
                    bookmark.clone(),
                    VersionChange::ReplaceUnknown,
                    Some(record_index),
                );
                self.add_node_operation(&revive.node, bookmark, VersionChange::Insert, None);
            }
            // The record contains only the line. If the page already has the change, an UndoInfo record has the key.
            LogRecord::FlagDelete(delete) => {
                self.add_node_operation(&delete.node, None, VersionChange::FlagDelete, Some(record_index));
            }
            LogRecord::Replace(replace) | LogRecord::ReplaceD(replace) => {
                let PageChange { database, page, after, .. } = replace.node.page;
                if !versioned(&replace.node) {
                    self.last_plain_replace = Some(PlainReplace { database: database.0, page, after, start });
                }
                self.add_node_operation(
                    &replace.node,
                    None,
                    VersionChange::ReplaceUnknown,
                    Some(record_index),
                );
            }
            LogRecord::Delta(Delta { node, .. }) | LogRecord::Delta64(Delta64 { node, .. }) => {
                if let (Some(change), Some(open)) =
                    (CounterChange::from_record(record), self.transaction_of(node))
                {
                    let operation = CounterOperation { id: node.rceid, change, undone: false, start };
                    open.operations.push(TransactionOperation::Counter(operation));
                }
            }
            LogRecord::SetExternalHeader(set) if set.data.is_empty() => {
                // The creation of a tree was undone. Changes in the tree need neither undo nor cleanup.
                if let Some(open) = self.transactions.get_mut(&set.node.page.procid) {
                    let removed = (set.node.page.database.0, set.node.page.page);
                    open.operations.retain(|operation| match operation {
                        TransactionOperation::Node(node) => (node.database, node.root) != removed,
                        TransactionOperation::CreateTree { database, root } => (*database, *root) != removed,
                        TransactionOperation::Counter(_) => true,
                    });
                }
            }
            LogRecord::CreateMultiExtentFdp(create) => {
                let change = create.change;
                database.advance_tree_id_to(create.tree);
                if let Some(open) = self.transactions.get_mut(&change.procid) {
                    open.operations.push(TransactionOperation::CreateTree {
                        database: change.database.0,
                        root: change.page,
                    });
                }
            }
            _ => {}
        }
    }

    /// Marks a change as undone and returns it.
    fn mark_undone(&mut self, undo: &Undo) -> Option<UndoneChange> {
        if is_counter(undo.operation) {
            Some(UndoneChange::Counter(self.mark_counter_undone(undo)))
        } else {
            self.mark_node_undone(undo).map(UndoneChange::Change)
        }
    }

    fn mark_counter_undone(&mut self, undo: &Undo) -> Option<CounterChange> {
        let open = self.transactions.get_mut(&undo.node.page.procid)?;
        let operation = open.operations.iter_mut().rev().find_map(|operation| match operation {
            TransactionOperation::Counter(counter) if counter.id == undo.node.rceid && !counter.undone => {
                Some(counter)
            }
            _ => None,
        })?;
        operation.undone = true;
        Some(operation.change)
    }

    fn mark_node_undone(&mut self, undo: &Undo) -> Option<VersionChange> {
        let node = undo.node;
        let operations =
            self.transactions.get_mut(&node.page.procid).map(|open| open.operations.iter_mut().rev());
        let undone = operations.into_iter().flatten().find_map(|operation| match operation {
            TransactionOperation::Node(operation) if operation.id == node.rceid && !operation.undone => {
                Some(operation)
            }
            _ => None,
        });
        if let Some(operation) = undone {
            operation.undone = true;
            operation.key = [&undo.key[..], &undo.bookmark_data].concat();
            operation.key_len = undo.key.len();
            return Some(operation.change.clone());
        }
        Some(match undo.operation {
            operation::INSERT => VersionChange::Insert,
            operation::FLAG_DELETE => VersionChange::FlagDelete,
            _ => VersionChange::ReplaceUnknown,
        })
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
        self.transactions.values_mut().for_each(|open| open.complete(&mut recovered));
        for (mut open, end) in ended {
            open.complete(&mut recovered);
            if open.transaction.is_running() {
                open.transaction.set_rolled_back();
            }
            self.end_transaction(open, end)?;
        }
        Ok(())
    }

    /// Returns the number of macros whose end has not been read. Their records have not been replayed.
    pub fn incomplete_macros(&self) -> usize {
        self.macros.len()
    }

    /// Returns the position where redo would have to start in order to read all records of unfinished transactions
    /// and incomplete macros. On a copy, this includes the changes that unreadable pages lack.
    pub fn needed_from(&self) -> Option<LogPosition> {
        let transactions = self.transactions.values().map(|open| open.begun);
        let macros = self.macros.values().map(|open| open.begun);
        let skipped = self.unreadable.values().map(|(_, since)| *since).filter(|_| self.copy.is_some());
        let group = self.group.as_ref().map(|group| group.begun);
        transactions.chain(macros).chain(group).chain(skipped).min()
    }

    /// Adds before-images from the part of the log that will be replayed next.
    pub fn add_undo_infos(&mut self, infos: UndoInfos) {
        infos.keys().for_each(|id| self.newest_id.update(*id));
        self.undo_infos.extend(infos);
    }

    /// Completes changes whose before-images come later in the log than the changes, and then drops all
    /// before-images.
    pub fn finish_part(&mut self) {
        let infos = std::mem::take(&mut self.undo_infos);
        self.transactions.values_mut().for_each(|open| open.complete_from(&infos));
    }

    fn attached(&self, log_id: u8) -> Option<Arc<DatabaseFile>> {
        self.core.file_in_log(log_id)
    }

    fn database(&self, log_id: u8) -> Result<Arc<DatabaseFile>> {
        self.attached(log_id).ok_or_else(|| Error::Corrupt {
            path: "log".into(),
            page: None,
            what: format!("the log refers to database {log_id}, which is not attached"),
        })
    }
}

fn corrupt_page(database: &DatabaseFile, page: PageNumber, what: impl Display) -> Error {
    Error::Corrupt { path: database.path.clone(), page: Some(page), what: format!("page {page}: {what}") }
}

/// Returns a record's session and the change time of its pages, if the record can be part of a macro.
fn macro_key(record: &LogRecord) -> Option<(u16, DbTime)> {
    match record {
        // This record changes no page and has no change time.
        LogRecord::UndoInfo(_) => None,
        LogRecord::NewPage(new) => Some((new.procid, new.after)),
        _ => record.page_change().map(|change| (change.procid, change.after)),
    }
}
