//! The transaction of one session: levels, what it changed, and what it has told the log so far.
//!
//! Invariants: Begin records are logged with the first change, so a transaction that only reads leaves no trace;
//! from before that until its commit record is durable and its deletions are cleaned up, the checkpoint stays at
//! or before the Begin record.

use ese_format::log::record::{Begin, Begin0, BeginLevels, Commit, Commit0, LogRecord, Rollback};
use ese_format::page::PageFlags;
use ese_format::{LogPosition, PageNumber};
use jetcell_sync::Arc;

use crate::btree::Tree;
use crate::cleanup::Settled;
use crate::core::Core;
use crate::database::Database;
use crate::log::RecordBatch;
use crate::space::SpaceLock;
use crate::versions::{Change, Hold, Transaction, Version, View};
use crate::{Error, Result};

/// Deepest nesting. ESE: `levelMax`.
pub const MAX_LEVEL: u8 = 7;

/// Something a transaction did that rollback takes back.
pub(crate) enum Done {
    /// A node changed.
    Node(Arc<Tree>, Arc<Version>),
    /// A tree was created.
    Tree(Arc<Database>, PageNumber),
}

impl Done {
    fn version(&self) -> Option<&Arc<Version>> {
        match self {
            Done::Node(_, version) => Some(version),
            Done::Tree(..) => None,
        }
    }
}

struct Running {
    transaction: Arc<Transaction>,
    level: u8,
    logged_level: u8,
    hold: Option<Hold>,
    done: Vec<Done>,
    savepoints: Vec<usize>,
    /// The inserts that a rollback has taken back, from its begin until it succeeds: after a failure it can only be
    /// repeated, and must not forget them.
    half_undone: Option<Vec<Done>>,
    /// The innermost levels are those of statements that failed and could not be taken back: nobody but them knows that
    /// they exist, and the next rollback takes them back first.
    owed: u8,
}

impl Running {
    /// Fails after a failed rollback: what is half taken back must not be committed.
    fn check_whole(&self) -> Result<()> {
        match self.half_undone {
            None => Ok(()),
            Some(_) => Err(Error::Usage("a rollback failed; repeat it".to_string())),
        }
    }
}

/// A session's transaction state. ESE: `PIB`.
#[doc(alias = "PIB")]
pub struct ActiveTransaction {
    pub(crate) core: Arc<Core>,
    procid: u16,
    running: Option<Running>,
    /// Memory for the records of one change.
    records: RecordBatch,
    /// Memory for one row, while no statement uses it.
    pub(crate) row: Vec<u8>,
}

impl ActiveTransaction {
    pub(crate) fn new(core: Arc<Core>, procid: u16) -> ActiveTransaction {
        ActiveTransaction { core, procid, running: None, records: RecordBatch::new(), row: Vec::new() }
    }

    /// Continues a transaction that a crash cut off, so that recovery can roll it back.
    pub(crate) fn resumed(
        core: Arc<Core>,
        procid: u16,
        transaction: Arc<Transaction>,
        level: u8,
        hold: Hold,
        done: Vec<Done>,
    ) -> ActiveTransaction {
        let level = level.max(1);
        let savepoints = vec![0; usize::from(level)];
        let running = Running {
            transaction,
            level,
            logged_level: level,
            hold: Some(hold),
            done,
            savepoints,
            half_undone: None,
            owed: 0,
        };
        ActiveTransaction {
            core,
            procid,
            running: Some(running),
            records: RecordBatch::new(),
            row: Vec::new(),
        }
    }

    /// Session number in log records.
    pub fn procid(&self) -> u16 {
        self.procid
    }

    /// Nesting depth; 0 outside a transaction. A failed statement has no level of its own any more.
    pub fn level(&self) -> u8 {
        self.running.as_ref().map_or(0, |running| running.level - running.owed)
    }

    /// What the session may see now.
    pub fn view(&self) -> View {
        match &self.running {
            Some(running) => {
                View { own: Some(running.transaction.clone()), snapshot: running.transaction.snapshot }
            }
            None => View { own: None, snapshot: self.core.transactions.now() },
        }
    }

