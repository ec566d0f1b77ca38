//! The bulk load of one table: rows become nodes in its trees.

use std::borrow::Cow;

use ese_format::index_entries::KeyList;
use ese_format::key::KeyError;
use ese_format::long_value::{LongValueId, LongValueRoot, encode_chunk};
use ese_format::record::{ColumnId, Record, Value};
use jetcell_sync::Arc;
use smallvec::SmallVec;

use super::TableState;
use super::rows::{new_record, new_values};
use crate::btree::Tree;
use crate::bulk::{BuiltTree, BulkWriteOptions, NodeSorter, TreeBuilder, link};
use crate::storage::DatabaseFile;
use crate::{Error, InternalError, Result, UsageError};

/// Settings for a load: memory, writes, and density.
#[derive(Clone)]
pub(crate) struct LoadSettings {
    /// Percentage to which pages are filled. `None` means the density of the table or index.
    pub density: Option<u32>,
    /// Memory in bytes for the sorts of all indexes together.
    pub sort_bytes: usize,
    pub transfers: BulkWriteOptions,
}

/// Bulk load of a new table that is not yet visible to other sessions.
pub(crate) struct TableLoad {
    state: Arc<TableState>,
    settings: LoadSettings,
    records: TreeBuilder,
    long_values: Option<TreeBuilder>,
    /// One sorter per secondary index.
    entries: Vec<NodeSorter>,
    row: Vec<u8>,
    keys: RowKeys,
    pub rows: u64,
    /// The error that makes it impossible to complete the load.
    failed: Option<Error>,
}

/// Keys of the current row: the primary key, and the keys of each index.
#[derive(Default)]
struct RowKeys {
    keys: KeyList,
    /// Cumulative key counts: after the primary key, and then after the keys of each index.
    ends: Vec<usize>,
}

impl RowKeys {
    /// Replaces the keys with those of another row.
    fn make(
        &mut self,
        state: &TableState,
        record: &Record<'_>,
        long_values: &RowLongValues<'_>,
    ) -> Result<()> {
        let (schema, mut source) = (&state.schema, |id: LongValueId| long_values.get(id));
        self.keys.clear();
        self.ends.clear();
        match schema.primary_index() {
            Some(index) => {
                self.keys.push_index_keys(schema, index, record, &mut source).map_err(UsageError::from)?;
            }
            None => self.keys.push(&state.next_row()?),
        }
        if self.keys.is_empty() {
            return Err(UsageError::Key(KeyError::NullNotAllowed).into());
        }
        self.ends.push(self.keys.len());
        for entry in &state.indexes {
            let pushed = self.keys.push_index_keys(schema, &entry.index, record, &mut source);
            pushed.map_err(UsageError::from)?;
            self.ends.push(self.keys.len());
        }
        Ok(())
    }

    fn primary(&self) -> &[u8] {
        self.keys.keys(0..1).next().unwrap_or_default()
    }

    /// Adds the entries of the row to the sorter of each index.
    fn add_entries(&self, sorters: &mut [NodeSorter]) -> Result<()> {
        let primary = self.primary();
        for (sorter, of_index) in sorters.iter_mut().zip(self.ends.windows(2)) {
            self.keys.keys(of_index[0]..of_index[1]).try_for_each(|entry| sorter.add(entry, primary))?;
        }
        Ok(())
    }
}

/// Long values of the current row.
#[derive(Default)]
struct RowLongValues<'v>(SmallVec<[(LongValueId, Cow<'v, [u8]>); 2]>);

impl<'v> RowLongValues<'v> {
    fn get(&self, id: LongValueId) -> Option<Vec<u8>> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, value)| value.to_vec())
    }

    /// Assigns a number to a value. Its nodes are added together with the record.
    fn store(&mut self, state: &TableState, value: Cow<'v, [u8]>) -> Result<LongValueId> {
        if value.len() > i32::MAX as usize {
            return Err(UsageError::LongValueTooLong.into());
        }
        let tree = state.long_values.get();
        let tree = tree.ok_or(InternalError::NoLongValueTree)?;
        let id = state.next_long_value(tree)?;
        self.0.push((id, value));
        Ok(id)
    }

    /// Adds the nodes of the values. The values' numbers are ascending, so the nodes are in order.
    fn append_to(&self, builder: &mut TreeBuilder, chunk_size: usize) -> Result<()> {
        for (id, value) in &self.0 {
            let mut key = id.root_key();
            let id_bytes = key.len();
            builder.append(&key, &LongValueRoot::new(value.len() as u32).encode())?;
            for (at, chunk) in value.chunks(chunk_size).enumerate() {
                key.truncate(id_bytes);
                key.extend_from_slice(&((at * chunk_size) as u32).to_be_bytes());
                builder.append(&key, &encode_chunk(chunk, at))?;
            }
        }
        Ok(())
    }
}

