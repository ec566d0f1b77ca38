//! An open table with a current record: moves, reads and changes.

use ese_format::catalog::{Index, TableSchema};
use ese_format::key::{KeyPart, normalise};
use ese_format::record::{ColumnId, Record, RecordError, Value};
use jetcell_sync::Arc;

use super::session::{Session, SessionId};
use crate::btree::{Bookmark, SeekRelation, TreeCursor};
use crate::database::Database;
use crate::table::{TableState, rows};
use crate::transaction::{ActiveTransaction, ReadView};
use crate::{Error, Result, UsageError};

/// A table that is open in a session, with a current record. ESE: `JET_TABLEID`, `FUCB`.
///
/// Outside transactions, each call sees the data committed at that moment. The table can be used only in the session
/// that opened it; other sessions get [`Error::Usage`].
#[doc(alias = "FUCB")]
pub struct Table {
    session: SessionId,
    state: Arc<TableState>,
    cursor: TreeCursor,
    /// Secondary index that determines the order of moves, as an index into the `indexes` of `state`.
    index: Option<usize>,
    /// Bookmark of the current record.
    current: Option<Bookmark>,
    inserted: Option<Bookmark>,
    row: Vec<u8>,
    /// Session state in which `row` was read.
    row_as_of: Option<u64>,
    /// Exclusive upper bound of the range set by `set_range`, if any.
    end: Option<Vec<u8>>,
}

impl Session {
    /// Opens a table by name for this session. The case of ASCII letters in the name is ignored.
    ///
    /// Returns [`Error::WriteConflict`] if another session is changing the definition, or has changed it since the
    /// transaction began.
    pub fn open_table(&mut self, db: &Arc<Database>, name: &str) -> Result<Table> {
        self.check_same_instance(db)?;
        let state = db.tables.open(self.active.services(), &self.active.view(), name)?;
        Ok(Table::new(self.id(), state))
    }
}

impl Table {
    fn new(session: SessionId, state: Arc<TableState>) -> Table {
        let cursor = TreeCursor::new(state.tree.clone());
        let (row, row_as_of) = (Vec::new(), None);
        Table {
            session,
            state,
            cursor,
            index: None,
            current: None,
            inserted: None,
            row,
            row_as_of,
            end: None,
        }
    }

    /// Returns an error if the definition is no longer valid, or if another session uses the table. Only the session
    /// that opened the table may see the definition, and `row` is that session's version of the current record.
    fn check(&self, s: &Session) -> Result<()> {
        if s.id() != self.session {
            return Err(UsageError::OtherSession(self.state.schema.name.clone()).into());
        }
        self.state.check()
    }

    /// Returns the definition of the table.
    pub fn schema(&self) -> &TableSchema {
        &self.state.schema
    }

    /// Returns the id of the column with this name. The case of ASCII letters is ignored.
    pub fn column(&self, name: &str) -> Option<ColumnId> {
        self.state.schema.column_named(name).map(|column| column.id)
    }

    /// Selects, by name, the index that determines the order of moves; `None` selects the table's own order.
    /// Afterwards there is no current record.
    pub fn set_index(&mut self, name: Option<&str>) -> Result<()> {
        let has_name = |index: &Index| name.is_some_and(|name| index.name.eq_ignore_ascii_case(name));
        self.index = match name {
            None => None,
            Some(_) if self.state.schema.primary_index().is_some_and(has_name) => None,
            Some(name) => {
                let at = self.state.indexes.iter().position(|entry| has_name(&entry.index));
                Some(at.ok_or_else(|| UsageError::NoIndex(name.to_string()))?)
            }
        };
        let tree = self.index.map_or(&self.state.tree, |at| &self.state.indexes[at].tree);
        self.cursor = TreeCursor::new(tree.clone());
        (self.current, self.end) = (None, None);
        Ok(())
    }