    /// Begins a transaction, or a nested one that can be rolled back on its own.
    pub fn begin(&mut self) -> Result<()> {
        match &mut self.running {
            None => {
                let transaction = self.core.transactions.begin();
                self.running = Some(Running {
                    transaction,
                    level: 1,
                    logged_level: 0,
                    hold: None,
                    done: Vec::new(),
                    savepoints: vec![0],
                    half_undone: None,
                    owed: 0,
                });
            }
            Some(running) if running.level < MAX_LEVEL => {
                running.check_whole()?;
                running.level += 1;
                running.savepoints.push(running.done.len());
            }
            Some(_) => return Err(Error::Usage(format!("transactions nest at most {MAX_LEVEL} deep"))),
        }
        Ok(())
    }

    /// Commits the innermost level. At the outermost, everything becomes visible; the result is where the commit
    /// record ends, the commit id: the commit is durable once the log is durable up to there. `None` when there
    /// was nothing to log.
    pub fn commit(&mut self) -> Result<Option<LogPosition>> {
        let procid = self.procid;
        let running = self.running.as_mut().ok_or_else(no_transaction)?;
        running.check_whole()?;
        if running.level > 1 {
            if running.logged_level == running.level {
                let record = LogRecord::Commit(Commit { procid, level: running.level - 1 });
                self.core.append(&[record])?;
                running.logged_level -= 1;
            }
            running.level -= 1;
            running.savepoints.pop();
            return Ok(None);
        }
        let mut end = None;
        if running.logged_level > 0 {
            let core = &self.core;
            let batch = &mut self.records;
            let record = |number| LogRecord::Commit0(Commit0 { procid, level: 0, commit0: number });
            batch.clear();
            batch.push(&record(0));
            let (number, position) = core.log().append_with(batch.len(), true, |appender| {
                core.transactions.commit(&running.transaction, |number| {
                    batch.clear();
                    batch.push(&record(number as u32));
                    Ok::<_, Error>(appender.append(batch).end)
                })
            })??;
            end = Some(position);
            let done = std::mem::take(&mut running.done);
            core.versions.end_replaces(done.iter().filter_map(Done::version));
            core.cleanup.push(Settled::new(number, position, running.hold.take(), done));
        }
        core_end(&self.core, running);
        self.running = None;
        Ok(end)
    }

    /// Takes back everything since the innermost begin. If this fails (log down, a page that cannot be read) the level is
    /// still there, half taken back, and rollback may be repeated; nothing else can be done in it. If the transaction is
    /// dropped like that, the instance refuses further changes and recovery will do it.
    pub fn rollback(&mut self) -> Result<()> {
        while self.running.as_ref().is_some_and(|running| running.owed > 0) {
            self.rollback_level()?;
            self.running.iter_mut().for_each(|running| running.owed -= 1);
        }
        self.rollback_level()
    }

    /// Takes back the level of a statement that failed. If that fails too, it is left to the next rollback: the level is
    /// none that the caller has begun, so it must not have to be rolled back by itself.
    pub(crate) fn rollback_statement(&mut self) -> Result<()> {
        let result = self.rollback();
        if result.is_err() {
            self.running.iter_mut().for_each(|running| running.owed += 1);
        }
        result
    }

    fn rollback_level(&mut self) -> Result<()> {
        let running = self.running.as_mut().ok_or_else(no_transaction)?;
        let savepoint = running.savepoints.last().copied().unwrap_or(0);
        let inserts = running.half_undone.get_or_insert_default();
        while running.done.len() > savepoint {
            let Some(done) = running.done.pop() else { break };
            if let Err(error) = undo(&done, self.procid, &running.transaction, running.level) {
                running.done.push(done);
                return Err(error);
            }
            if let Done::Node(_, version) = &done
                && version.change == Change::Insert
            {
                inserts.push(done);
            }
        }
        let mut end = LogPosition::MIN;
        if running.logged_level == running.level {
            let record = LogRecord::Rollback(Rollback { procid: self.procid, levels: 1 });
            end = self.core.append(&[record])?.1;
            running.logged_level -= 1;
        }
        let revived = running.half_undone.take().unwrap_or_default();
        let outermost = running.level == 1;
        // Undone inserts leave nodes flagged deleted; they go as soon as no snapshot needs what was before.
        let hold = if outermost { running.hold.take() } else { None };
        let own_hold = match (hold, running.hold) {
            (None, Some(hold)) if !revived.is_empty() => Some(self.core.transactions.hold_again(hold)),
            (hold, _) => hold,
        };
        let newest_snapshot = self.core.transactions.now() - 1;
        self.core.cleanup.push(Settled::new(newest_snapshot, end, own_hold, revived));
        if outermost {
            running.transaction.set_rolled_back();
            core_end(&self.core, running);
            self.running = None;
        } else {
            running.level -= 1;
            running.savepoints.pop();
        }
        Ok(())
    }

