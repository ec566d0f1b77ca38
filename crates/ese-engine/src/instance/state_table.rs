//! Tables in which maintenance keeps its state: one record each, in the database that it is about.

use ese_format::record::{ColumnId, Value};
use jetcell_sync::{Arc, Weak};

use super::Instance;
use crate::core::Core;
use crate::database::Database;
use crate::session::{CommitMode, Session, SessionNumbers, Table};
use crate::table::TableDefinition;
use crate::{Error, Result};

/// A table with one record.
pub(super) struct StateTable {
    core: Weak<Core>,
    numbers: Arc<SessionNumbers>,
    database: Weak<Database>,
    definition: TableDefinition,
}

impl StateTable {
    /// The table with this definition. It is created when something is stored.
    pub fn new(instance: &Instance, database: &Arc<Database>, definition: TableDefinition) -> StateTable {
        StateTable {
            core: Arc::downgrade(&instance.core),
            numbers: instance.numbers.clone(),
            database: Arc::downgrade(database),
            definition,
        }
    }

    /// The values of the record. `None`: there is none.
    pub fn load<const N: usize>(&self, columns: [&str; N]) -> Result<Option<[Value; N]>> {
        let loaded = self.run(|session, database| {
            if !self.is_there(session, database)? {
                return Ok(None);
            }
            let mut table = session.open_table(database, &self.definition.name)?;
            if !table.first(session)? {
                return Ok(None);
            }
            let mut values = std::array::from_fn(|_| Value::Null);
            for (value, name) in values.iter_mut().zip(columns) {
                let column = self.column(&table, name)?;
                *value = table.get(session, column)?;
            }
            Ok(Some(values))
        })?;
        Ok(loaded.flatten())
    }

    /// Stores the values of the record.
    pub fn save(&self, values: &[(&str, Value)]) -> Result<()> {
        let made = self.run(|session, database| match self.is_there(session, database)? {
            true => Ok(()),
            false => session.create_table(database, &self.definition),
        })?;
        if made.is_none() {
            return Ok(());
        }
        self.run(|session, database| {
            let mut table = session.open_table(database, &self.definition.name)?;
            let of_column = |(name, value): &(&str, Value)| Ok((self.column(&table, name)?, value.clone()));
            let row = values.iter().map(of_column).collect::<Result<Vec<_>>>()?;
            match table.first(session)? {
                true => table.replace(session, &row),
                false => table.insert(session, &row),
            }
        })?;
        Ok(())
    }

    /// Runs `work` in a transaction. `None`: the database is being closed.
    fn run<T>(&self, work: impl FnOnce(&mut Session, &Arc<Database>) -> Result<T>) -> Result<Option<T>> {
        let (Some(core), Some(database)) = (self.core.upgrade(), self.database.upgrade()) else {
            return Ok(None);
        };
        let mut session = Session::new(core, self.numbers.take());
        session.begin()?;
        let done = work(&mut session, &database)?;
        // Losing the newest state in a crash costs doing some work again.
        session.commit(CommitMode::Lazy)?;
        Ok(Some(done))
    }

    fn is_there(&self, session: &Session, database: &Arc<Database>) -> Result<bool> {
        Ok(session.tables(database)?.contains(&self.definition.name))
    }

    fn column(&self, table: &Table, name: &str) -> Result<ColumnId> {
        table.column(name).ok_or_else(|| {
            let table = &self.definition.name;
            Error::Usage(format!("{table} has no column {name}: another engine made it; keep no progress"))
        })
    }
}
