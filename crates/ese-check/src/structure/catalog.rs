//! Reads the tables, columns, indexes, and trees described by the catalog, and compares the catalog with its shadow.
//!
//! The catalog's own schema is built in, because the catalog cannot describe itself: in every ESE database, the rows
//! for the catalog's fixed columns contain wrong offsets.

use std::collections::HashMap;
use std::iter;

use ese_format::page::PageFlags;
use ese_format::record::{CodePage, layout_fixed_columns};
use ese_format::record::{Column, ColumnClass, ColumnFlags, ColumnId, ColumnType, ColumnValue, Record};
use ese_format::{PageNumber, TreeId};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, hex};
use crate::pages::reader::VerifiedPageReader;
use crate::structure::tree::{TreeWalker, walk};
use crate::structure::tree_shape::TreeShape;

const CATALOG: &str = "MSysObjects";
const SHADOW: &str = "MSysObjectsShadow";

/// The readable part of the catalog.
pub(crate) struct CheckedCatalog {
    /// Tables in catalog order.
    pub(crate) tables: Vec<CheckedTable>,
    /// Whether the whole catalog could be read.
    pub(crate) complete: bool,
}

/// A table in the catalog.
pub(crate) struct CheckedTable {
    pub(crate) name: String,
    pub(crate) tree: TreeId,
    pub(crate) root: PageNumber,
    /// Columns, sorted by number. Deleted columns are in `deleted_columns`.
    pub(crate) columns: Vec<Column>,
    pub(crate) deleted_columns: Vec<ColumnId>,
    /// Index that determines the order of the records.
    pub(crate) primary: Option<CheckedIndex>,
    /// Secondary indexes.
    pub(crate) indexes: Vec<CheckedIndex>,
    pub(crate) long_values: Option<(TreeId, PageNumber)>,
    /// Number of bytes of a long value stored per node, if the catalog specifies it for this table.
    pub(crate) chunk_len: Option<u32>,
}

/// An index in the catalog.
#[derive(Clone)]
pub(crate) struct CheckedIndex {
    pub(crate) name: String,
    pub(crate) tree: TreeId,
    pub(crate) root: PageNumber,
    /// Flags of the index. ESE: `fidb` in the lower half, `fidx` in the upper half.
    pub(crate) flags: u32,
    /// Flags and column of each segment.
    pub(crate) segments: Vec<(u8, ColumnId)>,
    pub(crate) max_key_len: usize,
    /// Maximum number of key bytes from one variable-length segment.
    pub(crate) max_segment_len: Option<usize>,
    /// Whether the index is of a kind whose keys the check cannot rebuild: conditional, tuple, or an obsolete form.
    pub(crate) cannot_rebuild: bool,
}

impl CheckedIndex {
    pub(crate) const UNIQUE: u32 = 0x1;
    pub(crate) const PRIMARY: u32 = 0x20;
    /// Flag of an index on a column that may have several values.
    pub(crate) const MULTI_VALUED: u32 = 0x80;

    pub(crate) fn shape(&self, table: &CheckedTable) -> TreeShape {
        let kind =
            if self.flags & CheckedIndex::UNIQUE == 0 { PageFlags::NON_UNIQUE } else { PageFlags::empty() };
        TreeShape {
            root: self.root,
            tree: self.tree,
            kind: PageFlags::INDEX | kind,
            label: format!("{} / index {}", table.name, self.name),
        }
    }
}

impl CheckedTable {
    pub(crate) fn shape(&self) -> TreeShape {
        let label = self.name.clone();
        TreeShape { root: self.root, tree: self.tree, kind: PageFlags::empty(), label }
    }

    pub(crate) fn long_value_shape(&self) -> Option<TreeShape> {
        let (tree, root) = self.long_values?;
        let label = format!("{} / long values", self.name);
        Some(TreeShape { root, tree, kind: PageFlags::LONG_VALUE, label })
    }

    /// Returns the root and object id of each of the table's trees, in the order in which they are checked: the
    /// table, its indexes, its long values.
    pub(crate) fn trees(&self) -> impl Iterator<Item = (PageNumber, TreeId)> {
        let indexes = self.indexes.iter().map(|index| (index.root, index.tree));
        let long_values = self.long_values.map(|(tree, root)| (root, tree));
        iter::once((self.root, self.tree)).chain(indexes).chain(long_values)
    }

    pub(crate) fn column(&self, id: ColumnId) -> Option<&Column> {
        self.columns
            .binary_search_by_key(&id, |column| column.id)
            .ok()
            .and_then(|index| self.columns.get(index))
    }
}

