//! Redo: bringing pages to where the log ends, and collecting what unfinished transactions did.
//!
//! A record applies to a page exactly when the page's dbtime is the record's time before; a page at or past the
//! time after has the change already; anything else is damage and ends recovery. Pages that a record formats
//! from nothing are formatted whenever they are older. Records between MacroBegin and MacroCommit wait for the
//! commit; a macro that the log cuts off never happened.
//!
//! So the changes of a page depend on nothing but the page and the log, and only their order on that page matters.
//! Redo gathers a window of the log in its order, with what transactions did, and then brings the pages forward in
//! theirs ([`pass`]). What only a page can tell about a change (before-images, keys of deleted nodes) is known when
//! that is done; a record that needs it ends the window before it, as does what attaches or detaches a database.

mod page_redo;
mod page_replay;
mod pending_before_images;
mod unfinished_transactions;

use std::collections::BTreeMap;

use ese_format::log::record::{LogRecord, NodeChange, PageChange, Undo, operation};
use ese_format::{DbTime, LogPosition, PageNumber};
use jetcell_sync::Arc;

use self::page_redo::{PageRedo, formats, pages_of, versioned};
use self::page_replay::{PageReplay, ReplayOutcome};
pub(crate) use self::unfinished_transactions::UndoInfos;
use self::unfinished_transactions::{Act, OpenTransaction, bookmark_of};
use super::replay_window::{BufferedRecord, Payloads};
use crate::cache::{FileId, MemoryGrant};
use crate::core::Core;
use crate::log::LogReader;
use crate::storage::DatabaseFile;
use crate::transaction::{Change, Transaction};
use crate::{Error, Result};

/// Redo in progress.
pub(crate) struct Redo {
    core: Arc<Core>,
    log: Arc<LogReader>,
    /// Threads that bring pages forward.
    threads: usize,
    infos: UndoInfos,
    /// The cache's memory that the window is in; goes back as the window shrinks, but for so many bytes.
    grant: MemoryGrant,
    pub reserved: usize,
    transactions: BTreeMap<u16, OpenTransaction>,
    macros: BTreeMap<u16, Vec<BufferedRecord>>,
    /// The last plain replace: an Undo record of a replace right behind it finds its data restored.
    restored: Option<PlainReplace>,
    window: Window,
    newest_number: u64,
    newest_id: u32,
    /// Records looked at, page changes that had to be made, and those kept for pages that were not read.
    pub records: u64,
    pub applied: u64,
    pub deferred: u64,
}

/// Records whose pages have not been brought forward yet.
#[derive(Default)]
struct Window {
    steps: Vec<RedoRecord>,
    touches: Vec<PageRedo>,
    /// What files must hold.
    last: BTreeMap<FileId, PageNumber>,
    /// Transactions that ended, whether and where they committed, and where they ended.
    ended: Vec<(OpenTransaction, LogPosition)>,
}

/// A plain replace, which may be the first half of an undo.
#[derive(Clone, Copy)]
struct PlainReplace {
    database: u8,
    page: PageNumber,
    after: DbTime,
    start: LogPosition,
}

/// A record that changes pages.
struct RedoRecord {
    kept: BufferedRecord,
    /// Where redo must begin while a page lacks the change: the record alone may not be enough.
    needs_from: LogPosition,
    /// Who made a versioned change.
    transaction: Option<Arc<Transaction>>,
    /// What an Undo record takes back, unless the data are restored already.
    undoes: Option<Change>,
}

impl RedoRecord {
    fn decode(&self, log: &LogReader) -> Result<LogRecord> {
        super::decode(log, &self.kept)
    }
}

impl Redo {
    pub fn new(
        core: Arc<Core>,
        log: Arc<LogReader>,
        threads: usize,
        infos: UndoInfos,
        grant: MemoryGrant,
    ) -> Redo {
        // An id that an UndoInfo record has must never get another meaning behind it.
        let newest_id = infos.last_key_value().map_or(0, |(id, _)| *id);
        Redo {
            core,
            log,
            threads,
            infos,
            grant,
            reserved: 0,
            transactions: BTreeMap::new(),
            macros: BTreeMap::new(),
            restored: None,
            window: Window::default(),
            newest_number: 0,
            newest_id,
            records: 0,
            applied: 0,
            deferred: 0,
        }
    }

    /// Takes the next record. Attach, detach and create records are the caller's. What it does to pages is done by
    /// [`Redo::run`], which gets the payloads of all records taken since the last time.
    pub fn record(&mut self, kept: BufferedRecord, record: LogRecord, payloads: &Payloads) -> Result<()> {
        self.records += 1;
        match &record {
            LogRecord::MacroBegin(begin) => {
                self.macros.insert(begin.procid, Vec::new());
                return Ok(());
            }
            LogRecord::MacroAbort(abort) => {
                self.macros.remove(&abort.procid);
                return Ok(());
            }
            LogRecord::MacroCommit(commit) => {
                for kept in self.macros.remove(&commit.procid).unwrap_or_default() {
                    let record = super::decode(&self.log, &kept)?;
                    self.take(kept, &record, payloads)?;
                }
                return Ok(());
            }
            // What a crash cut off stays cut off; recovery goes on under the same session numbers.
            LogRecord::RecoveryUndo2(_) | LogRecord::Init2(_) => self.macros.clear(),
            _ => {}
        }
        if let Some(procid) = procid_of(&record)
            && let Some(waiting) = self.macros.get_mut(&procid)
        {
            waiting.push(kept);
            return Ok(());
        }
        self.take(kept, &record, payloads)
    }

