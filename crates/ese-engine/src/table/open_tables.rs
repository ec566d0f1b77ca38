//! Tracks which tables of a database are in use, and decides which sessions may open them.
//!
//! Tables are identified by their tree ids, which are never reused. The state of a table corresponds to the newest
//! view.
//!
//! Invariants: while a session changes the definition of a table, no other session can open the table until that
//! transaction has ended. Nor can a session whose snapshot is older than the commit of the change. The entry that
//! records such changes is removed only with the table.

use jetcell_sync::Arc;
use std::collections::HashMap;

use ese_format::TreeId;
use jetcell_sync::Mutex;

use super::TableState;
use crate::catalog::SystemTables;
use crate::transaction::{CommitNumber, ReadView, Services, Transaction};
use crate::{Error, Result, UsageError};

/// The tables in use in one database. ESE: the hash of `FCB`s.
pub(crate) struct OpenTables {
    pub system: Arc<SystemTables>,
    tables: Mutex<HashMap<TreeId, OpenTableEntry>>,
}

struct OpenTableEntry {
    /// State of the table. If it becomes invalid, the next session to open the table replaces it.
    state: Arc<TableState>,
    /// Transaction that last changed the definition, or is changing it.
    altered_by: Option<Arc<Transaction>>,
    /// Commit number of the last change before that transaction. 0 if there has been no change since the database was
    /// attached.
    altered_in: CommitNumber,
}

impl OpenTableEntry {
    fn new(state: Arc<TableState>) -> OpenTableEntry {
        OpenTableEntry { state, altered_by: None, altered_in: 0 }
    }

    /// Fails while another session is changing the definition, and for snapshots that are older than the last change to
    /// the definition. The entries of a new index are not visible in such a snapshot, and changes made without the
    /// index would be missing from it.
    fn check(&self, view: &ReadView) -> Result<()> {
        let rolled_back = |by: &Transaction| !by.is_running() && by.committed().is_none();
        let settled = self.altered_by.as_ref().is_none_or(|by| view.sees(by) || rolled_back(by));
        if settled && self.altered_in < view.snapshot { Ok(()) } else { Err(Error::WriteConflict) }
    }

    fn set_state(&mut self, state: Arc<TableState>) {
        state.continue_numbering_from(&self.state);
        self.state.invalidate();
        self.state = state;
    }
}

impl OpenTables {
    pub fn new(system: Arc<SystemTables>) -> OpenTables {
        OpenTables { system, tables: Mutex::default() }
    }

    /// Opens the table with this name. The table and its current definition must be visible in `view`.
    pub fn open(&self, services: &Services, view: &ReadView, name: &str) -> Result<Arc<TableState>> {
        let missing =
            || Error::NoTable { database: self.system.trees.file.path.clone(), name: name.to_string() };
        let id = self.system.find(view, name)?.ok_or_else(missing)?;
        let make = |view: &ReadView| {
            let schema = self.system.schema(view, id)?.ok_or_else(missing)?;
            TableState::new(&self.system, schema).map(Arc::new)
        };
        match self.known(id, view) {
            Ok(Some(state)) => Ok(state),
            // All sessions will share this state, so it is created from the latest view and not from an old snapshot.
            Ok(None) => {
                self.enter(id, make(&ReadView { own: view.own.clone(), ..ReadView::latest() })?, view)
            }
            // A change whose rollback failed blocks the table forever. In that case, however, nothing can be changed
            // any more, so a private state is safe for the session.
            Err(_) if services.check_writable().is_err() => make(view),
            Err(error) => Err(error),
        }
    }

    fn known(&self, id: TreeId, view: &ReadView) -> Result<Option<Arc<TableState>>> {
        let tables = self.tables.lock();
        let Some(entry) = tables.get(&id) else { return Ok(None) };
        entry.check(view)?;
        Ok(Some(entry.state.clone()).filter(|state| state.check().is_ok()))
    }

