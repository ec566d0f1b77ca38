//! Rows of `MSysObjids`, which maps each tree to its table.
//!
//! There is one row per table, secondary index, and long-value tree. The key is the tree id. All columns are tagged.

use super::row::{CatalogError, RowKind, long};
use super::system::objids_columns;
use crate::record::{Column, ColumnId, ColumnValue, Record, RecordBuilder, RecordError};
use crate::{PageSize, TreeId};

/// A row of the system table `MSysObjids`, which names the table that owns a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeOwner {
    /// Tree that the row describes.
    pub tree: TreeId,
    /// Table to which the tree belongs. For a table's main tree, this is the table itself.
    pub table: TreeId,
    /// Kind of object that the tree contains.
    pub kind: RowKind,
}

impl TreeOwner {
    /// Returns the key of the row.
    pub fn key(&self) -> Vec<u8> {
        long(self.tree.0).to_vec()
    }

    /// Encodes the row as a record.
    pub fn encode(&self, size: PageSize) -> Result<Vec<u8>, RecordError> {
        let mut record = RecordBuilder::new(objids_columns(), size);
        record.set(ColumnId(256), Some(&self.tree.0.to_le_bytes()))?;
        record.set(ColumnId(257), Some(&self.table.0.to_le_bytes()))?;
        record.set(ColumnId(258), Some(&self.kind.code().to_le_bytes()))?;
        record.build()
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8], size: PageSize) -> Result<TreeOwner, CatalogError> {
        let [tree, table, kind] = objids_columns() else { return Err(CatalogError::Missing(ColumnId(256))) };
        let record = Record::new(bytes, size);
        let kind = i16::from_le_bytes(array(&record, kind)?);
        Ok(TreeOwner {
            tree: TreeId(u32::from_le_bytes(array(&record, tree)?)),
            table: TreeId(u32::from_le_bytes(array(&record, table)?)),
            kind: RowKind::from_code(kind).ok_or(CatalogError::UnknownKind(kind))?,
        })
    }
}

fn array<const N: usize>(record: &Record<'_>, column: &Column) -> Result<[u8; N], CatalogError> {
    match record.get(column)? {
        ColumnValue::Bytes(bytes) => bytes.try_into().map_err(|_| CatalogError::Missing(column.id)),
        _ => Err(CatalogError::Missing(column.id)),
    }
}
