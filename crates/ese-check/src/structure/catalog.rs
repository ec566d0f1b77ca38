//! Reads the tables, columns, indexes, and trees described by the catalog, and compares the catalog with its shadow.
//!
//! The catalog's own schema is built in, because the catalog cannot describe itself: in every ESE database, the rows
//! for the catalog's fixed columns contain wrong offsets. Older databases do not list all columns.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use ese_format::page::PageFlags;
use ese_format::record::{CodePage, layout_fixed_columns};
use ese_format::record::{Column, ColumnFlags, ColumnId, ColumnType, ColumnValue, Record};
use ese_format::{PageNumber, TreeId};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, hex};
use crate::pages::reader::VerifiedPageReader;
use crate::structure::tree::{TreeWalker, walk};
use crate::structure::tree_shape::TreeShape;

/// Name, tree and root page of the catalog.
pub(crate) const CATALOG: (&str, TreeId, PageNumber) = ("MSysObjects", TreeId(2), PageNumber::fixed(4));
/// Name, tree and root page of the shadow catalog.
pub(crate) const SHADOW: (&str, TreeId, PageNumber) = ("MSysObjectsShadow", TreeId(3), PageNumber::fixed(24));

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
    /// Columns that the table itself defines.
    own: CheckedColumns,
    /// Columns that the table inherits from its template. Absent if the catalog does not contain the template.
    inherited: Option<Arc<CheckedColumns>>,
    template: Option<String>,
    /// Index that determines the order of the records.
    pub(crate) primary: Option<CheckedIndex>,
    /// Secondary indexes.
    pub(crate) indexes: Vec<CheckedIndex>,
    pub(crate) long_values: Option<(TreeId, PageNumber)>,
    /// Number of bytes that each node of a long value stores, if the catalog specifies it for this table.
    pub(crate) chunk_len: Option<u32>,
}

/// Columns that one table defines.
#[derive(Default)]
struct CheckedColumns {
    /// Columns, sorted by number. Deleted columns are in `deleted`.
    live: Vec<Column>,
    deleted: Vec<ColumnId>,
}

impl CheckedColumns {
    fn get(&self, id: ColumnId) -> Option<&Column> {
        let found = self.live.binary_search_by_key(&id, |column| column.id).ok()?;
        self.live.get(found)
    }

    /// Returns these columns with the ids under which derived tables inherit them.
    fn inherited(&self) -> CheckedColumns {
        let inherit = |column: &Column| Column { id: column.id.inherited(), ..column.clone() };
        CheckedColumns {
            live: self.live.iter().map(inherit).collect(),
            deleted: self.deleted.iter().map(|id| id.inherited()).collect(),
        }
    }
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
        self.own.get(id).or_else(|| self.inherited.as_ref()?.get(id))
    }

    /// Returns the tagged column that a record stores under this id.
    pub(crate) fn stored_column(&self, id: ColumnId) -> Option<&Column> {
        // In the oldest format, records do not mark inherited columns.
        let inherited = || self.inherited.as_ref()?.get(id.inherited());
        let is_unmarked = |column: &&Column| !column.flags.contains(ColumnFlags::TEMPLATE);
        self.column(id).or_else(|| inherited().filter(is_unmarked))
    }

    /// Returns false if the catalog does not contain the table's template, so some columns are unknown.
    pub(crate) fn columns_are_known(&self) -> bool {
        self.template.is_none() || self.inherited.is_some()
    }

    /// Returns the inherited columns and the table's own columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.definitions().flat_map(|columns| &columns.live)
    }

    pub(crate) fn deleted_columns(&self) -> impl Iterator<Item = ColumnId> {
        self.definitions().flat_map(|columns| &columns.deleted).copied()
    }

    fn definitions(&self) -> impl Iterator<Item = &CheckedColumns> {
        self.inherited.as_deref().into_iter().chain([&self.own])
    }
}

