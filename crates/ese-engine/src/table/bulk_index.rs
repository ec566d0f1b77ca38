//! Bulk-loads a new index on a table that already has records.

use ese_format::TreeId;
use ese_format::catalog::Index;
use jetcell_sync::Arc;

use super::bulk_load::{LoadSettings, build_index, make_visible, sorter};
use super::rows::for_each_record;
use super::{IndexDefinition, OpenTables, TableState, create_index};
use crate::btree::Tree;
use crate::transaction::ActiveTransaction;
use crate::{Error, Result};

/// Load progress: the number of records read, the total size of their entries in bytes, and the index page count.
#[derive(Clone, Copy, Default)]
pub(crate) struct IndexProgress {
    pub records: u64,
    pub entry_bytes: u64,
    pub pages: u64,
}

/// Number of records between two checks for cancellation.
const RECORDS_PER_QUESTION: u64 = 1000;

/// Creates a secondary index on a table that no session has open. The index entries are sorted and written as full,
/// unlogged pages. Returns the table's tree and the numbers of records and pages.
pub(crate) fn create_index_in_bulk(
    session: &mut ActiveTransaction,
    tables: &OpenTables,
    table: &str,
    definition: &IndexDefinition,
    settings: LoadSettings,
    should_continue: &mut dyn FnMut(IndexProgress) -> bool,
) -> Result<(TreeId, IndexProgress)> {
    let mut progress = IndexProgress::default();
    let tree = create_index(session, tables, table, definition, |session, state, index, tree| {
        let filled = fill(session, state, index, tree, &settings, &mut |now| {
            progress = now;
            should_continue(now)
        });
        if filled.is_err() {
            // The pages must be durable, because a power failure after the rollback could tear them, and no code
            // would check them again.
            let _ = tree.file.cache.sync_file(tree.file.file_id);
        }
        filled
    })?;
    Ok((tree, progress))
}

fn fill(
    session: &mut ActiveTransaction,
    state: &TableState,
    index: &Index,
    tree: &Arc<Tree>,
    settings: &LoadSettings,
    should_continue: &mut dyn FnMut(IndexProgress) -> bool,
) -> Result<()> {
    let mut entries = sorter(tree, settings.sort_bytes, settings);
    let mut progress = IndexProgress::default();
    for_each_record(session, state, index, &mut |_, keys, row| {
        keys.iter().try_for_each(|key| entries.add(&key.bytes, row))?;
        progress.records += 1;
        progress.entry_bytes = entries.bytes;
        if progress.records % RECORDS_PER_QUESTION != 0 || should_continue(progress) {
            Ok(())
        } else {
            Err(Error::Cancelled)
        }
    })?;
    let density = settings.density.unwrap_or(index.density);
    let of_pages = |pages| IndexProgress { pages, ..progress };
    let built = build_index(tree, density, settings, entries, &mut |pages| should_continue(of_pages(pages)))?;
    if !should_continue(of_pages(built.pages)) {
        return Err(Error::Cancelled);
    }
    make_visible(&tree.file, &[built])
}