    fn take(&mut self, kept: BufferedRecord, record: &LogRecord, payloads: &Payloads) -> Result<()> {
        let (start, end) = (kept.start, kept.end);
        // Databases that were shut down cleanly later on are not attached: their files have all of this. Nor are those
        // that are missed: either they will have been detached, or redo fails in the end.
        if record.database().is_some_and(|id| self.attached(id.0).is_none()) {
            return Ok(());
        }
        let (mut undoes, mut needs_from) = (None, start);
        match record {
            LogRecord::Begin0(begin) => {
                self.newest_number = self.newest_number.max(u64::from(begin.begin0));
                let open = OpenTransaction {
                    transaction: Transaction::new(u64::from(begin.begin0)),
                    begun: start,
                    level: begin.levels.count().max(1),
                    acts: Vec::new(),
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
                    // At once: what is committed needs no before-image.
                    open.transaction.set_committed(u64::from(commit.commit0), end);
                    open.acts.retain(|act| matches!(act, Act::Node(act) if act.may_leave_a_node()));
                    self.window.ended.push((open, end));
                }
            }
            LogRecord::Rollback(rollback) => {
                if let Some(open) = self.transactions.get_mut(&rollback.procid) {
                    open.level = open.level.saturating_sub(rollback.levels);
                    if open.level == 0
                        && let Some(open) = self.transactions.remove(&rollback.procid)
                    {
                        self.window.ended.push((open, end));
                    }
                }
            }
            LogRecord::Undo(undo) => {
                let of_replace = undo.operation == operation::REPLACE;
                let restored =
                    self.restored.filter(|restored| of_replace && restored.is_right_before(&undo.node.page));
                match restored {
                    Some(restored) => needs_from = restored.start,
                    // The before-image may be on a page.
                    None if of_replace => self.run(payloads)?,
                    None => {}
                }
                undoes = self.undone(undo).filter(|_| restored.is_none());
            }
            // All transactions were over when the engine wrote these.
            LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) | LogRecord::RecoveryQuitKeepAttachments(_) => {
                self.transactions.clear()
            }
            LogRecord::ExtendDb(extend) => {
                let file = self.database(extend.database.0)?.file_id;
                self.window.must_hold(file, extend.last);
            }
            _ => {}
        }
        self.change(RedoRecord { kept, needs_from, transaction: None, undoes }, record)
    }

    /// Takes what a record does to pages into the window.
    fn change(&mut self, mut step: RedoRecord, record: &LogRecord) -> Result<()> {
        let (pages, after) = pages_of(record);
        let Some(change) = record.page_change().filter(|_| !pages.is_empty()) else { return Ok(()) };
        let database = self.database(change.database.0)?;
        if let LogRecord::Split2(split) = record
            && split.new_page.is_none()
        {
            return Err(corrupt_page(&database, change.page, "split without new page"));
        }
        database.time_used(after);
        let number = self.window.steps.len() as u32;
        for (page, role) in pages {
            let key = database.page_key(page);
            if formats(record, role) {
                self.window.must_hold(key.file, page);
            }
            self.window.touches.push(PageRedo { key, after, step: number, role });
        }
        self.did(&database, record, number, step.kept.start);
        step.transaction = self.transactions.get(&change.procid).map(|open| open.transaction.clone());
        self.window.steps.push(step);
        Ok(())
    }

    /// Remembers what a record says that its transaction did.
    fn did(&mut self, database: &Arc<DatabaseFile>, record: &LogRecord, step: u32, start: LogPosition) {
        if let Some(node) = record.node_change() {
            self.newest_id = self.newest_id.max(node.rceid);
        }
        match record {
            LogRecord::Insert(insert) => {
                let bookmark = bookmark_of(&insert.node, &insert.key(), &insert.data);
                self.remember(&insert.node, Some(bookmark), Change::Insert, None);
            }
            LogRecord::FlagInsert(revive) => {
                let bookmark = bookmark_of(&revive.node, &revive.key, &revive.data);
                self.remember(&revive.node, Some(bookmark), Change::Insert, None);
            }
            LogRecord::FlagInsertAndReplaceData(revive) => {
                let bookmark = Some(bookmark_of(&revive.node, &revive.key, &revive.data));
                self.newest_id = self.newest_id.max(revive.replace_rceid);
                let replaced = NodeChange { rceid: revive.replace_rceid, ..revive.node };
                self.remember(&replaced, bookmark.clone(), Change::ReplaceUnknown, Some(step));
                self.remember(&revive.node, bookmark, Change::Insert, None);
            }
            // The record names only the line. If the page has moved on, an UndoInfo record has the key.
            LogRecord::FlagDelete(delete) => {
                self.remember(&delete.node, None, Change::FlagDelete, Some(step));
            }
            LogRecord::Replace(replace) => {
                let PageChange { database, page, after, .. } = replace.node.page;
                if !versioned(&replace.node) {
                    self.restored = Some(PlainReplace { database: database.0, page, after, start });
                }
                self.remember(&replace.node, None, Change::ReplaceUnknown, Some(step));
            }
            LogRecord::SetExternalHeader(set) if set.data.is_empty() => {
                // The creation of a tree was taken back: what was done in it needs no undo nor cleanup any more.
                if let Some(open) = self.transactions.get_mut(&set.node.page.procid) {
                    let gone = (set.node.page.database.0, set.node.page.page);
                    open.acts.retain(|act| match act {
                        Act::Node(act) => (act.database, act.root) != gone,
                        Act::Tree { database, root } => (*database, *root) != gone,
                    });
                }
            }
            LogRecord::CreateMultiExtentFdp(create) => {
                let change = create.change;
                database.tree_id_used(create.tree);
                if let Some(open) = self.transactions.get_mut(&change.procid) {
                    open.acts.push(Act::Tree { database: change.database.0, root: change.page });
                }
            }
            _ => {}
        }
    }

    /// Notes that a change was taken back, and tells what it was.
    fn undone(&mut self, undo: &Undo) -> Option<Change> {
        let node = undo.node;
        let acts = self.transactions.get_mut(&node.page.procid).map(|open| open.acts.iter_mut().rev());
        let remembered = acts.into_iter().flatten().find_map(|act| match act {
            Act::Node(act) if act.id == node.rceid && !act.undone => Some(act),
            _ => None,
        });
        if let Some(act) = remembered {
            act.undone = true;
            act.key = [&undo.key[..], &undo.bookmark_data].concat();
            act.key_len = undo.key.len();
            return Some(act.change.clone());
        }
        Some(match undo.operation {
            operation::INSERT => Change::Insert,
            operation::FLAG_DELETE => Change::FlagDelete,
            _ => Change::ReplaceUnknown,
        })
    }

    /// Brings the pages of all records taken so far forward.
    pub fn run(&mut self, payloads: &Payloads) -> Result<()> {
        let Window { steps, mut touches, last, ended } = std::mem::take(&mut self.window);
        for (file, page) in last {
            if let Some(database) = self.core.file(file) {
                database.grow_file(page)?;
            }
        }
        // Stable: the order of the log stays for each page.
        touches.sort_by_key(|touch| touch.key);
        let memory = (&self.grant, self.reserved);
        let mut pass = PageReplay::new(&self.core, &steps, payloads, &self.log, memory);
        let result = pass.run(&touches, self.threads);
        let ReplayOutcome { mut found, applied, deferred } = pass.tally;
        self.applied += applied;
        self.deferred += deferred;
        result?;
        self.transactions.values_mut().for_each(|open| open.learn(&mut found));
        for (mut open, end) in ended {
            open.learn(&mut found);
            if open.transaction.is_running() {
                open.transaction.set_rolled_back();
            }
            self.settle(open, end)?;
        }
        Ok(())
    }

    fn attached(&self, log_id: u8) -> Option<Arc<DatabaseFile>> {
        self.core.file_in_log(log_id)
    }

    fn database(&self, log_id: u8) -> Result<Arc<DatabaseFile>> {
        self.attached(log_id).ok_or_else(|| Error::Corrupt {
            path: "log".into(),
            page: None,
            what: format!("log names database {log_id}, which is not attached"),
        })
    }
}