impl TableLoad {
    pub fn new(state: Arc<TableState>, settings: LoadSettings) -> TableLoad {
        let records = TreeBuilder::new(
            &state.tree,
            settings.density.unwrap_or(state.schema.density),
            &settings.transfers,
        );
        let of_tree = |tree: &Arc<Tree>| TreeBuilder::new(tree, 100, &settings.transfers);
        let share = settings.sort_bytes / state.indexes.len().max(1);
        TableLoad {
            records,
            long_values: state.long_values.get().map(of_tree),
            entries: state.indexes.iter().map(|entry| sorter(&entry.tree, share, &settings)).collect(),
            row: Vec::new(),
            keys: RowKeys::default(),
            rows: 0,
            failed: None,
            settings,
            state,
        }
    }

    /// Returns the number of pages built so far.
    pub fn pages(&self) -> u64 {
        self.records.pages() + self.long_values.as_ref().map_or(0, TreeBuilder::pages)
    }

    /// Returns the total size of all index entries in bytes.
    pub fn entry_bytes(&self) -> u64 {
        self.entries.iter().map(|sorter| sorter.bytes).sum()
    }

    /// Adds a row. If the row is rejected, the load is unchanged.
    pub fn push(&mut self, row: &[(ColumnId, Value)]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let state = &*self.state;
        let (values, chosen) = new_values(state, row)?;
        let mut long_values = RowLongValues::default();
        new_record(state, &values, &mut self.row, &mut long_values, RowLongValues::store)?;
        chosen.into_iter().for_each(|value| state.advance_increment_to(value));
        self.keys.make(state, &Record::new(&self.row, state.tree.file.page_size), &long_values)?;
        // Only this call can reject the row.
        match self.records.append(self.keys.primary(), &self.row) {
            Err(refused @ (Error::OutOfOrder | Error::KeyDuplicate)) => return Err(refused),
            added => added.and_then(|()| {
                if let Some(builder) = &mut self.long_values {
                    long_values.append_to(builder, state.schema.chunk_size(state.tree.file.page_size))?;
                }
                self.keys.add_entries(&mut self.entries)
            }),
        }
        // After an error, part of the row may already be in the trees.
        .inspect_err(|error| self.failed = Some(error.clone()))?;
        self.rows += 1;
        Ok(())
    }

    /// Builds the indexes, makes all pages durable, and links them to the trees. `should_continue` is called
    /// periodically with the number of rows and pages for as long as the load can be cancelled. If it returns false,
    /// the load is cancelled.
    pub fn complete(mut self, should_continue: &mut dyn FnMut(u64, u64) -> bool) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)?;
        let mut built: Vec<BuiltTree> = Vec::new();
        let (rows, mut pages) = (self.rows, self.pages());
        let entries = std::mem::take(&mut self.entries);
        for (entry, sorter) in self.state.indexes.iter().zip(entries) {
            let density = self.settings.density.unwrap_or(entry.index.density);
            let mut should_continue = |of_index| should_continue(rows, pages + of_index);
            built.push(build_index(&entry.tree, density, &self.settings, sorter, &mut should_continue)?);
            pages += built.last().map_or(0, |tree| tree.pages);
        }
        if let Some(builder) = self.long_values.take() {
            built.push(builder.complete()?);
        }
        built.push(self.records.complete()?);
        let pages = built.iter().map(|tree| tree.pages).sum();
        if !should_continue(rows, pages) {
            return Err(Error::Cancelled);
        }
        make_visible(&self.state.tree.file, &built)
    }
}

/// Builds an index from the given entries. Calls `should_continue` with the number of pages whenever a page is full.
pub(super) fn build_index(
    tree: &Arc<Tree>,
    density: u32,
    settings: &LoadSettings,
    entries: NodeSorter,
    should_continue: &mut dyn FnMut(u64) -> bool,
) -> Result<BuiltTree> {
    let mut builder = TreeBuilder::new(tree, density, &settings.transfers);
    let (mut sorted, mut reported) = (entries.finish()?, 0);
    while let Some((key, data)) = sorted.next()? {
        builder.append(key, data)?;
        if builder.pages() != reported {
            reported = builder.pages();
            if !should_continue(reported) {
                return Err(Error::Cancelled);
            }
        }
    }
    builder.complete()
}

/// Makes the built pages durable, and then links them to their trees.
pub(super) fn make_visible(file: &DatabaseFile, built: &[BuiltTree]) -> Result<()> {
    if built.iter().any(|tree| tree.written.is_some()) {
        file.cache.sync_file(file.file_id)?;
        file.forget_backups()?;
    }
    built.iter().try_for_each(link)
}

/// Creates a sorter for the entries of an index. The sorter uses `memory` bytes and a temporary file in the
/// database's directory.
pub(super) fn sorter(tree: &Tree, memory: usize, settings: &LoadSettings) -> NodeSorter {
    let mut name = tree.file.path.clone().into_os_string();
    name.push(format!(".{}.sort", tree.id.0));
    NodeSorter::new(tree.file.vfs.clone(), name.into(), memory, settings.transfers.buffers.clone())
}
