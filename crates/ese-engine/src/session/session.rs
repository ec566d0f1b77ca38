//! A session: its transactions, and the tables that were opened and defined in them.

use ese_format::{LogPosition, TreeId};
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU64, Ordering};

use super::session_number::SessionNumber;
use crate::database::Database;
use crate::table::{self, IndexDefinition, TableDefinition, rows};
use crate::transaction::{ActiveTransaction, ReadView, TransactionHost};
use crate::{Result, UsageError};

/// How durable a commit must be before it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitMode {
    /// The commit returns when it is durable.
    Durable,
    /// The commit returns immediately. A crash may undo the commit, but only together with all later commits. ESE:
    /// `JET_bitCommitLazyFlush`.
    Lazy,
}

/// Identifies a commit. The commit is durable once the log is durable up to this position, which is
/// [`LogPosition::MIN`] if the transaction changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommitId(pub LogPosition);

/// A session: the context in which one program thread works. ESE: `JET_SESID`.
#[doc(alias = "JET_SESID")]
pub struct Session {
    pub(crate) active: ActiveTransaction,
    /// Id that is unique in the process, in contrast to the session's number in the log, which is reused.
    id: SessionId,
    /// Counter that is incremented whenever the data that the session sees may have changed.
    changes: u64,
    /// Definitions changed by the current transaction.
    definitions: Vec<DefinitionChange>,
    /// Must be the last field. Fields are dropped in declaration order, and the number must be freed only after the
    /// transaction has been rolled back.
    _number: SessionNumber,
}

/// Identifies a session. Each open table is bound to one session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionId(u64);

impl SessionId {
    fn next() -> SessionId {
        static LAST: AtomicU64 = AtomicU64::new(0);
        SessionId(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

struct DefinitionChange {
    /// Level of the transaction that owns the change. Committing a nested level lowers this value.
    level: u8,
    db: Arc<Database>,
    table: TreeId,
    /// Whether the change created the table.
    created: bool,
}

impl DefinitionChange {
    /// Marks the table or its changed definition as unusable. Must be called before its level is rolled back.
    fn roll_back(&self) {
        if self.created {
            self.db.tables.roll_back_creation(self.table);
        } else {
            self.db.tables.roll_back_change(self.table);
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

    /// Begins a transaction, or a nested level that can be rolled back separately. At most 7 levels can be open,
    /// including the one that each statement uses.
    pub fn begin(&mut self) -> Result<()> {
        self.touched();
        self.active.begin()
    }

    /// Commits the innermost level. `mode` matters only for the outermost level. If [`Session::level`] is greater
    /// than 0 after an error, the level is still open. If it is 0, the transaction has ended, but a durable commit
    /// did not become durable.
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

    /// Undoes all changes since the innermost `begin`.
    ///
    /// After an error, the level is still open and partly undone, and changes and commits are refused. The rollback may
    /// be repeated, for example once a page can be read again. If the session is dropped in this state, it repeats the
    /// rollback once. If that fails too, the instance refuses further changes ([`crate::Error::ReadOnly`]), but reads
    /// still work. The next [`Instance::open`](crate::Instance::open) then rolls the transaction back.
    pub fn rollback(&mut self) -> Result<()> {
        self.touched();
        let level = self.active.level();
        let first = self.definitions.partition_point(|one| one.level < level);
        self.definitions[first..].iter().for_each(DefinitionChange::roll_back);
        // `definitions` is truncated only after success, because a repeated rollback needs the entries.
        self.active.rollback()?;
        self.definitions.truncate(first);
        Ok(())
    }

    /// Returns the nesting depth of transactions; 0 outside transactions.
    pub fn level(&self) -> u8 {
        self.active.level()
    }

    /// Creates a table.
    pub fn create_table(&mut self, db: &Arc<Database>, definition: &TableDefinition) -> Result<()> {
        let table = table::create_table(&mut self.active, &db.tables, definition)?;
        self.defined(db, table, true);
        Ok(())
    }

    /// Creates and fills an index on a table that no session has open. Until the transaction ends, only this session
    /// can open the table. Each entry is logged; [`Session::bulk_create_index`] is faster for large numbers of
    /// records.
    pub fn create_index(&mut self, db: &Arc<Database>, table: &str, index: &IndexDefinition) -> Result<()> {
        let table = table::create_index(&mut self.active, &db.tables, table, index, rows::fill_index)?;
        self.defined(db, table, false);
        Ok(())
    }

    pub(super) fn defined(&mut self, db: &Arc<Database>, table: TreeId, created: bool) {
        self.definitions.push(DefinitionChange { level: self.level(), db: db.clone(), table, created });
    }

    /// Returns the names of the tables, sorted without regard to case.
    pub fn tables(&self, db: &Arc<Database>) -> Result<Vec<String>> {
        db.tables.system.names(&self.active.view())
    }

    /// Returns an error if the database is attached to another instance.
    pub(super) fn check_same_instance(&self, db: &Database) -> Result<()> {
        if Arc::ptr_eq(&db.trees.versions, &self.active.services().versions) {
            Ok(())
        } else {
            Err(UsageError::OtherInstance(db.path().to_path_buf()).into())
        }
    }

    /// Records that the session may see different data from now on.
    pub(crate) fn touched(&mut self) {
        self.changes += 1;
    }

    /// Runs `work` with a consistent view. The second argument of `work` identifies the state that the session sees:
    /// equal values mean equal states. Outside of transactions it is `None`, because the state may change at any
    /// time.
    pub(crate) fn reading<T>(&mut self, work: impl FnOnce(&ReadView, Option<u64>) -> Result<T>) -> Result<T> {
        if self.active.level() > 0 {
            return work(&self.active.view(), Some(self.changes));
        }
        // A registered snapshot prevents cleanup from removing the versions that `work` reads.
        self.active.begin()?;
        let done = work(&self.active.view(), None);
        self.active.commit()?;
        done
    }
}

impl Drop for Session {
    /// Marks changed definitions as unusable. Dropping the transaction afterwards rolls it back.
    fn drop(&mut self) {
        self.definitions.iter().for_each(DefinitionChange::roll_back);
    }
}
