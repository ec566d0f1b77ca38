//! Statements that insert, replace and delete records together with their index entries and long values.

use jetcell_sync::Arc;
use std::borrow::Cow;

use ese_format::catalog::Index;
use ese_format::compression;
use ese_format::index_entries::{Keys, index_keys, primary_key};
use ese_format::key::Key;
use ese_format::long_value::LongValueId;
use ese_format::page::NodeFlags;
use ese_format::record::{
    Column, ColumnFlags, ColumnId, ColumnValue, MultiValue, Record, RecordBuilder, RecordError, Value,
    record_limit,
};

use super::long_values;
use super::separation::{RawValue, RawValues, build, build_whole};
use super::state::TableState;
use crate::btree::{Bookmark, DescentTarget, Tree, TreeCursor};
use crate::transaction::{ActiveTransaction, ReadView};
use crate::{Corruption, Error, Result, UsageError};

/// Inserts a record. Returns its bookmark.
pub(crate) fn insert(
    session: &mut ActiveTransaction,
    state: &TableState,
    row: &[(ColumnId, Value)],
) -> Result<Bookmark> {
    session.check_begun()?;
    let (values, chosen) = new_values(state, row)?;
    let size = state.tree.file.page_size;
    let mut builder = RecordBuilder::new(&state.schema.columns, size);
    builder.set_limit(limit(state));
    let mut bytes = std::mem::take(&mut session.row);
    let whole = build_whole(state, &builder, &values, &mut bytes)?;
    session
        .statement(!state.indexes.is_empty() || !whole, |session| {
            if !whole {
                build(session, state, &mut builder, &values, None, long_values::store, &mut bytes)?;
            }
            let (record, view) = (Record::new(&bytes, size), session.view());
            let key = match state.schema.primary_index() {
                Some(index) => {
                    let key = primary_key(&state.schema, index, &record, &mut source(state, &view, index));
                    key.map_err(UsageError::from)?.bytes
                }
                None => state.next_row()?.to_vec(),
            };
            state.tree.insert(session.changes()?, &key, &bytes)?;
            for entry in &state.indexes {
                for found in keys(state, &entry.index, &record, &view)? {
                    entry.tree.insert(session.changes()?, &found.bytes, &key)?;
                }
            }
            session.row = bytes;
            Ok(state.tree.bookmark_of_key(key))
        })
        // This is done only on success, because a failed statement does not use up the value.
        .inspect(|_| chosen.into_iter().for_each(|value| state.advance_increment_to(value)))
}

/// Returns the values of a new record, including that of the auto-increment column. Also returns the auto-increment
/// value if the program chose it.
pub(super) fn new_values<'t>(
    state: &'t TableState,
    row: &'t [(ColumnId, Value)],
) -> Result<(RawValues<'t>, Option<i64>)> {
    let mut values = encode(state, row)?;
    let chosen = chosen_increment(state, &values)?;
    if let Some(column) = state.increment_column().filter(|_| chosen.is_none()) {
        if values.iter().any(|(other, _)| other.id == column.id) {
            return Err(UsageError::Record(RecordError::NullNotAllowed(column.id)).into());
        }
        values.push((column, Some(state.next_increment(column)?.into())));
    }
    Ok((values, chosen))
}

/// Builds a new record in `record`, replacing its contents. Nothing else may change the table. Long values are passed
/// to `store`, which assigns their numbers.
pub(super) fn new_record<'v, S>(
    state: &'v TableState,
    values: &'v [RawValue<'_>],
    record: &mut Vec<u8>,
    with: &mut S,
    store: impl FnMut(&mut S, &TableState, Cow<'v, [u8]>) -> Result<LongValueId>,
) -> Result<()> {
    let mut builder = RecordBuilder::new(&state.schema.columns, state.tree.file.page_size);
    builder.set_limit(limit(state));
    build(with, state, &mut builder, values, None, store, record)
}

