//! The tables of a database that are in use, and which of them may be opened.
//!
//! Tables are found by tree id, which is never used twice, and known as the newest view sees them.
//!
//! Invariants: a table whose definition is being changed is open to no other session until that transaction ends, and to
//! no session whose snapshot is older than its commit. What is known of a table's changes is forgotten only with the table.

use jetcell_sync::Arc;
use std::collections::HashMap;

use ese_format::TreeId;
use jetcell_sync::Mutex;

use super::TableState;
use crate::catalog::SystemTables;
use crate::transaction::{CommitNumber, Services, Transaction, View};
use crate::{Error, Result};

/// The tables of a database that are in use. ESE: the hash of `FCB`s.
pub(crate) struct OpenTables {
    pub system: Arc<SystemTables>,
    tables: Mutex<HashMap<TreeId, Entry>>,
}

struct Entry {
    /// If it is gone, the next session that opens the table makes another one.
    state: Arc<TableState>,
    /// The transaction that changed the definition last, or changes it now.
    altered_by: Option<Arc<Transaction>>,
    /// The last commit before that which changed it; 0: none since the database was attached.
    altered_in: CommitNumber,
}

impl Entry {
    fn new(state: Arc<TableState>) -> Entry {
        Entry { state, altered_by: None, altered_in: 0 }
    }

    /// Fails while another session changes the definition, and for snapshots from before its last change: they do not see
    /// what a new index was filled with, and changes without an index would be missing from it.
    fn check(&self, view: &View) -> Result<()> {
        let rolled_back = |by: &Transaction| !by.is_running() && by.committed().is_none();
        let settled = self.altered_by.as_ref().is_none_or(|by| view.sees(by) || rolled_back(by));
        match settled && self.altered_in < view.snapshot {
            true => Ok(()),
            false => Err(Error::WriteConflict),
        }
    }

    fn set_state(&mut self, state: Arc<TableState>) {
        state.continue_numbers(&self.state);
        self.state.set_gone();
        self.state = state;
    }
}

impl OpenTables {
    pub fn new(system: Arc<SystemTables>) -> OpenTables {
        OpenTables { system, tables: Mutex::default() }
    }

    /// The table with this name, if `view` sees it and its definition as it is now.
    pub fn open(&self, services: &Services, view: &View, name: &str) -> Result<Arc<TableState>> {
        let path = || self.system.trees.file.path.display();
        let missing = || Error::Usage(format!("{}: there is no table {name:?}", path()));
        let id = self.system.find(view, name)?.ok_or_else(missing)?;
        let make = |view: &View| {
            let schema = self.system.schema(view, id)?.ok_or_else(missing)?;
            TableState::new(&self.system, schema).map(Arc::new)
        };
        match self.known(id, view) {
            Ok(Some(state)) => Ok(state),
            // All sessions will have it, so it is not what only an old snapshot sees.
            Ok(None) => self.enter(id, make(&View { own: view.own.clone(), ..View::latest() })?, view),
            // A change that could not be rolled back would block the table for ever. No session can change anything now.
            Err(_) if services.check_writable().is_err() => make(view),
            Err(error) => Err(error),
        }
    }

    fn known(&self, id: TreeId, view: &View) -> Result<Option<Arc<TableState>>> {
        let tables = self.tables.lock();
        let Some(entry) = tables.get(&id) else { return Ok(None) };
        entry.check(view)?;
        Ok(Some(entry.state.clone()).filter(|state| state.check().is_ok()))
    }

    /// Enters a state made since [`OpenTables::known`] had none, unless another session was faster. A transaction that
    /// changed the definition meanwhile is not visible to `view`.
    fn enter(&self, id: TreeId, state: Arc<TableState>, view: &View) -> Result<Arc<TableState>> {
        let mut tables = self.tables.lock();
        let entry = tables.entry(id).or_insert_with(|| Entry::new(state.clone()));
        entry.check(view)?;
        if entry.state.check().is_err() {
            entry.set_state(state);
        }
        Ok(entry.state.clone())
    }

    /// Reserves a table for a change of its definition; fails while another session has it open.
    pub fn begin_change(&self, id: TreeId, transaction: &Arc<Transaction>) -> Result<()> {
        let mut tables = self.tables.lock();
        let Some(entry) = tables.get_mut(&id) else { return Ok(()) };
        // One reference is the cache's own, one the caller's.
        if Arc::strong_count(&entry.state) > 2 {
            return Err(Error::Usage(format!(
                "table {:?} is open; close it before changing its definition",
                entry.state.schema.name
            )));
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

    /// A change of this table's definition is about to be rolled back: no session may use what it made. The table stays
    /// reserved until the transaction has ended.
    pub fn roll_back_change(&self, id: TreeId) {
        if let Some(entry) = self.tables.lock().get(&id) {
            entry.state.set_gone();
        }
    }

    /// The creation of this table is about to be rolled back.
    pub fn roll_back_creation(&self, id: TreeId) {
        if let Some(entry) = self.tables.lock().remove(&id) {
            entry.state.set_gone();
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
    use crate::{CommitMode, CreateOptions};

    #[test]
    fn a_definition_read_before_a_change_is_not_taken_for_the_one_after() {
        let instance = open(&SimVfs::new(), PageSize::KIB_4, 64).unwrap();
        let db = instance.create_database(Path::new("/db/test.edb"), &CreateOptions::default()).unwrap();
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
        let schema = system.schema(&View::latest(), id).unwrap().unwrap();
        let enter = |view: &View| {
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
