//! Table state that all sessions share: schema, trees, and the next numbers to assign.

use ese_format::catalog::{Index, TableSchema};
use ese_format::long_value::{LongValueId, LongValueKey};
use ese_format::record::{Column, ColumnFlags, ColumnType, ColumnValue, Record};
use ese_format::{PageNumber, TreeId};
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Mutex, OnceLock};

use crate::btree::{DescentTarget, Tree, TreeCursor};
use crate::catalog::SystemTables;
use crate::transaction::ReadView;
use crate::{Corruption, Error, Result, UsageError};

/// State of a table in use. ESE: `FCB` and `TDB`.
#[doc(alias = "TDB")]
pub(crate) struct TableState {
    /// The catalog that contains the definition.
    pub system: Arc<SystemTables>,
    /// Definition of the table.
    pub schema: TableSchema,
    /// Tree that contains the records.
    pub tree: Arc<Tree>,
    /// Secondary indexes.
    pub indexes: Vec<IndexState>,
    /// Tree that contains the long values, if it exists.
    pub long_values: OnceLock<Arc<Tree>>,
    last_long_value: Mutex<Option<u64>>,
    last_row: Mutex<Option<u32>>,
    last_increment: Mutex<Option<i64>>,
    gone: AtomicBool,
}

/// A secondary index in use.
pub(crate) struct IndexState {
    pub index: Index,
    pub tree: Arc<Tree>,
}

impl TableState {
    /// Returns the error for a record that cannot be read.
    pub fn damaged(&self, error: impl Into<Corruption>) -> Error {
        let fault =
            Corruption::TableRecord { table: self.schema.name.clone(), fault: Box::new(error.into()) };
        self.tree.file.corrupt(self.tree.root, fault)
    }

    pub fn new(system: &Arc<SystemTables>, schema: TableSchema) -> Result<TableState> {
        let open = |id: TreeId, root: PageNumber, density: u32| {
            let tree = system.trees.tree_at(root)?;
            if tree.id != id {
                return Err(tree.file.corrupt(root, Corruption::OtherTree { catalog: id, page: tree.id }));
            }
            tree.set_density(density);
            Ok(tree)
        };
        let indexes = schema.secondary_indexes().map(|index| {
            Ok(IndexState { index: index.clone(), tree: open(index.tree, index.root, index.density)? })
        });
        let indexes = indexes.collect::<Result<_>>()?;
        let long_values = OnceLock::new();
        if let Some((id, root)) = schema.long_values {
            let tree = open(id, root, 100)?;
            long_values.get_or_init(|| tree);
        }
        Ok(TableState {
            system: system.clone(),
            tree: open(schema.tree, schema.root, schema.density)?,
            indexes,
            long_values,
            schema,
            last_long_value: Mutex::new(None),
            last_row: Mutex::new(None),
            last_increment: Mutex::new(None),
            gone: AtomicBool::new(false),
        })
    }

    /// Marks the state as invalid, because its definition has been rolled back or changed.
    pub fn invalidate(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Continues the numbering from another state of the same table, because uncommitted records may already use its
    /// numbers.
    pub fn continue_numbering_from(&self, other: &TableState) {
        *self.last_long_value.lock() = *other.last_long_value.lock();
        *self.last_row.lock() = *other.last_row.lock();
        *self.last_increment.lock() = *other.last_increment.lock();
    }

    /// Fails if the state is invalid and its trees must therefore no longer be used.
    pub fn check(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            Err(UsageError::DefinitionChanged(self.schema.name.clone()).into())
        } else {
            Ok(())
        }
    }

    /// Allocates the next long-value number.
    pub fn next_long_value(&self, tree: &Arc<Tree>) -> Result<LongValueId> {
        let mut last = self.last_long_value.lock();
        let before = match *last {
            Some(before) => before,
            None => {
                let key = edge_key(tree, TreeEdge::Last)?;
                key.and_then(|key| LongValueKey::decode(&key)).map_or(0, |key| key.id().0)
            }
        };
        let id = LongValueId(before).next();
        if !id.is_wide() && id.0 > u64::from(u32::MAX >> 1) {
            return Err(UsageError::NoMoreLongValues(self.schema.name.clone()).into());
        }
        *last = Some(id.0);
        Ok(id)
    }

    /// Allocates the key of a new record in a table without a primary index.
    pub fn next_row(&self) -> Result<[u8; 4]> {
        let mut last = self.last_row.lock();
        let before = match *last {
            Some(before) => before,
            None => {
                let key = edge_key(&self.tree, TreeEdge::Last)?.unwrap_or_default();
                key.try_into().map_or(0, u32::from_be_bytes)
            }
        };
        let next =
            before.checked_add(1).ok_or_else(|| UsageError::NoMoreRecords(self.schema.name.clone()))?;
        *last = Some(next);
        Ok(next.to_be_bytes())
    }

