//! Creates tables and indexes.

use jetcell_sync::Arc;

use ese_format::TreeId;
use ese_format::catalog::{Index, RowKind, TableSchema};
use ese_format::page::PageFlags;

use super::{IndexDefinition, OpenTables, SMALL_TREE, TableDefinition, TableState};
use crate::btree::{OpenTrees, Tree};
use crate::catalog::SYSTEM_ROOT;
use crate::transaction::ActiveTransaction;
use crate::{Result, UsageError};

/// Creates a table with its indexes. Returns its tree.
pub(crate) fn create_table(
    session: &mut ActiveTransaction,
    tables: &OpenTables,
    definition: &TableDefinition,
) -> Result<TreeId> {
    let (system, trees) = (&tables.system, &tables.system.trees);
    let draft = definition.schema(trees.file.page_size)?;
    let _changing = system.changing.lock();
    session.statement(true, |session| {
        if system.find(&session.view(), &definition.name)?.is_some() {
            return Err(UsageError::TableExists(definition.name.clone()).into());
        }
        let tree =
            trees.create_tree(session.changes()?, SYSTEM_ROOT, PageFlags::empty(), definition.pages)?;
        let mut schema = TableSchema { tree: tree.id, root: tree.root, ..draft };
        for index in &mut schema.indexes {
            let tree =
                if index.is_primary() { tree.clone() } else { index_tree(session, trees, &tree, index)? };
            (index.tree, index.root) = (tree.id, tree.root);
        }
        schema.indexes.sort_by_key(|index| index.tree);
        if schema.columns.iter().any(|column| column.kind.is_long()) {
            // The tree is created now, in this transaction. If it were created later, it would be invisible to other
            // sessions' transactions.
            let tree = trees.create_tree(session.changes()?, tree.root, PageFlags::LONG_VALUE, SMALL_TREE)?;
            schema.long_values = Some((tree.id, tree.root));
        }
        for row in schema.rows() {
            system.insert_row(session, &row)?;
        }
        system.insert_owner(session, schema.tree, schema.tree, RowKind::Table)?;
        for index in schema.secondary_indexes() {
            system.insert_owner(session, index.tree, schema.tree, RowKind::Index)?;
        }
        if let Some((tree, _)) = schema.long_values {
            system.insert_owner(session, tree, schema.tree, RowKind::LongValues)?;
        }
        Ok(schema.tree)
    })
}

/// Creates a secondary index on a table that no session has open. `fill` adds the entries of all records to the new
/// tree. Returns the table's tree.
pub(crate) fn create_index(
    session: &mut ActiveTransaction,
    tables: &OpenTables,
    table: &str,
    definition: &IndexDefinition,
    fill: impl FnOnce(&mut ActiveTransaction, &TableState, &Index, &Arc<Tree>) -> Result<()>,
) -> Result<TreeId> {
    let (system, trees) = (&tables.system, &tables.system.trees);
    let _changing = system.changing.lock();
    let changed = session.statement(true, |session| {
        let view = session.view();
        let own_transaction = view.own.clone().ok_or(UsageError::NoTransaction)?;
        session.services().check_writable()?;
        let state = tables.open(session.services(), &view, table)?;
        let mut index = definition.index(&state.schema, trees.file.page_size)?;
        if index.is_primary() {
            return Err(UsageError::LaterPrimaryIndex.into());
        }
        tables.begin_change(state.schema.tree, &own_transaction)?;
        let tree = index_tree(session, trees, &state.tree, &index)?;
        (index.tree, index.root) = (tree.id, tree.root);
        system.insert_row(session, &state.schema.index_row(&index))?;
        system.insert_owner(session, tree.id, state.schema.tree, RowKind::Index)?;
        fill(session, &state, &index, &tree)?;
        let mut schema = state.schema.clone();
        schema.long_values = state.long_values.get().map(|tree| (tree.id, tree.root));
        schema.indexes.push(index);
        TableState::new(system, schema)
    })?;
    // This must come after the statement. If the statement's commit fails, the index does not exist.
    let id = changed.schema.tree;
    tables.changed(id, Arc::new(changed));
    Ok(id)
}

fn index_tree(
    session: &mut ActiveTransaction,
    trees: &OpenTrees,
    table: &Tree,
    index: &Index,
) -> Result<Arc<Tree>> {
    let order = if index.is_unique() { PageFlags::empty() } else { PageFlags::NON_UNIQUE };
    trees.create_tree(session.changes()?, table.root, PageFlags::INDEX | order, SMALL_TREE)
}