/// Changes columns of a record. `before` is the record as the session sees it.
pub(crate) fn replace(
    session: &mut ActiveTransaction,
    state: &TableState,
    bookmark: &Bookmark,
    before: &[u8],
    changes: &[(ColumnId, Value)],
) -> Result<()> {
    let values = encode(state, changes)?;
    let chosen = chosen_increment(state, &values)?;
    let changed = |index: &Index| {
        let columns = index.segments.iter().map(|segment| segment.column);
        let conditions = index.conditions.iter().map(|condition| condition.column);
        columns.chain(conditions).any(|id| values.iter().any(|(column, _)| column.id == id))
    };
    let touched: Vec<_> = state.indexes.iter().filter(|entry| changed(&entry.index)).collect();
    let size = state.tree.file.page_size;
    let before = Record::new(before, size);
    let mut dropped = Vec::new();
    for (column, _) in values.iter().filter(|(column, _)| column.kind.is_long()) {
        dropped.extend(separated(&before.get(column).map_err(|e| state.damaged(e))?));
    }
    let filled = RecordBuilder::from_record(&state.schema.columns, size, &before);
    let mut builder = filled.map_err(|e| state.damaged(e))?;
    builder.set_limit(limit(state));
    let mut bytes = std::mem::take(&mut session.row);
    let whole = build_whole(state, &builder, &values, &mut bytes)?;
    session
        .statement(!touched.is_empty() || !whole || !dropped.is_empty(), |session| {
            if !whole {
                build(session, state, &mut builder, &values, Some(&before), long_values::store, &mut bytes)?;
            }
            let (after, view) = (Record::new(&bytes, size), session.view());
            if let Some(index) = state.schema.primary_index().filter(|index| changed(index)) {
                let key = primary_key(&state.schema, index, &after, &mut source(state, &view, index));
                if key.map_err(UsageError::from)?.bytes != bookmark.key() {
                    return Err(UsageError::PrimaryKeyChanged.into());
                }
            }
            // The old keys are computed here, because they need the long values that are removed below.
            let old = touched.iter().map(|entry| keys(state, &entry.index, &before, &view));
            let old: Vec<Keys> = old.collect::<Result<_>>()?;
            state.tree.replace(session.changes()?, bookmark, &bytes)?;
            for (entry, old) in touched.iter().zip(&old) {
                let new = keys(state, &entry.index, &after, &view)?;
                for key in old.iter().filter(|key| !new.contains(key)) {
                    delete_entry(session, &entry.tree, &key.bytes, bookmark.key())?;
                }
                for key in new.iter().filter(|key| !old.contains(key)) {
                    entry.tree.insert(session.changes()?, &key.bytes, bookmark.key())?;
                }
            }
            session.row = bytes;
            dropped.into_iter().try_for_each(|id| long_values::remove(session, state, id))
        })
        .inspect(|()| chosen.into_iter().for_each(|value| state.advance_increment_to(value)))
}

/// Deletes a record. `before` is the record as the session sees it.
pub(crate) fn delete(
    session: &mut ActiveTransaction,
    state: &TableState,
    bookmark: &Bookmark,
    before: &[u8],
) -> Result<()> {
    let record = Record::new(before, state.tree.file.page_size);
    let mut dropped = Vec::new();
    for (_, value) in record.tagged().map_err(|e| state.damaged(e))? {
        dropped.extend(separated(&value));
    }
    session.statement(!state.indexes.is_empty() || !dropped.is_empty(), |session| {
        let view = session.view();
        state.tree.flag_delete(session.changes()?, bookmark)?;
        for entry in &state.indexes {
            for key in keys(state, &entry.index, &record, &view)? {
                delete_entry(session, &entry.tree, &key.bytes, bookmark.key())?;
            }
        }
        dropped.into_iter().try_for_each(|id| long_values::remove(session, state, id))
    })
}

/// Returns the record with this bookmark.
pub(crate) fn fetch(state: &TableState, view: &ReadView, bookmark: &Bookmark) -> Result<Vec<u8>> {
    state.tree.get(view, bookmark.bytes(), <[u8]>::to_vec)?.ok_or(Error::RecordNotFound)
}

/// Returns one value of a record. If the column has several values, returns the first one.
pub(crate) fn read(
    state: &TableState,
    view: &ReadView,
    record: &Record<'_>,
    column: &Column,
) -> Result<Value> {
    let inflate = |stored: &[u8]| {
        compression::decompress(stored, compression::MAX_INTRINSIC).map_err(|e| state.damaged(e))
    };
    let value = record.get_or_default(column).map_err(|e| state.damaged(e))?;
    let decode = |bytes: &[u8]| Value::decode(column, bytes).map_err(|e| state.damaged(e));
    let value = match value {
        ColumnValue::Multi(values) => match values.into_iter().next() {
            Some(MultiValue::Bytes(bytes)) => ColumnValue::Bytes(bytes),
            Some(MultiValue::Compressed(bytes)) => ColumnValue::Compressed(bytes),
            Some(MultiValue::Separated(id)) => ColumnValue::Separated(id),
            None => ColumnValue::Null,
        },
        single => single,
    };
    match value {
        ColumnValue::Bytes(bytes) => decode(bytes),
        ColumnValue::Compressed(stored) => decode(&inflate(stored)?),
        ColumnValue::Separated(id) => decode(&long_values::read(state, view, id, usize::MAX)?),
        ColumnValue::Encrypted(_) => Err(UsageError::Encrypted.into()),
        ColumnValue::Absent | ColumnValue::Null | ColumnValue::Multi(_) => Ok(Value::Null),
    }
}

/// Adds entries for all records of a table to a new index. No other session can change the table during this time.
pub(crate) fn fill_index(
    session: &mut ActiveTransaction,
    state: &TableState,
    index: &Index,
    tree: &Arc<Tree>,
) -> Result<()> {
    for_each_record(session, state, index, &mut |session, keys, row| {
        keys.iter().try_for_each(|key| tree.insert(session.changes()?, &key.bytes, row))
    })
}