    /// Creates an empty tree inside the one at `parent`; rollback gives its pages back. ESE: creating an `FDP`.
    pub(crate) fn create_tree(
        &mut self,
        db: &Arc<Database>,
        parent: PageNumber,
        kind: PageFlags,
        pages: u32,
    ) -> Result<Arc<Tree>> {
        let (prologue, ..) = self.prologue()?;
        let id = db.next_tree_id();
        let kind = kind | PageFlags::NEW_RECORD;
        let root = SpaceLock::new(db).create_tree(self.procid, parent, id, kind, pages, |group| {
            prologue.iter().for_each(|record| group.record(record.clone()));
        })?;
        self.did(Done::Tree(db.clone(), root));
        Ok(db.tree(root, id, kind))
    }

    /// Whether the instance takes another change, and the version store has room for it. Asked before anything that may
    /// conflict: who meets what could not be rolled back would retry for ever. May wait; no latch may be held.
    pub(crate) fn check_change(&self) -> Result<()> {
        let core = &self.core;
        core.check_writable()?;
        match &self.running {
            Some(running) if core.versions.is_nearly_full() => {
                core.cleanup.make_room(core, &running.transaction)
            }
            _ => Ok(()),
        }
    }

    /// The record that must come before the transaction's next change, if any, and the identity the change carries.
    pub(crate) fn prologue(&mut self) -> Result<(Option<LogRecord>, Arc<Transaction>, u8)> {
        let procid = self.procid;
        let core = &self.core;
        core.check_writable()?;
        let running = self.running.as_mut().ok_or_else(no_transaction)?;
        running.check_whole()?;
        let mut record = None;
        if running.logged_level == 0 {
            if running.hold.is_none() {
                running.hold = Some(core.transactions.hold_checkpoint(core.log().tail()));
            }
            let begin0 = running.transaction.snapshot as u32;
            let levels = BeginLevels::new(0, running.level);
            record = Some(LogRecord::Begin0(Begin0 { procid, levels, begin0 }));
        } else if running.logged_level < running.level {
            let levels = BeginLevels::new(running.logged_level, running.level - running.logged_level);
            record = Some(LogRecord::Begin(Begin { procid, levels }));
        }
        Ok((record, running.transaction.clone(), running.level))
    }

    /// A batch for the records of the next change, with its prologue.
    pub(crate) fn records(&mut self, prologue: Option<LogRecord>) -> &mut RecordBatch {
        self.records.clear();
        prologue.iter().for_each(|record| self.records.push(record));
        &mut self.records
    }

    /// The change, and the prologue before it, are in the log.
    pub(crate) fn did(&mut self, done: Done) {
        if let Some(running) = &mut self.running {
            running.logged_level = running.level;
            running.done.push(done);
        }
    }
}

fn undo(done: &Done, procid: u16, transaction: &Arc<Transaction>, level: u8) -> Result<()> {
    match done {
        Done::Node(tree, version) => tree.undo(version, procid, transaction, level),
        Done::Tree(db, root) => {
            // Cleanup must not walk into pages that are given away.
            let _paused = db.core.cleanup.pause();
            // Until it is forgotten nobody may create another tree on its pages.
            let space = SpaceLock::new(db);
            space.free_tree(procid, *root)?;
            db.forget_tree(*root);
            Ok(())
        }
    }
}

fn core_end(core: &Core, running: &mut Running) {
    if let Some(hold) = running.hold.take() {
        core.transactions.release_checkpoint(hold);
    }
    core.transactions.end(&running.transaction);
}

fn no_transaction() -> Error {
    Error::Usage("no transaction has begun".to_string())
}

impl Drop for ActiveTransaction {
    fn drop(&mut self) {
        while self.running.is_some() {
            if let Err(error) = self.rollback() {
                // Recovery rolls back what is left, so its hold stays. That must be known before the transaction has ended,
                // or a shutdown would wait for somebody to release it.
                self.core.fail(format!("a transaction could not be rolled back: {}", error.cause()));
                if let Some(running) = self.running.take() {
                    self.core.transactions.end(&running.transaction);
                }
            }
        }
    }
}