/// Returns the columns of the catalog, which every database has, whether or not its catalog lists them.
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
        (129, ColumnType::Binary),
        (130, ColumnType::Text),
        (131, ColumnType::Binary),
        (132, ColumnType::Binary),
        (133, ColumnType::Binary),
        (134, ColumnType::Binary),
        (135, ColumnType::Binary),
        (136, ColumnType::Binary),
        (137, ColumnType::Binary),
        (256, ColumnType::LongBinary),
        (257, ColumnType::LongBinary),
        (258, ColumnType::LongBinary),
        (259, ColumnType::LongBinary),
        (260, ColumnType::LongBinary),
        (261, ColumnType::LongBinary),
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
    fn bytes(&self, id: u32) -> Option<&'a [u8]> {
        let column = self.schema.iter().find(|column| column.id == ColumnId(id))?;
        match self.record.get(column) {
            Ok(ColumnValue::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    fn number(&self, id: u32) -> Option<u32> {
        let mut word = [0; 4];
        let bytes = self.bytes(id)?;
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u32::from_le_bytes(word))
    }

    fn text(&self, id: u32) -> String {
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
    let complete = for_each_row(reader, CATALOG, &mut |page, key, data| {
        if let Err(error) = add_row(&mut tables, &Row { schema: &schema, record: Record::new(data, size) }) {
            findings.add_structural(
                FindingKind::CatalogRow,
                page,
                CATALOG.0,
                format!("row {}: {error}", hex(&key)),
            );
            decoded = false;
        }
        rows.insert(key, (page, data.to_vec()));
    });
    let total = rows.len();
    let shadow_complete = for_each_row(reader, SHADOW, &mut |page, key, data| match rows.remove(&key) {
        Some((_, original)) if original == data => {}
        Some((original, _)) => {
            let what = format!("row {} differs from the row on page {original} of the catalog", hex(&key));
            findings.add_structural(FindingKind::ShadowCatalog, page, SHADOW.0, what);
        }
        None if complete => findings.add_structural(
            FindingKind::ShadowCatalog,
            page,
            SHADOW.0,
            format!("row {} is not in the catalog", hex(&key)),
        ),
        None => {}
    });
    if rows.len() == total && total > 0 && shadow_complete {
        findings.add_structural(
            FindingKind::ShadowCatalog,
            PageNumber::fixed(24),
            SHADOW.0,
            "the shadow catalog does not contain any rows of the catalog".into(),
        );
    } else if shadow_complete {
        let mut missing: Vec<_> = rows.into_iter().collect();
        missing.sort();
        for (key, (page, _)) in missing {
            findings.add_structural(
                FindingKind::ShadowCatalog,
                page,
                CATALOG.0,
                format!("row {} is not in the shadow catalog", hex(&key)),
            );
        }
    }
    for table in &mut tables {
        complete_columns(table);
    }
    decoded &= inherit_columns(&mut tables, findings);
    if !tables.iter().any(|table| table.tree == TreeId(2)) {
        findings.add_structural(
            FindingKind::CatalogRow,
            PageNumber::fixed(4),
            CATALOG.0,
            "the catalog does not contain an entry for itself".into(),
        );
    }
    CheckedCatalog { tables, complete: complete && decoded }
}

/// Returns the shape of the catalog's tree or of its shadow's tree.
pub(crate) fn catalog_shape((label, tree, root): (&str, TreeId, PageNumber)) -> TreeShape {
    TreeShape { root, tree, kind: PageFlags::empty(), label: label.to_owned() }
}

/// Callback that receives a row's page, key, and data.
type VisitRow<'v> = &'v mut dyn FnMut(PageNumber, Vec<u8>, &[u8]);

fn for_each_row(
    reader: &mut VerifiedPageReader<'_>,
    catalog: (&str, TreeId, PageNumber),
    visit: VisitRow<'_>,
) -> bool {
    let mut unreported = Findings::new(&reader.database.path);
    let shape = catalog_shape(catalog);
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
            own: CheckedColumns::default(),
            inherited: None,
            template: Some(row.text(130)).filter(|name| !name.is_empty()),
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
        table.own.deleted.push(id.into());
        return if matches!(code, 0 | 13) { Ok(()) } else { Err(RowError::ColumnType) };
    };
    let mut column = Column::new(id, &row.text(128), kind, row.number(5).unwrap_or(0));
    column.flags = ColumnFlags::from_bits_retain(row.number(6).unwrap_or(0));
    column.code_page = CodePage(row.number(7).unwrap_or(0));
    column.default = row.bytes(131).map(<[u8]>::to_vec);
    column.record_offset = row.number(9).and_then(|offset| u16::try_from(offset).ok()).unwrap_or(0);
    table.own.live.push(column);
    Ok(())
}

fn add_index(table: &mut CheckedTable, row: &Row<'_>, tree: TreeId) -> Result<(), RowError> {
    let flags = row.number(6).ok_or(RowError::IndexFlags)?;
    // Segments have the form {flags, 0, u16 column}. If bit 0 of fidx is not set, they have the 2-byte form used in
    // very old files. Flag 0x80 means that the column belongs to a template, which may be this table.
    let extended = flags & 0x1_0000 != 0;
    let segments = row.bytes(132).unwrap_or_default().chunks_exact(4);
    let word = |bytes: &[u8]| bytes.first_chunk().map(|word| usize::from(u16::from_le_bytes(*word)));
    let derived = table.template.is_some();
    let column = |flags: u8, id: ColumnId| if derived && flags & 0x80 != 0 { id.inherited() } else { id };
    let index = CheckedIndex {
        name: row.text(128),
        tree,
        root: row.root().ok_or(RowError::IndexRoot)?,
        flags,
        segments: segments
            .filter_map(|s| {
                let (flags, number) = (*s.first()?, u16::from_le_bytes([*s.get(2)?, *s.get(3)?]));
                Some((flags, column(flags, number.into())))
            })
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

/// Sorts the columns. For the catalog and its shadow, sets the offsets of the fixed columns and adds the columns that
/// are not listed. Called after the last row of a table.
fn complete_columns(table: &mut CheckedTable) {
    let CheckedColumns { live, deleted } = &mut table.own;
    if [CATALOG.1, SHADOW.1].contains(&table.tree) {
        for known in schema().into_iter().filter(|known| !deleted.contains(&known.id)) {
            match live.iter_mut().find(|column| column.id == known.id) {
                Some(column) => column.record_offset = known.record_offset,
                None => live.push(known),
            }
        }
    }
    live.sort_by_key(|column| column.id);
}

/// Gives derived tables the columns of their templates. Returns false if a template is missing.
fn inherit_columns(tables: &mut [CheckedTable], findings: &mut Findings) -> bool {
    let name = |name: &str| name.to_ascii_lowercase();
    let names: HashSet<String> =
        tables.iter().filter_map(|table| table.template.as_deref()).map(name).collect();
    let templates: HashMap<String, Arc<CheckedColumns>> = tables
        .iter()
        .map(|table| (name(&table.name), table))
        .filter(|(name, _)| names.contains(name))
        .map(|(name, table)| (name, Arc::new(table.own.inherited())))
        .collect();
    let mut complete = true;
    for table in tables {
        let Some(template) = &table.template else { continue };
        match templates.get(&name(template)) {
            Some(columns) => table.inherited = Some(columns.clone()),
            None => {
                let what = format!("the catalog does not contain the template {template} of the table");
                findings.add_structural(FindingKind::CatalogRow, table.root, &table.name, what);
                complete = false;
            }
        }
    }
    complete
}