impl PlainReplace {
    fn is_right_before(&self, change: &PageChange) -> bool {
        (self.database, self.page, self.after) == (change.database.0, change.page, change.before)
    }
}

impl Window {
    fn must_hold(&mut self, file: FileId, page: PageNumber) {
        let last = self.last.entry(file).or_insert(page);
        *last = page.max(*last);
    }
}

fn corrupt_page(database: &DatabaseFile, page: PageNumber, what: &str) -> Error {
    Error::Corrupt { path: database.path.clone(), page: Some(page), what: format!("page {page}: {what}") }
}

/// The session a record belongs to, if macros can hold it back.
fn procid_of(record: &LogRecord) -> Option<u16> {
    Some(match record {
        LogRecord::Begin(r) => r.procid,
        LogRecord::Begin0(r) => r.procid,
        LogRecord::Insert(r) => r.node.page.procid,
        LogRecord::FlagInsert(r) => r.node.page.procid,
        LogRecord::FlagInsertAndReplaceData(r) => r.node.page.procid,
        LogRecord::FlagDelete(r) => r.node.page.procid,
        LogRecord::Replace(r) => r.node.page.procid,
        LogRecord::Delete(r) => r.node.page.procid,
        LogRecord::SetExternalHeader(r) => r.node.page.procid,
        LogRecord::Split2(r) => r.change.procid,
        LogRecord::Merge2(r) => r.change.procid,
        LogRecord::EmptyTree(r) => r.node.page.procid,
        LogRecord::CreateMultiExtentFdp(r) => r.change.procid,
        LogRecord::ConvertFdp2(r) => r.change.procid,
        _ => return None,
    })
}