    /// Moves to a record, given values for the first columns of the current index. If no such record exists, returns
    /// `false` and leaves the table without a current record.
    pub fn seek(&mut self, s: &mut Session, key: &[Value], how: SeekRelation) -> Result<bool> {
        let key = self.key(key)?;
        self.end = None;
        self.go(s, |cursor, view| {
            let found = match how {
                SeekRelation::Equal | SeekRelation::GreaterOrEqual => {
                    cursor.seek(view, &key, SeekRelation::GreaterOrEqual)?
                }
                SeekRelation::Less => cursor.seek(view, &key, SeekRelation::Less)?,
                SeekRelation::Greater => match successor_of_prefix(&key) {
                    Some(behind) => cursor.seek(view, &behind, SeekRelation::GreaterOrEqual)?,
                    None => false,
                },
                SeekRelation::LessOrEqual => match successor_of_prefix(&key) {
                    Some(behind) => cursor.seek(view, &behind, SeekRelation::Less)?,
                    None => cursor.last(view)?,
                },
            };
            let equal = cursor.bookmark().is_some_and(|bookmark| bookmark.key().starts_with(&key));
            Ok(found && (how != SeekRelation::Equal || equal))
        })
    }

    /// Starts to read the pages that contain these keys in the current index, and returns immediately. In a batch of
    /// seeks and changes, the remaining pages are then read in parallel while the first operations run. This is only
    /// a hint.
    #[doc(alias = "JetPrereadKeys")]
    pub fn preread(&self, keys: &[&[Value]]) -> Result<()> {
        self.state.check()?;
        let tree = self.index.map_or(&self.state.tree, |at| &self.state.indexes[at].tree);
        let mut leaves = Vec::with_capacity(keys.len());
        for key in keys {
            leaves.extend(tree.leaf_of(&self.key(key)?)?.map(|leaf| tree.file.page_key(leaf)));
        }
        tree.file.cache.preread(&leaves);
        Ok(())
    }

    /// Releases the current record. While a table has a current record, that record's page cannot be evicted.
    pub fn reset(&mut self) {
        self.cursor.reset();
        (self.current, self.end) = (None, None);
    }

    /// Moves to the first record.
    pub fn first(&mut self, s: &mut Session) -> Result<bool> {
        self.end = None;
        self.go(s, TreeCursor::first)
    }

    /// Moves to the last record.
    pub fn last(&mut self, s: &mut Session) -> Result<bool> {
        self.end = None;
        self.go(s, TreeCursor::last)
    }

    /// Moves to the next record in the range. If none is left, returns `false` and leaves the table without a current
    /// record.
    pub fn next(&mut self, s: &mut Session) -> Result<bool> {
        self.go(s, TreeCursor::next)
    }

    /// Moves to the previous record.
    pub fn previous(&mut self, s: &mut Session) -> Result<bool> {
        self.go(s, TreeCursor::previous)
    }

    /// Limits [`Table::next`] to records before this key. If `inclusive` is set, records with this key are included.
    /// Seeks and other jumps remove the limit.
    pub fn set_range(&mut self, upper: &[Value], inclusive: bool) -> Result<()> {
        let key = self.key(upper)?;
        self.end = if inclusive { successor_of_prefix(&key) } else { Some(key) };
        Ok(())
    }

    /// Inserts a record. The current record does not change; [`Table::go_to_inserted`] moves to the new record.
    pub fn insert(&mut self, s: &mut Session, row: &[(ColumnId, Value)]) -> Result<()> {
        self.check(s)?;
        let inserted = rows::insert(&mut s.active, &self.state, row);
        s.touched();
        self.inserted = Some(inserted?);
        Ok(())
    }

    /// Moves to the most recently inserted record, for example to read values that the engine assigned.
    pub fn go_to_inserted(&mut self, s: &mut Session) -> Result<bool> {
        let Some(bookmark) = self.inserted.clone() else { return Ok(false) };
        self.set_index(None)?;
        self.go(s, |cursor, view| cursor.seek(view, bookmark.bytes(), SeekRelation::Equal))
    }

    /// Changes columns of the current record. The primary key must stay the same.
    pub fn replace(&mut self, s: &mut Session, changes: &[(ColumnId, Value)]) -> Result<()> {
        let replaced = self
            .change(s, |state, active, bookmark, row| rows::replace(active, state, bookmark, row, changes));
        s.touched();
        replaced
    }

    /// Deletes the current record. Moves continue from its position.
    pub fn delete(&mut self, s: &mut Session) -> Result<()> {
        let deleted =
            self.change(s, |state, active, bookmark, row| rows::delete(active, state, bookmark, row));
        s.touched();
        deleted
    }

