//! Schemas of tables, assembled from catalog rows.

use std::collections::{BTreeMap, HashMap};

use super::index::{Index, IndexCondition, IndexLocale, KeySegment};
use super::row::{CatalogRow, RowKind, extra};
use super::system::{CATALOG, CATALOG_SHADOW};
use crate::key::IndexFlags;
use crate::record::{CodePage, Column, ColumnClass, ColumnFlags, ColumnId, ColumnType, layout_fixed_columns};
use crate::{PageNumber, PageSize, TreeId, long_value};

bitflags::bitflags! {
    /// Flags of a table. ESE: `JET_bitObject*`.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct TableFlags: u32 {
        /// The engine created the table.
        const SYSTEM = 0x8000_0000;
        /// The table's columns and indexes never change.
        const FIXED_SCHEMA = 0x4000_0000;
        /// Other tables inherit columns from this table.
        const TEMPLATE = 0x2000_0000;
        /// The table inherits columns from a template table.
        const DERIVED = 0x1000_0000;
        /// The table is created when it is first needed. Used together with `SYSTEM`.
        const SYSTEM_DYNAMIC = 0x0800_0000;
        /// Derived tables cannot have fixed or variable columns of their own.
        const NO_FIXED_VAR_IN_DERIVED = 0x0400_0000;
        /// Unknown bits are preserved.
        const _ = !0;
    }
}

/// Schema of a table: its columns, indexes and settings.
#[derive(Clone, PartialEq, Debug)]
pub struct TableSchema {
    /// Name of the table.
    pub name: String,
    /// Tree that stores the table. All catalog rows of the table refer to it by this id.
    pub tree: TreeId,
    /// Root page of the tree.
    pub root: PageNumber,
    /// Flags of the table.
    pub flags: TableFlags,
    /// Number of pages allocated when the table was created.
    pub initial_pages: u32,
    /// Percentage of a page to fill before splitting it.
    pub density: u32,
    /// Long-value chunk size in bytes, if it is not the default.
    #[doc(alias = "LVChunkMax")]
    pub chunk_size: Option<u32>,
    /// Minimum length at which a long value is stored in the long-value tree, if it is not the default.
    pub separate_from: Option<u32>,
    /// Table from which this table inherits columns ([`TableSchema::inherit`]) and indexes.
    pub template: Option<String>,
    /// Growth hints, in their stored form.
    pub space_hints: Option<Vec<u8>>,
    /// Growth hints for the long-value tree, in their stored form.
    pub long_value_space_hints: Option<Vec<u8>>,
    /// Columns, sorted by number.
    pub columns: Vec<Column>,
    /// Ids of deleted columns, which are never reused.
    pub deleted_columns: Vec<ColumnId>,
    /// Indexes, sorted by tree id.
    pub indexes: Vec<Index>,
    /// Tree and root page for long values, if the table has a long-value tree.
    pub long_values: Option<(TreeId, PageNumber)>,
}

impl TableSchema {
    /// Creates a user table that has no columns or indexes.
    pub fn new(name: &str, tree: TreeId, root: PageNumber) -> TableSchema {
        TableSchema {
            name: name.to_owned(),
            tree,
            root,
            flags: TableFlags::empty(),
            initial_pages: 1,
            density: 80,
            chunk_size: None,
            separate_from: None,
            template: None,
            space_hints: None,
            long_value_space_hints: None,
            columns: Vec::new(),
            deleted_columns: Vec::new(),
            indexes: Vec::new(),
            long_values: None,
        }
    }