/// Returns the catalog columns that a check needs.
fn schema() -> Vec<Column> {
    let mut columns: Vec<Column> = [
        (1, ColumnType::Long),
        (2, ColumnType::Short),
        (3, ColumnType::Long),
        (4, ColumnType::Long),
        (5, ColumnType::Long),
        (6, ColumnType::Long),
        (7, ColumnType::Long),
        (8, ColumnType::Bit),
        (9, ColumnType::Short),
        (10, ColumnType::Long),
        (11, ColumnType::UnsignedShort),
        (12, ColumnType::Long),
        (13, ColumnType::DateTime),
        (128, ColumnType::Text),
        (130, ColumnType::Text),
        (131, ColumnType::Binary),
        (132, ColumnType::Binary),
        (133, ColumnType::Binary),
        (134, ColumnType::Binary),
        (135, ColumnType::Binary),
    ]
    .into_iter()
    .map(|(id, kind)| Column::new(id, "", kind, 255))
    .collect();
    layout_fixed_columns(&mut columns);
    columns
}

/// A catalog row, read column by column.
struct Row<'a> {
    schema: &'a [Column],
    record: Record<'a>,
}

impl<'a> Row<'a> {
    fn bytes(&self, id: u16) -> Option<&'a [u8]> {
        let column = self.schema.iter().find(|column| column.id == ColumnId(id))?;
        match self.record.get(column) {
            Ok(ColumnValue::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    fn number(&self, id: u16) -> Option<u32> {
        let mut word = [0; 4];
        let bytes = self.bytes(id)?;
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u32::from_le_bytes(word))
    }

    fn text(&self, id: u16) -> String {
        // Names use Windows code page 1252. Latin-1 differs in only a few characters, which is acceptable in a
        // message.
        self.bytes(id).unwrap_or_default().iter().map(|&byte| char::from(byte)).collect()
    }

    fn root(&self) -> Option<PageNumber> {
        PageNumber::new(self.number(4)?)
    }
}

/// Reads the catalog and compares it with its shadow. Damaged pages in the two trees are reported later, by the walk
/// that claims those pages.
pub(crate) fn load(reader: &mut VerifiedPageReader<'_>, findings: &mut Findings) -> CheckedCatalog {
    let size = reader.database.page_size;
    let (schema, mut tables, mut decoded) = (schema(), Vec::new(), true);
    let mut rows: HashMap<Vec<u8>, (PageNumber, Vec<u8>)> = HashMap::new();
    let complete = for_each_row(reader, CATALOG, TreeId(2), PageNumber::fixed(4), &mut |page, key, data| {
        if let Err(error) = add_row(&mut tables, &Row { schema: &schema, record: Record::new(data, size) }) {
            findings.add_structural(
                FindingKind::CatalogRow,
                page,
                CATALOG,
                format!("row {}: {error}", hex(&key)),
            );
            decoded = false;
        }
        rows.insert(key, (page, data.to_vec()));
    });
    let total = rows.len();
    let shadow_complete =
        for_each_row(reader, SHADOW, TreeId(3), PageNumber::fixed(24), &mut |page, key, data| match rows
            .remove(&key)
        {
            Some((_, original)) if original == data => {}
            Some((original, _)) => {
                let what =
                    format!("row {} differs from the row on page {original} of the catalog", hex(&key));
                findings.add_structural(FindingKind::ShadowCatalog, page, SHADOW, what);
            }
            None if complete => findings.add_structural(
                FindingKind::ShadowCatalog,
                page,
                SHADOW,
                format!("row {} is not in the catalog", hex(&key)),
            ),
            None => {}
        });
    if rows.len() == total && total > 0 && shadow_complete {
        findings.add_structural(
            FindingKind::ShadowCatalog,
            PageNumber::fixed(24),
            SHADOW,
            "the shadow catalog does not contain any rows of the catalog".into(),
        );
    } else if shadow_complete {
        let mut missing: Vec<_> = rows.into_iter().collect();
        missing.sort();
        for (key, (page, _)) in missing {
            findings.add_structural(
                FindingKind::ShadowCatalog,
                page,
                CATALOG,
                format!("row {} is not in the shadow catalog", hex(&key)),
            );
        }
    }
    for table in &mut tables {
        lay_out_columns(table);
    }
    if !tables.iter().any(|table| table.tree == TreeId(2)) {
        findings.add_structural(
            FindingKind::CatalogRow,
            PageNumber::fixed(4),
            CATALOG,
            "the catalog does not contain an entry for itself".into(),
        );
    }
    CheckedCatalog { tables, complete: complete && decoded }
}

/// Callback that receives a row's page, key, and data.
type VisitRow<'v> = &'v mut dyn FnMut(PageNumber, Vec<u8>, &[u8]);

fn for_each_row(
    reader: &mut VerifiedPageReader<'_>,
    label: &str,
    tree: TreeId,
    root: PageNumber,
    visit: VisitRow<'_>,
) -> bool {
    let mut unreported = Findings::new(&reader.database.path);
    let shape = TreeShape { root, tree, kind: PageFlags::empty(), label: label.to_owned() };
    let newest = reader.database.header.db_time;
    let mut walker = TreeWalker { reader, findings: &mut unreported, claims: None, newest, read_ahead: None };
    let summary = walk(&mut walker, &shape, &mut |page, node, _| visit(page, node.key_to_vec(), node.data));
    !summary.incomplete
}

/// Reason why a catalog row cannot be used.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum RowError {
    #[error("the row is not a record")]
    Record,
    #[error("at least one of the columns ObjidTable, Type and Id does not have a value")]
    Identity,
    #[error("the type of the row is unknown")]
    Type,
    #[error("the catalog does not have a row for its table")]
    Table,
    #[error("the table does not have a root page")]
    TableRoot,
    #[error("the index does not have a root page")]
    IndexRoot,
    #[error("the long values do not have a root page")]
    LongValueRoot,
    #[error("the column number is out of range")]
    ColumnNumber,
    #[error("the column does not have a type")]
    NoColumnType,
    #[error("the type of the column is unknown")]
    ColumnType,
    #[error("the index does not have flags")]
    IndexFlags,
}

