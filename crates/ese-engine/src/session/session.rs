//! A session: transactions, and the tables opened and defined in them.

use ese_format::{LogPosition, TreeId};
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU64, Ordering};

use super::number::SessionNumber;
use crate::database::Database;
use crate::table::{self, IndexDefinition, TableDefinition};
use crate::transaction::{ActiveTransaction, TransactionHost, View};
use crate::{Error, Result};

/// When a commit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitMode {
    /// When it survives a crash.
    Durable,
    /// At once; a crash may undo it, but never without undoing all later ones too. ESE: `JET_bitCommitLazyFlush`.
    Lazy,
}

/// Names a commit: it survives a crash once the log is durable up to here. [`LogPosition::MIN`] if nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommitId(pub LogPosition);

/// What one thread of a program does. ESE: `JET_SESID`.
#[doc(alias = "JET_SESID")]
pub struct Session {
    pub(crate) active: ActiveTransaction,
    /// No other session of the process has had it, unlike the number in the log, which comes again.
    id: SessionId,
    /// Counts everything that may change what the session sees.
    changes: u64,
    /// Definitions changed in the running transaction.
    definitions: Vec<Definition>,
    /// Given back last: what is still to be rolled back is rolled back by then.
    _number: SessionNumber,
}

/// Tells sessions apart: open tables are bound to one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionId(u64);

impl SessionId {
    fn next() -> SessionId {
        static LAST: AtomicU64 = AtomicU64::new(0);
        SessionId(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

struct Definition {
    /// Of the transaction; a commit of a nested level makes it less.
    level: u8,
    db: Arc<Database>,
    table: TreeId,
    /// The table is new.
    created: bool,
}

impl Definition {
    /// The level is about to be rolled back.
    fn roll_back(&self) {
        match self.created {
            true => self.db.tables.roll_back_creation(self.table),
            false => self.db.tables.roll_back_change(self.table),
        }
    }
}

impl Session {
    pub(crate) fn new(host: Arc<dyn TransactionHost>, number: SessionNumber) -> Session {
        let active = ActiveTransaction::new(host, number.get());
        Session { active, id: SessionId::next(), changes: 0, definitions: Vec::new(), _number: number }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Begins a transaction, or a nested one that can be rolled back on its own; at most 7 deep, and statements
    /// need one level themselves.
    pub fn begin(&mut self) -> Result<()> {
        self.touched();
        self.active.begin()
    }

    /// Commits the innermost level; `mode` matters at the outermost. After an error from a durable commit that is
    /// not of [`Session::level`] 0, the transaction is still open.
    pub fn commit(&mut self, mode: CommitMode) -> Result<CommitId> {
        self.touched();
        let end = self.active.commit()?;
        let level = self.active.level();
        if level == 0 {
            self.definitions.clear();
        }
        self.definitions.iter_mut().for_each(|one| one.level = level.min(one.level));
        let Some(end) = end else { return Ok(CommitId(LogPosition::MIN)) };
        if mode == CommitMode::Durable {
            self.active.services().log().commit(end)?;
        }
        Ok(CommitId(end))
    }

    /// Takes back everything since the innermost begin. After an error that level is still there, half taken back: rollback
    /// may be repeated, for example when a page can be read again, and changes and commits are refused. A session that is
    /// dropped like that tries once more; if it fails again the instance refuses further changes ([`Error::ReadOnly`]),
    /// what can be read can be read as before, and the next [`Instance::open`](crate::Instance::open) rolls back.
    pub fn rollback(&mut self) -> Result<()> {
        self.touched();
        let level = self.active.level();
        let first = self.definitions.partition_point(|one| one.level < level);
        self.definitions[first..].iter().for_each(Definition::roll_back);
        // After an error they are known when it is repeated.
        self.active.rollback()?;
        self.definitions.truncate(first);
        Ok(())
    }

    /// Nesting depth; 0 outside a transaction.
    pub fn level(&self) -> u8 {
        self.active.level()
    }

    /// Creates a table.
    pub fn create_table(&mut self, db: &Arc<Database>, definition: &TableDefinition) -> Result<()> {
        let table = table::create_table(&mut self.active, &db.tables, definition)?;
        self.defined(db, table, true);
        Ok(())
    }

    /// Creates an index of a table that no session has open, and fills it. Until the transaction ends, the table is
    /// open to this session only.
    pub fn create_index(&mut self, db: &Arc<Database>, table: &str, index: &IndexDefinition) -> Result<()> {
        let table = table::create_index(&mut self.active, &db.tables, table, index)?;
        self.defined(db, table, false);
        Ok(())
    }

    fn defined(&mut self, db: &Arc<Database>, table: TreeId, created: bool) {
        self.definitions.push(Definition { level: self.level(), db: db.clone(), table, created });
    }

    /// Names of the tables, in their order without regard to case.
    pub fn tables(&self, db: &Arc<Database>) -> Result<Vec<String>> {
        db.tables.system.names(&self.active.view())
    }

    /// Fails if the database is attached to another instance.
    pub(super) fn check_same_instance(&self, db: &Database) -> Result<()> {
        match Arc::ptr_eq(&db.trees.versions, &self.active.services().versions) {
            true => Ok(()),
            false => Err(Error::Usage(format!("{} belongs to another instance", db.path().display()))),
        }
    }

    /// The session may see something else now.
    pub(crate) fn touched(&mut self) {
        self.changes += 1;
    }

    /// Runs `work` under one view. Its second argument tells states apart in which the session sees the same;
    /// outside transactions that is never sure.
    pub(crate) fn reading<T>(&mut self, work: impl FnOnce(&View, Option<u64>) -> Result<T>) -> Result<T> {
        if self.active.level() > 0 {
            return work(&self.active.view(), Some(self.changes));
        }
        // A registered snapshot keeps what the work reads from being cleaned up meanwhile.
        self.active.begin()?;
        let done = work(&self.active.view(), None);
        self.active.commit()?;
        done
    }
}

impl Drop for Session {
    /// The transaction rolls itself back when it is dropped next.
    fn drop(&mut self) {
        self.definitions.iter().for_each(Definition::roll_back);
    }
}