    /// Returns the column with the given number.
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        let found = self.columns.binary_search_by_key(&id, |column| column.id).ok()?;
        self.columns.get(found)
    }

    /// Returns the column with the given name, ignoring ASCII case.
    pub fn column_named(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Returns the primary index, if the table has one.
    pub fn primary_index(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.is_primary())
    }

    /// Returns the indexes that have their own trees.
    pub fn secondary_indexes(&self) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(|index| !index.is_primary())
    }

    /// Returns the maximum length of a primary key in bytes. A table without a primary index uses sequential 4-byte
    /// record numbers as keys.
    pub fn max_key_len(&self) -> usize {
        self.primary_index().map_or(4, |index| index.key_limits().key)
    }

    /// Returns the long-value chunk size in bytes.
    pub fn chunk_size(&self, size: PageSize) -> usize {
        let own = self.chunk_size.filter(|own| (1..=size.get()).contains(own));
        own.map_or(long_value::chunk_size(size), |own| own as usize)
    }

    /// Adds the columns of the template table. The catalog lists them only for the template itself.
    pub fn inherit(&mut self, template: &TableSchema) {
        let inherited =
            template.columns.iter().map(|column| Column { id: column.id.inherited(), ..column.clone() });
        self.columns.extend(inherited);
        self.deleted_columns.extend(template.deleted_columns.iter().map(|id| id.inherited()));
        self.columns.sort_by_key(|column| column.id);
        self.columns.dedup_by_key(|column| column.id);
    }

    /// Returns the catalog rows of this table, sorted by key.
    pub fn rows(&self) -> Vec<CatalogRow> {
        let mut rows = vec![self.table_row()];
        rows.extend(self.columns.iter().map(|column| self.column_row(column)));
        rows.extend(self.indexes.iter().map(|index| self.index_row(index)));
        rows.extend(self.long_value_row());
        rows
    }

    /// Returns the row that describes the table itself.
    pub(super) fn table_row(&self) -> CatalogRow {
        let mut row = CatalogRow::new(self.tree, RowKind::Table, self.tree.0, self.root.get(), &self.name);
        row.space = self.density;
        row.flags = self.flags.bits();
        row.pages_or_locale = self.initial_pages;
        row.chunk_size = self.chunk_size;
        put(&mut row, extra::TEMPLATE_TABLE, self.template.as_ref().map(|name| name.as_bytes().to_vec()));
        put(
            &mut row,
            extra::SEPARATE_LONG_VALUES,
            self.separate_from.map(|from| from.to_le_bytes().to_vec()),
        );
        put(&mut row, extra::SPACE_HINTS, self.space_hints.clone());
        put(&mut row, extra::LONG_VALUE_SPACE_HINTS, self.long_value_space_hints.clone());
        row
    }

    /// Returns the row that describes a column.
    pub(super) fn column_row(&self, column: &Column) -> CatalogRow {
        let id = column.id.number().into();
        let mut row = CatalogRow::new(self.tree, RowKind::Column, id, column.kind.code(), &column.name);
        row.space = column.size;
        row.flags = column.flags.bits();
        row.pages_or_locale = column.code_page.0;
        row.record_offset = (column.class() == ColumnClass::Fixed).then_some(if self.describes_itself() {
            // In the rows for the catalog's own columns, ESE always writes this wrong offset.
            4
        } else {
            column.record_offset
        });
        put(&mut row, extra::DEFAULT_VALUE, column.default.clone());
        row
    }

    /// Returns the row that describes an index.
    pub fn index_row(&self, index: &Index) -> CatalogRow {
        let is_of_template =
            |id| self.column(id).is_some_and(|column| column.flags.contains(ColumnFlags::TEMPLATE));
        let mut row = CatalogRow::new(self.tree, RowKind::Index, index.tree.0, index.root.get(), &index.name);
        row.space = index.density;
        row.flags = index.flags.bits();
        row.pages_or_locale = index.locale.lcid;
        row.map_flags = index.locale.map_flags;
        row.key_most = index.key_most;
        put(&mut row, extra::KEY_SEGMENTS, Some(KeySegment::encode_all(&index.segments, &is_of_template)));
        put(&mut row, extra::SEGMENT_LIMIT, index.segment_limit.map(|limit| limit.to_le_bytes().to_vec()));
        let conditions = (!index.conditions.is_empty())
            .then(|| IndexCondition::encode_all(&index.conditions, &is_of_template));
        put(&mut row, extra::CONDITIONS, conditions);
        put(&mut row, extra::TUPLE_LIMITS, index.tuple_limits.clone());
        put(&mut row, extra::SORT_VERSION, index.locale.version.clone());
        put(&mut row, extra::SORT_ID, index.locale.sort_id.clone());
        put(&mut row, extra::SPACE_HINTS, index.space_hints.clone());
        let name = index.locale.name.as_ref().and_then(|name| CodePage::UNICODE.encode(name).ok());
        put(&mut row, extra::LOCALE_NAME, name);
        row
    }

    /// Returns the row that describes the long-value tree, if the table has one.
    pub fn long_value_row(&self) -> Option<CatalogRow> {
        let (tree, root) = self.long_values?;
        let mut row = CatalogRow::new(self.tree, RowKind::LongValues, tree.0, root.get(), "LV");
        row.space = 100;
        row.pages_or_locale = 1;
        Some(row)
    }

    fn describes_itself(&self) -> bool {
        self.tree == CATALOG || self.tree == CATALOG_SHADOW
    }
}

fn put(row: &mut CatalogRow, column: ColumnId, value: Option<Vec<u8>>) {
    if let Some(value) = value {
        row.extra.insert(column, value);
    }
}

