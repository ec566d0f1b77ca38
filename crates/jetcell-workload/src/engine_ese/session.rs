//! A load session on the real engine.

use std::sync::Arc;

use ese_engine::Database;
use ese_engine::SeekRelation;
use ese_engine::{CommitMode, Error as EngineError, Table};
use ese_format::record::{ColumnId, Value};

use super::table_name;
use crate::engine::{CommitDurability, LoadRow, Result, StorageSession};
use crate::error::Error;

/// A session and the tables it has opened.
pub(super) struct EseSession {
    session: ese_engine::Session,
    database: Arc<Database>,
    tables: Vec<Option<OpenLoadTable>>,
}

struct OpenLoadTable {
    table: Table,
    columns: LoadColumns,
}

/// Column identifiers for a load table.
#[derive(Clone, Copy)]
pub(super) struct LoadColumns {
    id: ColumnId,
    thread: ColumnId,
    short: ColumnId,
    long: ColumnId,
}

impl EseSession {
    pub(super) fn new(session: ese_engine::Session, database: Arc<Database>) -> EseSession {
        EseSession { session, database, tables: Vec::new() }
    }

    /// Releases all pages that the tables have pinned. Otherwise many sessions on many databases would keep the whole
    /// cache pinned between transactions.
    fn release_pages(&mut self) {
        self.tables.iter_mut().flatten().for_each(|open| open.table.reset());
    }

    /// Returns the session, a table and its columns. Opens the table on first use.
    fn table(&mut self, number: u32) -> Result<(&mut ese_engine::Session, &mut Table, LoadColumns)> {
        let at = number as usize;
        if self.tables.len() <= at {
            self.tables.resize_with(at + 1, || None);
        }
        let open = match &mut self.tables[at] {
            Some(open) => open,
            closed => closed.insert(OpenLoadTable::open(&mut self.session, &self.database, number)?),
        };
        Ok((&mut self.session, &mut open.table, open.columns))
    }
}

impl LoadColumns {
    /// Looks up the columns by name. Returns `None` if a column is missing.
    pub(super) fn from_names(column: impl Fn(&str) -> Option<ColumnId>) -> Option<LoadColumns> {
        Some(LoadColumns {
            id: column("Id")?,
            thread: column("Thread")?,
            short: column("Short")?,
            long: column("Long")?,
        })
    }

    /// Calls `with` with the values of a new record. The row's buffers are kept for reuse.
    pub(super) fn with_values<T>(
        &self,
        row: &mut LoadRow,
        with: impl FnOnce(&[(ColumnId, Value)]) -> T,
    ) -> T {
        let values = self.values(std::mem::take(row));
        let result = with(&values);
        let [_, thread, short, long] = values.map(|(_, value)| match value {
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        });
        (row.thread, row.short, row.long) = (thread.unwrap_or_default(), short.unwrap_or_default(), long);
        result
    }

    /// Converts a row to the values of a new record.
    pub(super) fn values(&self, row: LoadRow) -> [(ColumnId, Value); 4] {
        [
            (self.id, Value::LongLong(row.id)),
            (self.thread, Value::Binary(row.thread)),
            (self.short, Value::Binary(row.short)),
            (self.long, row.long.map_or(Value::Null, Value::Binary)),
        ]
    }
}

impl OpenLoadTable {
    fn open(
        session: &mut ese_engine::Session,
        database: &Arc<Database>,
        number: u32,
    ) -> Result<OpenLoadTable> {
        let other = || no_load_table(database, number);
        let table = session.open_table(database, &table_name(number)).map_err(|error| match error {
            EngineError::NoTable { .. } | EngineError::RecordNotFound => other(),
            error => error.into(),
        })?;
        let columns = LoadColumns::from_names(|name| table.column(name)).ok_or_else(other)?;
        Ok(OpenLoadTable { table, columns })
    }
}

/// Returns the error for a database in which a load table or one of its columns is missing.
pub(super) fn no_load_table(database: &Database, number: u32) -> Error {
    Error::NoLoadTable { database: database.path().to_path_buf(), table: table_name(number) }
}

fn content(columns: LoadColumns, row: &LoadRow) -> [(ColumnId, Value); 3] {
    let long = row.long.clone().map_or(Value::Null, Value::Binary);
    [
        (columns.thread, Value::Binary(row.thread.clone())),
        (columns.short, Value::Binary(row.short.clone())),
        (columns.long, long),
    ]
}

/// Returns the bytes of a binary value. A value of any other type was not written by the load. Record verification
/// reports it.
fn bytes(value: Value) -> Option<Vec<u8>> {
    if let Value::Binary(bytes) = value { Some(bytes) } else { None }
}

fn id_of(session: &mut ese_engine::Session, table: &mut Table, columns: LoadColumns) -> Result<i64> {
    match table.get(session, columns.id)? {
        Value::LongLong(id) => Ok(id),
        value => Err(Error::WrongId { table: table.schema().name.clone(), value }),
    }
}

impl StorageSession for EseSession {
    fn begin(&mut self) -> Result<()> {
        Ok(self.session.begin()?)
    }

    fn commit(&mut self, commit: CommitDurability) -> Result<()> {
        let mode = match commit {
            CommitDurability::Durable => CommitMode::Durable,
            CommitDurability::Lazy => CommitMode::Lazy,
        };
        self.release_pages();
        self.session.commit(mode)?;
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        self.release_pages();
        Ok(self.session.rollback()?)
    }

    fn insert(&mut self, table: u32, row: &LoadRow) -> Result<()> {
        let (session, table, columns) = self.table(table)?;
        let [thread, short, long] = content(columns, row);
        Ok(table.insert(session, &[(columns.id, Value::LongLong(row.id)), thread, short, long])?)
    }

    fn seek(&mut self, table: u32, id: i64) -> Result<Option<i64>> {
        let (session, table, columns) = self.table(table)?;
        if !table.seek(session, &[Value::LongLong(id)], SeekRelation::GreaterOrEqual)? {
            return Ok(None);
        }
        id_of(session, table, columns).map(Some)
    }

    fn read(&mut self, table: u32) -> Result<LoadRow> {
        let (session, table, columns) = self.table(table)?;
        let id = id_of(session, table, columns)?;
        let thread = bytes(table.get(session, columns.thread)?).unwrap_or_default();
        let short = bytes(table.get(session, columns.short)?).unwrap_or_default();
        let long = bytes(table.get(session, columns.long)?);
        Ok(LoadRow { id, thread, short, long })
    }

    fn replace(&mut self, table: u32, row: &LoadRow) -> Result<()> {
        let (session, table, columns) = self.table(table)?;
        Ok(table.replace(session, &content(columns, row))?)
    }

    fn delete(&mut self, table: u32) -> Result<()> {
        let (session, table, _) = self.table(table)?;
        Ok(table.delete(session)?)
    }

    fn last(&mut self, table: u32) -> Result<Option<i64>> {
        let (session, table, columns) = self.table(table)?;
        if !table.last(session)? {
            return Ok(None);
        }
        id_of(session, table, columns).map(Some)
    }
}
