//! The catalog of a database: which tables there are, and what they look like.
//!
//! Rows of MSysObjects are read under the caller's view like any record, so that a table exists for a session
//! exactly when its row does. Schemas are cached by tree id, which is never used twice.
//!
//! Invariants: both catalogs, their indexes and MSysObjids change in the same transaction; only one session of a
//! database changes definitions at a time; a table whose definition is being changed is open to nobody else until
//! that transaction ends. Left out: changing columns, deleting and renaming anything, template tables.

mod change;
mod initial;
mod read;

pub(crate) use change::{FIRST_OWN_PROCID, create_index, create_table, long_value_tree};
#[cfg(test)]
pub(crate) use initial::OBJIDS_ROOT;
pub(crate) use initial::initial_pages;
pub(crate) use read::{find, names};

use std::collections::HashMap;
use std::sync::Arc;

use ese_format::TreeId;
use parking_lot::Mutex;

use crate::database::Database;
use crate::table::TableState;
use crate::versions::{Transaction, View};
use crate::{Error, Result};

/// The definitions of a database that are in use.
#[derive(Default)]
pub(crate) struct Catalog {
    /// Serialises changes of definitions. Taken before `Tree::structure`.
    changing: Mutex<()>,
    tables: Mutex<HashMap<TreeId, Entry>>,
}

struct Entry {
    state: Arc<TableState>,
    altered_by: Option<Arc<Transaction>>,
}

impl Catalog {
    /// Forgets all tables, so that the trees they refer to can be freed.
    pub fn clear(&self) {
        self.tables.lock().clear();
    }

    /// The table with this name, as `view` sees it.
    pub fn open(&self, db: &Arc<Database>, view: &View, name: &str) -> Result<Arc<TableState>> {
        let missing = || Error::Usage(format!("{}: there is no table {name:?}", db.path.display()));
        let id = find(db, view, name)?.ok_or_else(missing)?;
        if let Some(state) = self.known(id, view)? {
            return Ok(state);
        }
        let schema = read::schema(db, view, id)?.ok_or_else(missing)?;
        let state = Arc::new(TableState::new(db, schema)?);
        let mut tables = self.tables.lock();
        let entry = tables.entry(id).or_insert_with(|| Entry { state, altered_by: None });
        Ok(entry.state.clone())
    }

    fn known(&self, id: TreeId, view: &View) -> Result<Option<Arc<TableState>>> {
        let mut tables = self.tables.lock();
        let Some(entry) = tables.get(&id) else { return Ok(None) };
        match &entry.altered_by {
            Some(transaction) if transaction.is_running() => {
                if !view.own.as_ref().is_some_and(|own| Arc::ptr_eq(own, transaction)) {
                    return Err(Error::WriteConflict);
                }
            }
            Some(transaction) if transaction.committed().is_none() => {
                tables.remove(&id);
                return Ok(None);
            }
            Some(_) | None => {}
        }
        Ok(tables.get(&id).map(|entry| entry.state.clone()))
    }

    /// Reserves a table for a change of its definition; fails while anybody else has it open.
    fn begin_change(&self, id: TreeId, transaction: &Arc<Transaction>) -> Result<()> {
        let mut tables = self.tables.lock();
        let Some(entry) = tables.get_mut(&id) else { return Ok(()) };
        // One reference is the cache's own, one the caller's.
        if Arc::strong_count(&entry.state) > 2 {
            return Err(Error::Usage(format!(
                "table {:?} is open; close it before changing its definition",
                entry.state.schema.name
            )));
        }
        entry.altered_by = Some(transaction.clone());
        Ok(())
    }

    fn changed(&self, id: TreeId, state: Arc<TableState>, transaction: &Arc<Transaction>) {
        let altered_by = Some(transaction.clone());
        if let Some(old) = self.tables.lock().insert(id, Entry { state, altered_by }) {
            old.state.set_gone();
        }
    }

    /// A change of this table's definition is about to be rolled back: nobody may use what it made. Unless the
    /// transaction itself ends, the table stays reserved.
    pub fn roll_back_change(&self, id: TreeId) {
        if let Some(entry) = self.tables.lock().remove(&id) {
            entry.state.set_gone();
        }
    }

    /// After the rollback of a nested level that changed a definition: other levels may have changed it as well.
    pub fn reserve_again(&self, db: &Arc<Database>, view: &View, id: TreeId) -> Result<()> {
        if let (Some(own), Some(schema)) = (&view.own, read::schema(db, view, id)?) {
            self.changed(id, Arc::new(TableState::new(db, schema)?), own);
        }
        Ok(())
    }
}