/// Assembles the tables described by catalog rows, sorted by tree id. Derived tables have the columns of their template
/// if the rows also describe the template.
///
/// Ignores rows that belong to a table without a table row, rows of unknown kinds, and rows with invalid numbers.
pub fn assemble(rows: impl IntoIterator<Item = CatalogRow>) -> Vec<TableSchema> {
    let mut by_table: BTreeMap<TreeId, Vec<CatalogRow>> = BTreeMap::new();
    for row in rows {
        by_table.entry(row.table).or_default().push(row);
    }
    let mut tables: Vec<TableSchema> = by_table.into_values().filter_map(assemble_table).collect();
    let templates = tables.iter().filter(|table| table.flags.contains(TableFlags::TEMPLATE));
    let templates: HashMap<String, TableSchema> =
        templates.map(|table| (table.name.to_ascii_lowercase(), table.clone())).collect();
    for table in &mut tables {
        let name = table.template.as_ref().map(|name| name.to_ascii_lowercase());
        if let Some(template) = name.and_then(|name| templates.get(&name)) {
            table.inherit(template);
        }
    }
    tables
}

fn assemble_table(rows: Vec<CatalogRow>) -> Option<TableSchema> {
    let row = rows.iter().find(|row| row.kind == RowKind::Table)?;
    let mut table = TableSchema::new(&row.name, row.table, PageNumber::new(row.root_or_type)?);
    table.flags = TableFlags::from_bits_retain(row.flags);
    table.initial_pages = row.pages_or_locale;
    table.density = row.space;
    table.chunk_size = row.chunk_size;
    table.separate_from = row.extra.get(&extra::SEPARATE_LONG_VALUES).and_then(|bytes| four(bytes));
    let template = row.extra.get(&extra::TEMPLATE_TABLE).filter(|name| !name.is_empty());
    table.template = template.and_then(|name| CodePage::WESTERN.decode(name).ok());
    table.space_hints = row.extra.get(&extra::SPACE_HINTS).cloned();
    table.long_value_space_hints = row.extra.get(&extra::LONG_VALUE_SPACE_HINTS).cloned();
    for row in &rows {
        match row.kind {
            RowKind::Column => match column(row) {
                Some(column) => table.columns.push(column),
                None if row.root_or_type == 0 => {
                    table.deleted_columns.extend(u16::try_from(row.id).map(ColumnId::from));
                }
                None => {}
            },
            RowKind::Index => table.indexes.extend(index(row, table.template.is_some())),
            RowKind::LongValues => {
                table.long_values = PageNumber::new(row.root_or_type).map(|root| (TreeId(row.id), root));
            }
            RowKind::Table | RowKind::Callback => {}
        }
    }
    table.columns.sort_by_key(|column| column.id);
    table.columns.dedup_by_key(|column| column.id);
    table.indexes.sort_by_key(|index| index.tree);
    let unplaced = |column: &Column| column.class() == ColumnClass::Fixed && column.record_offset == 0;
    if table.describes_itself() || table.columns.iter().any(unplaced) {
        layout_fixed_columns(&mut table.columns);
    }
    Some(table)
}

fn four(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

fn column(row: &CatalogRow) -> Option<Column> {
    let id = ColumnId::from(u16::try_from(row.id).ok().filter(|id| *id > 0)?);
    let kind = ColumnType::from_code(row.root_or_type)?;
    Some(Column {
        id,
        name: row.name.clone(),
        kind,
        size: row.space,
        flags: ColumnFlags::from_bits_retain(row.flags),
        code_page: CodePage(row.pages_or_locale),
        default: row.extra.get(&extra::DEFAULT_VALUE).cloned(),
        record_offset: match id.class() {
            ColumnClass::Fixed => row.record_offset.unwrap_or(0),
            _ => 0,
        },
    })
}

fn index(row: &CatalogRow, derived: bool) -> Option<Index> {
    let flags = IndexFlags::from_bits_retain(row.flags);
    let value = |id| row.extra.get(&id);
    let mut index = Index {
        name: row.name.clone(),
        tree: TreeId(row.id),
        root: PageNumber::new(row.root_or_type)?,
        flags,
        segments: KeySegment::decode_all(value(extra::KEY_SEGMENTS)?, flags)?,
        conditions: value(extra::CONDITIONS)
            .map_or(Some(Vec::new()), |bytes| IndexCondition::decode_all(bytes, flags))?,
        key_most: row.key_most,
        segment_limit: value(extra::SEGMENT_LIMIT)
            .and_then(|bytes| bytes.as_slice().try_into().ok())
            .map(u16::from_le_bytes),
        density: row.space,
        locale: IndexLocale {
            lcid: row.pages_or_locale,
            name: value(extra::LOCALE_NAME).and_then(|name| CodePage::UNICODE.decode(name).ok()),
            map_flags: row.map_flags,
            version: value(extra::SORT_VERSION).cloned(),
            sort_id: value(extra::SORT_ID).cloned(),
        },
        tuple_limits: value(extra::TUPLE_LIMITS).cloned(),
        space_hints: value(extra::SPACE_HINTS).cloned(),
    };
    if !derived {
        let segments = index.segments.iter_mut().map(|segment| &mut segment.column);
        let conditions = index.conditions.iter_mut().map(|condition| &mut condition.column);
        segments.chain(conditions).for_each(|column| *column = column.own());
    }
    Some(index)
}