/// Callback that receives a record's keys in an index, and the record's own key.
type KeyCallback<'a> = dyn FnMut(&mut ActiveTransaction, &[Key], &[u8]) -> Result<()> + 'a;

/// Calls `enter` for each record of a table, with the record's keys in an index and the record's own key. No other
/// session can change the table during this time.
pub(super) fn for_each_record(
    session: &mut ActiveTransaction,
    state: &TableState,
    index: &Index,
    enter: &mut KeyCallback<'_>,
) -> Result<()> {
    let view = session.view();
    check_settled(&state.tree, &view)?;
    let mut cursor = TreeCursor::new(state.tree.clone());
    let mut found = cursor.first(&view)?;
    while found {
        let record = Record::new(cursor.data(), state.tree.file.page_size);
        let row = cursor.bookmark().map_or(&[][..], Bookmark::key);
        enter(session, &keys(state, index, &record, &view)?, row)?;
        found = cursor.next(&view)?;
    }
    Ok(())
}

/// Fails if a transaction that is not visible in `view` has changed records.
fn check_settled(tree: &Arc<Tree>, view: &ReadView) -> Result<()> {
    let mut leaf = tree.leaf_for_read(DescentTarget::First)?;
    loop {
        let page = tree.view(&leaf);
        for node in page.nodes().filter(|node| node.flags.contains(NodeFlags::VERSIONED)) {
            let bookmark = tree.bookmark_of(&node);
            if tree.versions.conflicts(tree.key(), bookmark.bytes(), view) {
                return Err(Error::WriteConflict);
            }
        }
        let (current, next) = (leaf.key().page, page.next());
        let Some(next) = next else { return Ok(()) };
        drop(leaf);
        leaf = tree.file.pin(next)?.into_read();
        let page = tree.view(&leaf);
        if !tree.is_live_leaf(&page) || page.prev() != Some(current) {
            drop(leaf);
            leaf = tree.leaf_for_read(DescentTarget::First)?;
        }
    }
}

/// Returns the value that the program chose for the auto-increment column, if any.
fn chosen_increment(state: &TableState, values: &[RawValue<'_>]) -> Result<Option<i64>> {
    let Some(column) = state.increment_column() else { return Ok(None) };
    match values.iter().find(|(other, _)| other.id == column.id) {
        Some((_, Some(raw))) => state.chosen_increment(column, raw).map(Some),
        _ => Ok(None),
    }
}

fn encode<'t>(state: &'t TableState, row: &'t [(ColumnId, Value)]) -> Result<RawValues<'t>> {
    row.iter()
        .enumerate()
        .map(|(at, (id, value))| {
            // If two values were given for the column, the record could reference only one of their long values.
            if row[..at].iter().any(|(other, _)| other == id) {
                return Err(UsageError::DuplicateColumn(*id).into());
            }
            let column =
                state.schema.column(*id).ok_or(UsageError::Record(RecordError::UnknownColumn(*id)))?;
            let value_error = |error| UsageError::Value { column: column.name.clone(), error };
            let raw = value.encode(column).map_err(value_error)?;
            if raw.as_ref().is_some_and(|raw| column.size > 0 && raw.len() > column.size as usize) {
                let (column, max) = (column.name.clone(), column.size);
                return Err(UsageError::ValueTooLong { column, max }.into());
            }
            if raw.is_none() && column.flags.contains(ColumnFlags::NOT_NULL) {
                return Err(UsageError::Record(RecordError::NullNotAllowed(*id)).into());
            }
            Ok((column, raw))
        })
        .collect()
}

/// Returns the maximum length of a record in the table.
fn limit(state: &TableState) -> usize {
    record_limit(state.tree.file.page_size, state.schema.max_key_len())
}

fn keys(state: &TableState, index: &Index, record: &Record<'_>, view: &ReadView) -> Result<Keys> {
    let keys = index_keys(&state.schema, index, record, &mut source(state, view, index));
    Ok(keys.map_err(UsageError::from)?)
}

/// Returns a function that reads long values for use in keys. It reads only their first bytes, which are sufficient
/// for a key.
fn source(state: &TableState, view: &ReadView, index: &Index) -> impl FnMut(LongValueId) -> Option<Vec<u8>> {
    let limit = index.key_limits().key + 1;
    move |id| long_values::read(state, view, id, limit).ok()
}

fn delete_entry(session: &mut ActiveTransaction, tree: &Arc<Tree>, key: &[u8], row: &[u8]) -> Result<()> {
    tree.flag_delete(session.changes()?, &tree.bookmark(key, row)).map_err(|error| match error {
        Error::RecordNotFound => tree.file.corrupt(tree.root, Corruption::NoIndexEntry),
        other => other,
    })
}

fn separated(value: &ColumnValue<'_>) -> Vec<LongValueId> {
    match value {
        ColumnValue::Separated(id) => vec![*id],
        ColumnValue::Multi(values) => values
            .iter()
            .filter_map(|value| if let MultiValue::Separated(id) = value { Some(*id) } else { None })
            .collect(),
        _ => Vec::new(),
    }
}