/// Adds the table, column, index, or long-value tree that a row describes. A table's own row comes first, followed by
/// the rows for its columns, indexes, and long values.
fn add_row(tables: &mut Vec<CheckedTable>, row: &Row<'_>) -> Result<(), RowError> {
    row.record.validate().map_err(|_| RowError::Record)?;
    let (Some(owner), Some(kind), Some(id)) = (row.number(1), row.number(2), row.number(3)) else {
        return Err(RowError::Identity);
    };
    if kind == 1 {
        tables.push(CheckedTable {
            name: row.text(128),
            tree: TreeId(id),
            root: row.root().ok_or(RowError::TableRoot)?,
            columns: Vec::new(),
            deleted_columns: Vec::new(),
            primary: None,
            indexes: Vec::new(),
            long_values: None,
            chunk_len: row.number(12).filter(|&len| len > 0),
        });
        return Ok(());
    }
    let table = tables.last_mut().filter(|table| table.tree == TreeId(owner)).ok_or(RowError::Table)?;
    match kind {
        2 => add_column(table, row, u16::try_from(id).map_err(|_| RowError::ColumnNumber)?),
        3 => add_index(table, row, TreeId(id)),
        4 => {
            let root = row.root().ok_or(RowError::LongValueRoot)?;
            table.long_values = Some((TreeId(id), root));
            Ok(())
        }
        // Callbacks do not store anything.
        5 => Ok(()),
        _ => Err(RowError::Type),
    }
}

fn add_column(table: &mut CheckedTable, row: &Row<'_>, id: u16) -> Result<(), RowError> {
    let code = row.number(4).ok_or(RowError::NoColumnType)?;
    let Some(kind) = ColumnType::from_code(code) else {
        table.deleted_columns.push(ColumnId(id));
        return if matches!(code, 0 | 13) { Ok(()) } else { Err(RowError::ColumnType) };
    };
    let mut column = Column::new(id, &row.text(128), kind, row.number(5).unwrap_or(0));
    column.flags = ColumnFlags::from_bits_retain(row.number(6).unwrap_or(0));
    column.code_page = CodePage(row.number(7).unwrap_or(0));
    column.default = row.bytes(131).map(<[u8]>::to_vec);
    column.record_offset = row.number(9).and_then(|offset| u16::try_from(offset).ok()).unwrap_or(0);
    table.columns.push(column);
    Ok(())
}

fn add_index(table: &mut CheckedTable, row: &Row<'_>, tree: TreeId) -> Result<(), RowError> {
    let flags = row.number(6).ok_or(RowError::IndexFlags)?;
    // Segments have the form {flags, 0, u16 column}. If bit 0 of fidx is not set, they have the 2-byte form used in
    // very old files.
    let extended = flags & 0x1_0000 != 0;
    let segments = row.bytes(132).unwrap_or_default().chunks_exact(4);
    let word = |bytes: &[u8]| bytes.first_chunk().map(|word| usize::from(u16::from_le_bytes(*word)));
    let index = CheckedIndex {
        name: row.text(128),
        tree,
        root: row.root().ok_or(RowError::IndexRoot)?,
        flags,
        segments: segments
            .filter_map(|s| Some((*s.first()?, ColumnId(u16::from_le_bytes([*s.get(2)?, *s.get(3)?])))))
            .collect(),
        max_key_len: row.number(11).filter(|&most| most > 0).map_or(255, |most| most as usize),
        max_segment_len: row.bytes(133).and_then(word),
        cannot_rebuild: !extended || row.bytes(134).is_some() || row.bytes(135).is_some(),
    };
    if index.flags & CheckedIndex::PRIMARY != 0 {
        table.primary = Some(index);
    } else {
        table.indexes.push(index);
    }
    Ok(())
}

/// Sorts the columns and sets their offsets. Called after the last row of a table.
fn lay_out_columns(table: &mut CheckedTable) {
    table.columns.sort_by_key(|column| column.id);
    if table.tree == TreeId(2) || table.tree == TreeId(3) {
        let fixed = schema();
        for column in table.columns.iter_mut().filter(|column| column.class() == ColumnClass::Fixed) {
            if let Some(known) = fixed.iter().find(|known| known.id == column.id) {
                column.record_offset = known.record_offset;
            }
        }
    }
}
