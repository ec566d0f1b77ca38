//! Creating tables, indexes and long-value trees.

use ese_format::catalog::{CatalogRow, Index, RowKind, TableSchema, TreeOwner};
use ese_format::page::PageFlags;
use ese_format::{PageNumber, TreeId};
use jetcell_sync::Arc;

use super::initial::{CATALOG_ROOT, NAME_ROOT, ROOT_OBJECTS_ROOT, SHADOW_ROOT, SYSTEM_ROOT};
use super::{find, read};
use crate::btree::Tree;
use crate::database::Database;
use crate::session::ActiveTransaction;
use crate::table::{IndexDefinition, TableDefinition, TableState, fill_index, statement};
use crate::versions::View;
use crate::{Error, Result};

/// Pages of a new index or long-value tree.
const SMALL_TREE: u32 = 3;

/// Session number of the engine's own transactions in a database; sessions of users have lower ones.
pub(crate) const FIRST_OWN_PROCID: u16 = 0xfff0;

/// Creates a table with its indexes; returns its tree.
pub(crate) fn create_table(
    session: &mut ActiveTransaction,
    db: &Arc<Database>,
    definition: &TableDefinition,
) -> Result<TreeId> {
    let draft = definition.schema(db.page_size)?;
    let _changing = db.catalog.changing.lock();
    statement(session, true, |session| {
        if find(db, &session.view(), &definition.name)?.is_some() {
            return Err(Error::Usage(format!("table {:?} exists already", definition.name)));
        }
        let tree = session.create_tree(db, SYSTEM_ROOT, PageFlags::empty(), definition.pages)?;
        let mut schema = TableSchema { tree: tree.id, root: tree.root, ..draft };
        for index in &mut schema.indexes {
            let tree = if index.is_primary() { tree.clone() } else { index_tree(session, db, &tree, index)? };
            (index.tree, index.root) = (tree.id, tree.root);
        }
        schema.indexes.sort_by_key(|index| index.tree);
        if schema.columns.iter().any(|column| column.kind.is_long()) {
            // Here and now, because other sessions' transactions could not see one made later in this transaction.
            let tree = session.create_tree(db, tree.root, PageFlags::LONG_VALUE, SMALL_TREE)?;
            schema.long_values = Some((tree.id, tree.root));
        }
        for row in schema.rows() {
            insert_row(session, db, &row)?;
        }
        own(session, db, schema.tree, schema.tree, RowKind::Table)?;
        for index in schema.secondary_indexes() {
            own(session, db, index.tree, schema.tree, RowKind::Index)?;
        }
        if let Some((tree, _)) = schema.long_values {
            own(session, db, tree, schema.tree, RowKind::LongValues)?;
        }
        Ok(schema.tree)
    })
}

/// Creates a secondary index of a table that nobody has open, and fills it; returns the table's tree.
pub(crate) fn create_index(
    session: &mut ActiveTransaction,
    db: &Arc<Database>,
    table: &str,
    definition: &IndexDefinition,
) -> Result<TreeId> {
    let _changing = db.catalog.changing.lock();
    let changed = statement(session, true, |session| {
        let view = session.view();
        let own_transaction =
            view.own.clone().ok_or_else(|| Error::Usage("no transaction has begun".to_string()))?;
        db.core.check_writable()?;
        let state = db.catalog.open(db, &view, table)?;
        let mut index = definition.index(&state.schema, db.page_size)?;
        if index.is_primary() {
            return Err(Error::Usage("the primary index is created with its table".to_string()));
        }
        db.catalog.begin_change(state.schema.tree, &own_transaction)?;
        let tree = index_tree(session, db, &state.tree, &index)?;
        (index.tree, index.root) = (tree.id, tree.root);
        insert_row(session, db, &state.schema.index_row(&index))?;
        own(session, db, tree.id, state.schema.tree, RowKind::Index)?;
        fill_index(session, &state, &index, &tree)?;
        let mut schema = state.schema.clone();
        schema.long_values = state.long_values.get().map(|tree| (tree.id, tree.root));
        schema.indexes.push(index);
        TableState::new(db, schema)
    })?;
    // Not before: the commit of the statement can fail, and then the index is gone.
    let id = changed.schema.tree;
    db.catalog.changed(id, Arc::new(changed));
    Ok(id)
}

/// The long-value tree of a table, created if it has none yet: in a transaction of its own, as others will use it.
pub(crate) fn long_value_tree(db: &Arc<Database>, state: &TableState) -> Result<Arc<Tree>> {
    if let Some(tree) = state.long_values.get() {
        return Ok(tree.clone());
    }
    let _changing = db.catalog.changing.lock();
    if let Some(tree) = state.long_values.get() {
        return Ok(tree.clone());
    }
    let table = state.schema.tree;
    let tree = match read::long_values(db, &View::latest(), table)? {
        Some(root) => db.tree_at(root)?,
        None => {
            let procid = FIRST_OWN_PROCID + u16::from(db.log_id);
            let mut session = ActiveTransaction::new(db.core.clone(), procid);
            session.begin()?;
            let tree = session.create_tree(db, state.tree.root, PageFlags::LONG_VALUE, SMALL_TREE)?;
            let mut schema = TableSchema::new(&state.schema.name, table, state.tree.root);
            schema.long_values = Some((tree.id, tree.root));
            if let Some(row) = schema.long_value_row() {
                insert_row(&mut session, db, &row)?;
            }
            own(&mut session, db, tree.id, table, RowKind::LongValues)?;
            session.commit()?;
            tree
        }
    };
    Ok(state.long_values.get_or_init(|| tree).clone())
}

fn index_tree(
    session: &mut ActiveTransaction,
    db: &Arc<Database>,
    table: &Tree,
    index: &Index,
) -> Result<Arc<Tree>> {
    let order = if index.is_unique() { PageFlags::empty() } else { PageFlags::NON_UNIQUE };
    session.create_tree(db, table.root, PageFlags::INDEX | order, SMALL_TREE)
}

fn insert_row(session: &mut ActiveTransaction, db: &Arc<Database>, row: &CatalogRow) -> Result<()> {
    let (key, data) = (row.key(), row.encode(db.page_size).map_err(|e| Error::Usage(e.to_string()))?);
    let mut insert = |root: PageNumber, key: &[u8], data: &[u8]| db.tree_at(root)?.insert(session, key, data);
    insert(CATALOG_ROOT, &key, &data)?;
    insert(SHADOW_ROOT, &key, &data)?;
    insert(NAME_ROOT, &row.name_key(), &key)?;
    row.root_objects_key().map_or(Ok(()), |name| insert(ROOT_OBJECTS_ROOT, &name, &key))
}

fn own(
    session: &mut ActiveTransaction,
    db: &Arc<Database>,
    tree: TreeId,
    table: TreeId,
    kind: RowKind,
) -> Result<()> {
    // Databases that began with an older version have it elsewhere, or not at all.
    let view = View::latest();
    let Some(owners) = find(db, &view, "MSysObjids")? else { return Ok(()) };
    let Some(owners) = read::schema(db, &view, owners)? else { return Ok(()) };
    let owner = TreeOwner { tree, table, kind };
    let data = owner.encode(db.page_size).map_err(|e| Error::Usage(e.to_string()))?;
    db.tree_at(owners.root)?.insert(session, &owner.key(), &data)
}