    /// Returns the auto-increment column, if the table has one.
    pub fn increment_column(&self) -> Option<&Column> {
        self.schema.columns.iter().find(|column| column.flags.contains(ColumnFlags::AUTO_INCREMENT))
    }

    /// Allocates the next value of the auto-increment column, in raw form.
    pub fn next_increment(&self, column: &Column) -> Result<Vec<u8>> {
        let mut last = self.last_increment.lock();
        let before = match *last {
            Some(before) => before,
            None => self.highest_increment(column)?,
        };
        let next = before
            .checked_add(1)
            .filter(|next| fits(column.kind, *next))
            .ok_or_else(|| UsageError::NoMoreIncrements(column.name.clone()))?;
        *last = Some(next);
        let bytes = next.to_le_bytes();
        Ok(bytes[..column.stored_size().min(8)].to_vec())
    }

    /// Decodes a raw value that the program chose for the auto-increment column.
    ///
    /// Must be called before a record gets the value. This call determines the highest value in use, which is possible
    /// only while all records are committed.
    pub fn chosen_increment(&self, column: &Column, raw: &[u8]) -> Result<i64> {
        let mut last = self.last_increment.lock();
        if last.is_none() {
            *last = Some(self.highest_increment(column)?);
        }
        Ok(number(column.kind, raw))
    }

    /// Notes that a record uses this value of the auto-increment column. Values assigned later are higher.
    pub fn advance_increment_to(&self, value: i64) {
        let mut last = self.last_increment.lock();
        *last = last.max(Some(value));
    }

    /// Finds the highest value of the column. Uses an index that starts with the column if there is one, and scans all
    /// records otherwise. Must be called before any session uses the table, because all records must be committed.
    fn highest_increment(&self, column: &Column) -> Result<i64> {
        let starts = |index: &&Index| index.segments.first().is_some_and(|one| one.column == column.id);
        if let Some(index) = self.schema.indexes.iter().find(starts) {
            let secondary = self.indexes.iter().find(|one| one.index.tree == index.tree);
            let tree = secondary.map_or(&self.tree, |one| &one.tree);
            let descending = index.segments[0].descending;
            let key = edge_key(tree, if descending { TreeEdge::First } else { TreeEdge::Last })?
                .unwrap_or_default();
            let key: Vec<u8> = key.iter().map(|byte| if descending { !byte } else { *byte }).collect();
            return Ok(match key.get(..=column.stored_size()) {
                Some([0x7f, value @ ..]) => {
                    let mut raw: Vec<u8> = value.iter().rev().copied().collect();
                    if let Some(sign) = raw.last_mut().filter(|_| column.kind != ColumnType::UnsignedLong) {
                        *sign ^= 0x80;
                    }
                    number(column.kind, &raw)
                }
                _ => 0,
            });
        }
        let (view, mut cursor, mut highest) = (ReadView::latest(), TreeCursor::new(self.tree.clone()), 0);
        let mut found = cursor.first(&view)?;
        while found {
            let record = Record::new(cursor.data(), self.tree.file.page_size);
            if let Ok(ColumnValue::Bytes(raw)) = record.get(column) {
                highest = highest.max(number(column.kind, raw));
            }
            found = cursor.next(&view)?;
        }
        Ok(highest)
    }
}

fn number(kind: ColumnType, raw: &[u8]) -> i64 {
    match (kind, raw.first_chunk::<4>(), raw.first_chunk::<8>()) {
        (ColumnType::UnsignedLong, Some(raw), _) => u32::from_le_bytes(*raw).into(),
        (ColumnType::Long, Some(raw), _) => i32::from_le_bytes(*raw).into(),
        (ColumnType::LongLong, _, Some(raw)) => i64::from_le_bytes(*raw),
        _ => 0,
    }
}

fn fits(kind: ColumnType, value: i64) -> bool {
    match kind {
        ColumnType::Long => i32::try_from(value).is_ok(),
        ColumnType::UnsignedLong => u32::try_from(value).is_ok(),
        _ => true,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum TreeEdge {
    First,
    Last,
}

/// Returns the first or last key in a tree, including the keys of uncommitted records.
fn edge_key(tree: &Arc<Tree>, edge: TreeEdge) -> Result<Option<Vec<u8>>> {
    {
        let leaf = tree.leaf_for_read(if edge == TreeEdge::First {
            DescentTarget::First
        } else {
            DescentTarget::Last
        })?;
        let page = tree.view(&leaf);
        let line = if edge == TreeEdge::First { 0 } else { page.node_count().saturating_sub(1) };
        if let Some(node) = page.node(line) {
            return Ok(Some(node.key_to_vec()));
        }
    }
    let (view, mut cursor) = (ReadView::latest(), TreeCursor::new(tree.clone()));
    let found = if edge == TreeEdge::First { cursor.first(&view)? } else { cursor.last(&view)? };
    Ok(cursor.bookmark().filter(|_| found).map(|bookmark| bookmark.key().to_vec()))
}
