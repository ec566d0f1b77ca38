//! Adds rows to the catalog's trees.

use ese_format::catalog::{CatalogRow, RowKind, TreeOwner};
use ese_format::{PageNumber, TreeId};

use super::SystemTables;
use super::initial::{CATALOG_ROOT, NAME_ROOT, ROOT_OBJECTS_ROOT, SHADOW_ROOT};
use crate::transaction::{ActiveTransaction, ReadView};
use crate::{InternalError, Result};

impl SystemTables {
    /// Adds a row to both catalogs and their indexes.
    pub fn insert_row(&self, session: &mut ActiveTransaction, row: &CatalogRow) -> Result<()> {
        let page_size = self.trees.file.page_size;
        let (key, data) = (row.key(), row.encode(page_size).map_err(InternalError::CatalogRow)?);
        let mut insert = |root: PageNumber, key: &[u8], data: &[u8]| {
            self.trees.tree_at(root)?.insert(session.changes()?, key, data)
        };
        insert(CATALOG_ROOT, &key, &data)?;
        insert(SHADOW_ROOT, &key, &data)?;
        insert(NAME_ROOT, &row.name_key(), &key)?;
        row.root_objects_key().map_or(Ok(()), |name| insert(ROOT_OBJECTS_ROOT, &name, &key))
    }

    /// Records in `MSysObjids` which table a tree belongs to.
    pub fn insert_owner(
        &self,
        session: &mut ActiveTransaction,
        tree: TreeId,
        table: TreeId,
        kind: RowKind,
    ) -> Result<()> {
        // In databases created by an older version, this table has a different location or does not exist.
        let view = ReadView::latest();
        let Some(owners) = self.find(&view, "MSysObjids")? else { return Ok(()) };
        let Some(owners) = self.schema(&view, owners)? else { return Ok(()) };
        let owner = TreeOwner { tree, table, kind };
        let data = owner.encode(self.trees.file.page_size).map_err(InternalError::CatalogRow)?;
        self.trees.tree_at(owners.root)?.insert(session.changes()?, &owner.key(), &data)
    }
}
