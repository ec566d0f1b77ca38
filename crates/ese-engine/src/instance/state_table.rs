//! Tables that store the state of maintenance tasks in the database under maintenance.

use ese_format::record::{ColumnId, Value};
use jetcell_sync::{Arc, Weak};

use super::Instance;
use crate::core::Core;
use crate::database::Database;
use crate::session::{CommitMode, Session, SessionNumbers, Table};
use crate::table::TableDefinition;
use crate::{Result, UsageError};

/// 1 January 1970 as a day number in ESE's numbering.
const DAYS_TO_1970: f64 = 25_569.0;
const DAY_MS: f64 = 86_400_000.0;

/// Converts a time to ESE's stored form.
pub(super) fn date_time(unix_ms: i64) -> Value {
    Value::DateTime(unix_ms as f64 / DAY_MS + DAYS_TO_1970)
}

/// Converts ESE's stored form of a time to milliseconds since 1970 UTC.
pub(super) fn unix_ms(value: &Value) -> Option<i64> {
    match value {
        Value::DateTime(days) => Some(((days - DAYS_TO_1970) * DAY_MS).round() as i64),
        _ => None,
    }
}

/// Converts a number to a column value. A number that is too large becomes the largest value of the column type.
pub(super) fn number_value(number: u64) -> Value {
    Value::LongLong(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Pairs each column name with the number to store in that column.
pub(super) fn named_numbers<const N: usize>(
    names: [&'static str; N],
    numbers: [u64; N],
) -> Vec<(&'static str, Value)> {
    names.into_iter().zip(numbers.map(number_value)).collect()
}

/// Returns the number in a column, or 0 if the column holds no number.
pub(super) fn number(value: &Value) -> u64 {
    match value {
        Value::LongLong(number) => u64::try_from(*number).unwrap_or_default(),
        Value::Long(number) => u64::try_from(*number).unwrap_or_default(),
        _ => 0,
    }
}

/// Table that contains either one record or a queue of records.
pub(super) struct StateTable {
    core: Weak<Core>,
    numbers: Arc<SessionNumbers>,
    database: Weak<Database>,
    definition: TableDefinition,
}

impl StateTable {
    /// Creates a handle for the table with this definition. The table itself is created when the first record is
    /// stored.
    pub fn new(instance: &Instance, database: &Arc<Database>, definition: TableDefinition) -> StateTable {
        StateTable {
            core: Arc::downgrade(&instance.core),
            numbers: instance.numbers.clone(),
            database: Arc::downgrade(database),
            definition,
        }
    }

    /// Returns the values of the record, or `None` if the table has no record.
    pub fn load<const N: usize>(&self, columns: [&str; N]) -> Result<Option<[Value; N]>> {
        Ok(self.load_all(columns)?.into_iter().next())
    }

    /// Returns the values of all records.
    pub fn load_all<const N: usize>(&self, columns: [&str; N]) -> Result<Vec<[Value; N]>> {
        let loaded = self.run(|session, database| {
            let mut records = Vec::new();
            if !self.exists(session, database)? {
                return Ok(records);
            }
            let mut table = session.open_table(database, &self.definition.name)?;
            let mut found = table.first(session)?;
            while found {
                let mut values = std::array::from_fn(|_| Value::Null);
                for (value, name) in values.iter_mut().zip(columns) {
                    let column = self.column(&table, name)?;
                    *value = table.get(session, column)?;
                }
                records.push(values);
                found = table.next(session)?;
            }
            Ok(records)
        })?;
        Ok(loaded.unwrap_or_default())
    }

    /// Replaces all records with `records`. Each entry starts with the value of the first column, which identifies
    /// the record. Unchanged records are not written.
    pub fn save_all(&self, mut records: Vec<(Value, Vec<(&str, Value)>)>) -> Result<()> {
        self.create(!records.is_empty())?;
        self.run(|session, database| {
            if !self.exists(session, database)? {
                return Ok(());
            }
            let mut table = session.open_table(database, &self.definition.name)?;
            let key = self.definition.columns.first().map_or("", |column| &column.name);
            let key = self.column(&table, key)?;
            let mut found = table.first(session)?;
            while found {
                let stored = table.get(session, key)?;
                let same = records.iter().position(|(of, _)| *of == stored);
                match same.map(|index| records.remove(index)) {
                    None => table.delete(session)?,
                    Some((_, values)) => {
                        let row = self.row(&table, &values)?;
                        let mut changed = false;
                        for (column, value) in &row {
                            changed |= table.get(session, *column)? != *value;
                        }
                        if changed {
                            table.replace(session, &row)?;
                        }
                    }
                }
                found = table.next(session)?;
            }
            for (of, values) in &records {
                let mut row = self.row(&table, values)?;
                row.push((key, of.clone()));
                table.insert(session, &row)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Stores the values of the table's only record.
    pub fn save(&self, values: &[(&str, Value)]) -> Result<()> {
        self.create(true)?;
        self.run(|session, database| {
            let mut table = session.open_table(database, &self.definition.name)?;
            let row = self.row(&table, values)?;
            if table.first(session)? { table.replace(session, &row) } else { table.insert(session, &row) }
        })?;
        Ok(())
    }

    /// Creates the table if `needed` is set and it does not exist yet.
    fn create(&self, needed: bool) -> Result<()> {
        self.run(|session, database| {
            if !needed || self.exists(session, database)? {
                Ok(())
            } else {
                session.create_table(database, &self.definition)
            }
        })?;
        Ok(())
    }

    fn row(&self, table: &Table, values: &[(&str, Value)]) -> Result<Vec<(ColumnId, Value)>> {
        let of_column = |(name, value): &(&str, Value)| Ok((self.column(table, name)?, value.clone()));
        values.iter().map(of_column).collect()
    }

    /// Runs `work` in a transaction. Returns `None` if the database is being closed.
    fn run<T>(&self, work: impl FnOnce(&mut Session, &Arc<Database>) -> Result<T>) -> Result<Option<T>> {
        let (Some(core), Some(database)) = (self.core.upgrade(), self.database.upgrade()) else {
            return Ok(None);
        };
        let mut session = Session::new(core, self.numbers.take());
        session.begin()?;
        let done = work(&mut session, &database)?;
        // If a crash loses the newest state, the task only repeats some work.
        session.commit(CommitMode::Lazy)?;
        Ok(Some(done))
    }

    fn exists(&self, session: &Session, database: &Arc<Database>) -> Result<bool> {
        Ok(session.tables(database)?.contains(&self.definition.name))
    }

    fn column(&self, table: &Table, name: &str) -> Result<ColumnId> {
        table.column(name).ok_or_else(|| {
            let (table, column) = (self.definition.name.clone(), name.to_string());
            UsageError::NoStateColumn { table, column }.into()
        })
    }
}
