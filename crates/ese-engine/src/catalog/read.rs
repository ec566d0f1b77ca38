//! Reads definitions from the catalog's trees.

use ese_format::catalog::{CatalogError, CatalogRow, RowKind, TableFlags, TableSchema, assemble};
use ese_format::{PageNumber, TreeId};

use super::SystemTables;
use super::initial::{CATALOG_ROOT, ROOT_OBJECTS_ROOT};
use crate::btree::{SeekRelation, Tree, TreeCursor};
use crate::transaction::ReadView;
use crate::{Corruption, Result};

/// A tree that is listed in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatalogTree {
    pub id: TreeId,
    /// The table to which the tree belongs.
    pub table: TreeId,
    pub root: PageNumber,
    /// Percentage to which pages of the tree are filled.
    pub density: u32,
}

impl SystemTables {
    /// Returns the id of the table with this name.
    pub fn find(&self, view: &ReadView, name: &str) -> Result<Option<TreeId>> {
        let wanted = CatalogRow::new(TreeId(0), RowKind::Table, 0, 0, name);
        let Some(key) = wanted.root_objects_key() else { return Ok(None) };
        let index = self.trees.tree_at(ROOT_OBJECTS_ROOT)?;
        let Some(bookmark) = index.get(view, &key, <[u8]>::to_vec)? else { return Ok(None) };
        let id = bookmark.get(1..5).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let id = id.ok_or_else(|| index.file.corrupt(index.root, Corruption::NoCatalogRow))?;
        Ok(Some(TreeId(id ^ 0x8000_0000)))
    }

    /// Returns the names of all tables except the engine's own.
    pub fn names(&self, view: &ReadView) -> Result<Vec<String>> {
        let (catalog, mut names) = (self.trees.tree_at(CATALOG_ROOT)?, Vec::new());
        let mut tables = TreeCursor::new(self.trees.tree_at(ROOT_OBJECTS_ROOT)?);
        let mut found = tables.first(view)?;
        while found {
            if let Some(bytes) = catalog.get(view, tables.data(), <[u8]>::to_vec)?
                && let Some(row) = decode(&catalog, &bytes)?
                && !TableFlags::from_bits_retain(row.flags).contains(TableFlags::SYSTEM)
            {
                names.push(row.name);
            }
            found = tables.next(view)?;
        }
        Ok(names)
    }

    /// Returns the definition of a table from the catalog, including the columns that it inherits.
    pub fn schema(&self, view: &ReadView, table: TreeId) -> Result<Option<TableSchema>> {
        let schema = |table| -> Result<Option<TableSchema>> {
            Ok(assemble(self.rows(view, table)?).into_iter().next())
        };
        let Some(mut derived) = schema(table)? else { return Ok(None) };
        let Some(name) = derived.template.clone() else { return Ok(Some(derived)) };
        let template = self.find(view, &name)?.map(schema).transpose()?.flatten();
        let catalog = self.trees.tree_at(CATALOG_ROOT)?;
        let missing = || catalog.file.corrupt(catalog.root, Corruption::NoTemplate(name));
        derived.inherit(&template.ok_or_else(missing)?);
        Ok(Some(derived))
    }

    /// Returns the root page of a table's long-value tree.
    pub fn long_values(&self, view: &ReadView, table: TreeId) -> Result<Option<PageNumber>> {
        let row = self.rows(view, table)?.into_iter().find(|row| row.kind == RowKind::LongValues);
        Ok(row.and_then(|row| PageNumber::new(row.root_or_type)))
    }

    /// Returns the trees of all tables, including the engine's own, sorted by id.
    pub fn all_trees(&self, view: &ReadView) -> Result<Vec<CatalogTree>> {
        let catalog = self.trees.tree_at(CATALOG_ROOT)?;
        let (mut cursor, mut trees) = (TreeCursor::new(catalog.clone()), Vec::new());
        let mut found = cursor.first(view)?;
        while found {
            if let Some(row) = decode(&catalog, cursor.data())?
                && matches!(row.kind, RowKind::Table | RowKind::Index | RowKind::LongValues)
                && let Some(root) = PageNumber::new(row.root_or_type)
            {
                let id = if row.kind == RowKind::Table { row.table } else { TreeId(row.id) };
                trees.push(CatalogTree { id, table: row.table, root, density: row.space });
            }
            found = cursor.next(view)?;
        }
        // A primary index shares the tree of its table, so that tree is listed twice.
        trees.sort_unstable_by_key(|tree| tree.id);
        trees.dedup_by_key(|tree| tree.id);
        Ok(trees)
    }

    /// Returns the name of the table that a tree belongs to, and the name of the tree itself unless it is the table's
    /// own tree.
    pub fn names_of(&self, view: &ReadView, tree: &CatalogTree) -> Result<(String, Option<String>)> {
        let rows = self.rows(view, tree.table)?;
        let name_of = |is_it: &dyn Fn(&CatalogRow) -> bool| {
            rows.iter().find(|row| is_it(row)).map(|row| row.name.clone())
        };
        let table = name_of(&|row| row.kind == RowKind::Table).unwrap_or_default();
        let own = name_of(&|row| {
            matches!(row.kind, RowKind::Index | RowKind::LongValues) && TreeId(row.id) == tree.id
        });
        Ok((table, own.filter(|_| tree.id != tree.table)))
    }

    fn rows(&self, view: &ReadView, table: TreeId) -> Result<Vec<CatalogRow>> {
        let catalog = self.trees.tree_at(CATALOG_ROOT)?;
        let prefix = CatalogRow::table_prefix(table);
        let (mut cursor, mut rows) = (TreeCursor::new(catalog.clone()), Vec::new());
        let mut found = cursor.seek(view, &prefix, SeekRelation::GreaterOrEqual)?;
        while found && cursor.bookmark().is_some_and(|bookmark| bookmark.key().starts_with(&prefix)) {
            rows.extend(decode(&catalog, cursor.data())?);
            found = cursor.next(view)?;
        }
        Ok(rows)
    }
}

/// Decodes a catalog row. Returns `None` for row kinds that only other versions use.
fn decode(catalog: &Tree, bytes: &[u8]) -> Result<Option<CatalogRow>> {
    match CatalogRow::decode(bytes, catalog.file.page_size) {
        Ok(row) => Ok(Some(row)),
        Err(CatalogError::UnknownKind(_)) => Ok(None),
        Err(error) => Err(catalog.file.corrupt(catalog.root, error)),
    }
}