    /// Returns one column of the current record.
    pub fn get(&mut self, s: &mut Session, column: ColumnId) -> Result<Value> {
        self.read(s, |table, view| table.value(view, column))
    }

    /// Returns all columns of the current record, including null values.
    pub fn row(&mut self, s: &mut Session) -> Result<Vec<(ColumnId, Value)>> {
        self.read(s, |table, view| {
            let columns = table.state.schema.columns.iter();
            columns.map(|column| Ok((column.id, table.value(view, column.id)?))).collect()
        })
    }

    fn value(&self, view: &ReadView, id: ColumnId) -> Result<Value> {
        let column = self.state.schema.column(id);
        let column = column.ok_or(UsageError::Record(RecordError::UnknownColumn(id)))?;
        rows::read(&self.state, view, &Record::new(&self.row, self.state.tree.file.page_size), column)
    }

    /// Changes the current record. `work` gets the record's bookmark and the version of the record that the session
    /// sees.
    fn change(
        &mut self,
        s: &mut Session,
        work: impl FnOnce(&TableState, &mut ActiveTransaction, &Bookmark, &[u8]) -> Result<()>,
    ) -> Result<()> {
        s.active.check_begun()?;
        self.read(s, |_, _| Ok(()))?;
        let bookmark = self.current.as_ref().ok_or(Error::RecordNotFound)?;
        work(&self.state, &mut s.active, bookmark, &self.row)
    }

    /// Reads the current record with a consistent view.
    fn read<T>(&mut self, s: &mut Session, work: impl FnOnce(&Table, &ReadView) -> Result<T>) -> Result<T> {
        self.check(s)?;
        s.reading(|view, as_of| {
            let bookmark = self.current.as_ref().ok_or(Error::RecordNotFound)?;
            if self.row_as_of.is_none() || self.row_as_of != as_of {
                self.row_as_of = None;
                self.row = rows::fetch(&self.state, view, bookmark)?;
                self.row_as_of = as_of;
            }
            work(self, view)
        })
    }

    fn go(
        &mut self,
        s: &mut Session,
        step: impl FnOnce(&mut TreeCursor, &ReadView) -> Result<bool>,
    ) -> Result<bool> {
        self.check(s)?;
        (self.current, self.row_as_of) = (None, None);
        s.reading(|view, as_of| {
            let found = step(&mut self.cursor, view)?;
            let Some(at) = self.cursor.bookmark().filter(|_| found) else {
                self.cursor.reset();
                return Ok(false);
            };
            if self.end.as_ref().is_some_and(|end| at.key() >= end.as_slice()) {
                self.cursor.reset();
                return Ok(false);
            }
            if self.index.is_some() {
                self.current = Some(self.state.tree.bookmark(self.cursor.data(), &[]));
            } else {
                self.current = Some(at.clone());
                self.row.clear();
                self.row.extend_from_slice(self.cursor.data());
                self.row_as_of = as_of;
            }
            Ok(true)
        })
    }

    /// Returns the common prefix of all keys that begin with these values in the current index.
    fn key(&self, values: &[Value]) -> Result<Vec<u8>> {
        let index = match self.index {
            Some(at) => Some(&self.state.indexes[at].index),
            None => self.state.schema.primary_index(),
        };
        let Some(index) = index else {
            return Err(UsageError::NoPrimaryIndex.into());
        };
        if values.len() > index.segments.len() {
            let columns = index.segments.len();
            return Err(UsageError::TooManyValues { index: index.name.clone(), columns }.into());
        }
        let mut raw = Vec::new();
        for (segment, value) in index.segments.iter().zip(values) {
            let column = self.state.schema.column(segment.column);
            let column = column.ok_or(UsageError::Record(RecordError::UnknownColumn(segment.column)))?;
            let value_error = |error| UsageError::Value { column: column.name.clone(), error };
            raw.push((column, value.encode(column).map_err(value_error)?, segment.descending));
        }
        let parts: Vec<KeyPart<'_>> = raw
            .iter()
            .map(|(column, value, descending)| KeyPart {
                column,
                value: value.as_deref(),
                descending: *descending,
            })
            .collect();
        Ok(normalise(&parts, index.key_limits(), index.flags).map_err(UsageError::from)?.bytes)
    }
}

/// Returns the smallest byte string that is greater than all strings that start with `prefix`, if one exists.
fn successor_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}