    /// Adds a state that was created because [`OpenTables::known`] found none. If another session has added one in
    /// the meantime, that state is returned instead. A transaction that has changed the definition in the meantime is
    /// not visible in `view`.
    fn enter(&self, id: TreeId, state: Arc<TableState>, view: &ReadView) -> Result<Arc<TableState>> {
        let mut tables = self.tables.lock();
        let entry = tables.entry(id).or_insert_with(|| OpenTableEntry::new(state.clone()));
        entry.check(view)?;
        if entry.state.check().is_err() {
            entry.set_state(state);
        }
        Ok(entry.state.clone())
    }

    /// Reserves a table for a change to its definition. Fails while another session has the table open.
    pub fn begin_change(&self, id: TreeId, transaction: &Arc<Transaction>) -> Result<()> {
        let mut tables = self.tables.lock();
        let Some(entry) = tables.get_mut(&id) else { return Ok(()) };
        // One reference belongs to the entry, and one to the caller.
        if Arc::strong_count(&entry.state) > 2 {
            return Err(UsageError::TableOpen(entry.state.schema.name.clone()).into());
        }
        if let Some(number) = entry.altered_by.as_ref().and_then(|by| by.committed()) {
            entry.altered_in = number;
        }
        entry.altered_by = Some(transaction.clone());
        Ok(())
    }

    pub fn changed(&self, id: TreeId, state: Arc<TableState>) {
        if let Some(entry) = self.tables.lock().get_mut(&id) {
            entry.set_state(state);
        }
    }

    /// Invalidates the state before a change to the definition is rolled back, because no session may use the results
    /// of the change. The table stays reserved until the transaction has ended.
    pub fn roll_back_change(&self, id: TreeId) {
        if let Some(entry) = self.tables.lock().get(&id) {
            entry.state.invalidate();
        }
    }

    /// Invalidates and removes the state before the creation of the table is rolled back.
    pub fn roll_back_creation(&self, id: TreeId) {
        if let Some(entry) = self.tables.lock().remove(&id) {
            entry.state.invalidate();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ese_format::PageSize;
    use ese_format::record::ColumnType;
    use jetcell_vfs::SimVfs;

    use super::*;
    use crate::btree::tests::open;
    use crate::table::{ColumnDefinition, IndexDefinition, TableDefinition};
    use crate::{CommitMode, DatabaseOptions};

    #[test]
    fn a_definition_read_before_a_change_is_not_used_after_it() {
        let instance = open(&SimVfs::new(), PageSize::KIB_4, 64).unwrap();
        let db = instance.create_database(Path::new("/db/test.edb"), &DatabaseOptions::default()).unwrap();
        let [mut changing, opening] = [(); 2].map(|()| instance.session());
        let columns = vec![ColumnDefinition::new("Id", ColumnType::Long)];
        let definition = TableDefinition { name: "T".into(), columns, ..TableDefinition::default() };
        changing.begin().unwrap();
        changing.create_table(&db, &definition).unwrap();
        changing.commit(CommitMode::Lazy).unwrap();

        let early = opening.active.view();
        let system = &db.tables.system;
        let id = system.find(&early, "T").unwrap().unwrap();
        assert!(db.tables.known(id, &early).unwrap().is_none());
        let schema = system.schema(&ReadView::latest(), id).unwrap().unwrap();
        let enter = |view: &ReadView| {
            let state = Arc::new(TableState::new(system, schema.clone()).unwrap());
            db.tables.enter(id, state, view).map(|state| state.indexes.len())
        };
        changing.begin().unwrap();
        changing.create_index(&db, "T", &IndexDefinition::new("ById", &["Id"])).unwrap();
        assert!(matches!(enter(&early), Err(Error::WriteConflict)), "reserved");
        changing.commit(CommitMode::Lazy).unwrap();
        assert!(matches!(enter(&early), Err(Error::WriteConflict)), "committed since");
        assert_eq!(enter(&opening.active.view()).unwrap(), 1);
    }
}
