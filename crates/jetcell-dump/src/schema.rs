//! Dump of tables, columns, indexes, and long-value trees, or of the catalog's rows.

use std::fmt;

use ese_format::catalog::{Index, TableSchema, catalog_columns};
use ese_format::compression::{MAX_INTRINSIC, decompress};
use ese_format::record::{Column, ColumnClass, ColumnId, ColumnType, ColumnValue, Record, RecordError};
use jetcell_input::Printable;
use jetcell_input::hex::hex;
use serde::Serialize;

use crate::catalog::DumpedCatalog;
use crate::database::DumpedDatabase;
use crate::output::DumpOutput;
use crate::values::short_hex;
use crate::{DumpSource, DumpedValue, NamedValues, Result, UnusableReason};

/// Options for dumping a database schema ([`dump_schema`]).
#[derive(Clone, Debug, Default)]
pub struct SchemaOptions {
    /// Names of the tables to dump. If empty, all tables are dumped.
    pub tables: Vec<String>,
    /// Whether to dump catalog rows instead of table definitions.
    pub rows: bool,
}

/// A table and its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "table")]
struct TableDump {
    name: String,
    tree: u32,
    root: u32,
    flags: DumpedValue,
    initial_pages: u32,
    density: u32,
    template: Option<String>,
    chunk_size: Option<u32>,
    separate_from: Option<u32>,
    columns: Vec<ColumnDump>,
    deleted_columns: Vec<u16>,
    indexes: Vec<IndexDump>,
    long_values: Option<LongValueTree>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct LongValueTree {
    tree: u32,
    root: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ColumnDump {
    id: u16,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    type_code: u32,
    class: &'static str,
    /// Maximum length of a value; 0 means no limit.
    size: u32,
    flags: DumpedValue,
    code_page: u32,
    /// Offset of a fixed column in the record.
    offset: Option<u16>,
    default: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct IndexDump {
    name: String,
    tree: u32,
    root: u32,
    primary: bool,
    unique: bool,
    flags: DumpedValue,
    columns: Vec<SegmentDump>,
    conditions: Vec<ConditionDump>,
    key_most: Option<u16>,
    segment_limit: Option<u16>,
    density: u32,
    lcid: u32,
    locale: Option<String>,
    map_flags: Option<u32>,
    sort_version: Option<String>,
    sort_id: Option<String>,
    tuple_limits: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct SegmentDump {
    id: u16,
    name: Option<String>,
    descending: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ConditionDump {
    id: u16,
    name: Option<String>,
    must_be_null: bool,
}

impl TableDump {
    fn new(table: &TableSchema, template: Option<&TableSchema>) -> TableDump {
        TableDump {
            name: table.name.clone(),
            tree: table.tree.0,
            root: table.root.get(),
            flags: flags(table.flags.bits(), table.flags.iter_names()),
            initial_pages: table.initial_pages,
            density: table.density,
            template: table.template.clone(),
            chunk_size: table.chunk_size,
            separate_from: table.separate_from,
            columns: table.columns.iter().map(ColumnDump::new).collect(),
            deleted_columns: table.deleted_columns.iter().map(|id| id.number()).collect(),
            indexes: table.indexes.iter().map(|index| IndexDump::new(table, template, index)).collect(),
            long_values: table
                .long_values
                .map(|(tree, root)| LongValueTree { tree: tree.0, root: root.get() }),
        }
    }
}

fn flags<T>(bits: u32, names: impl Iterator<Item = (&'static str, T)>) -> DumpedValue {
    DumpedValue::Flags(bits.into(), names.map(|(name, _)| name).collect())
}

impl ColumnDump {
    fn new(column: &Column) -> ColumnDump {
        ColumnDump {
            id: column.id.number(),
            name: column.name.clone(),
            kind: format!("{:?}", column.kind),
            type_code: column.kind.code(),
            class: match column.class() {
                ColumnClass::Fixed => "fixed",
                ColumnClass::Variable => "variable",
                ColumnClass::Tagged => "tagged",
            },
            size: column.size,
            flags: flags(column.flags.bits(), column.flags.iter_names()),
            code_page: column.code_page.0,
            offset: (column.class() == ColumnClass::Fixed).then_some(column.record_offset),
            default: column.default.as_deref().map(hex),
        }
    }
}

impl IndexDump {
    fn new(table: &TableSchema, template: Option<&TableSchema>, index: &Index) -> IndexDump {
        let inherited = |id: ColumnId| template.and_then(|template| template.column(id.own()));
        let name = |id| table.column(id).or_else(|| inherited(id)).map(|column| column.name.clone());
        let segment = |segment: &ese_format::catalog::KeySegment| SegmentDump {
            id: segment.column.number(),
            name: name(segment.column),
            descending: segment.descending,
        };
        let condition = |condition: &ese_format::catalog::IndexCondition| ConditionDump {
            id: condition.column.number(),
            name: name(condition.column),
            must_be_null: condition.must_be_null,
        };
        IndexDump {
            name: index.name.clone(),
            tree: index.tree.0,
            root: index.root.get(),
            primary: index.is_primary(),
            unique: index.is_unique(),
            flags: flags(index.flags.bits(), index.flags.iter_names()),
            columns: index.segments.iter().map(segment).collect(),
            conditions: index.conditions.iter().map(condition).collect(),
            key_most: index.key_most,
            segment_limit: index.segment_limit,
            density: index.density,
            lcid: index.locale.lcid,
            locale: index.locale.name.clone(),
            map_flags: index.locale.map_flags,
            sort_version: index.locale.version.as_deref().map(hex),
            sort_id: index.locale.sort_id.as_deref().map(hex),
            tuple_limits: index.tuple_limits.as_deref().map(hex),
        }
    }
}

impl fmt::Display for TableDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableDump { name, tree, root, flags, initial_pages, density, .. } = self;
        let name = Printable(name);
        writeln!(f, "table {name}: tree {tree}, root page {root}, flags {flags}")?;
        write!(f, "  created with {initial_pages} pages, density {density} %")?;
        if let Some(template) = &self.template {
            write!(f, ", inherits from {}", Printable(template))?;
        }
        if let Some(chunk) = self.chunk_size {
            write!(f, ", long values in chunks of {chunk} bytes")?;
        }
        for ColumnDump { id, name, kind, size, flags, code_page, offset, default, .. } in &self.columns {
            let name = Printable(name);
            write!(f, "\n  column {id:>5} {name:<32} {kind:<16} size {size:<5} flags {flags}")?;
            if *code_page != 0 {
                write!(f, " code page {code_page}")?;
            }
            if let Some(offset) = offset {
                write!(f, " at {offset}")?;
            }
            if let Some(default) = default {
                write!(f, " default {default}")?;
            }
        }
        for id in &self.deleted_columns {
            write!(f, "\n  column {id:>5} deleted")?;
        }
        self.indexes.iter().try_for_each(|index| write!(f, "\n{index}"))?;
        if let Some(LongValueTree { tree, root }) = self.long_values {
            write!(f, "\n  long values: tree {tree}, root page {root}")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for IndexDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexDump { name, tree, root, flags, density, .. } = self;
        let kind = if self.primary { "primary index" } else { "index" };
        let name = Printable(name);
        write!(f, "  {kind} {name}: tree {tree}, root page {root}, density {density} %, on ")?;
        for (number, segment) in self.columns.iter().enumerate() {
            let sign = if segment.descending { '-' } else { '+' };
            let comma = if number > 0 { ", " } else { "" };
            match &segment.name {
                Some(name) => write!(f, "{comma}{sign}{}", Printable(name))?,
                None => write!(f, "{comma}{sign}column {}", segment.id)?,
            }
        }
        write!(f, ", flags {flags}")?;
        for condition in &self.conditions {
            let name = condition.name.clone().unwrap_or_else(|| format!("column {}", condition.id));
            let name = Printable(name);
            write!(f, ", where {name} is {}null", if condition.must_be_null { "" } else { "not " })?;
        }
        match (&self.locale, self.lcid) {
            (Some(locale), _) => write!(f, ", locale {}", Printable(locale)),
            (None, 0) => Ok(()),
            (None, lcid) => write!(f, ", locale {lcid:#x}"),
        }
    }
}

/// A catalog row, with ESE's names for its columns. Columns that are not stored are omitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "catalog-row")]
struct RowDump {
    page: u32,
    columns: NamedValues,
}

impl RowDump {
    fn new(
        page: u32,
        data: &[u8],
        database: &DumpedDatabase<'_>,
    ) -> std::result::Result<RowDump, RecordError> {
        let record = Record::new(data, database.page_size);
        record.validate()?;
        let mut columns = NamedValues::default();
        for column in catalog_columns() {
            let value = match record.get(column)? {
                ColumnValue::Absent | ColumnValue::Null => continue,
                ColumnValue::Bytes(bytes) => row_value(column, bytes),
                ColumnValue::Compressed(bytes) => decompress(bytes, MAX_INTRINSIC)
                    .map_or(DumpedValue::Bytes(bytes.to_vec()), |bytes| row_value(column, &bytes)),
                other => DumpedValue::Text(format!("{other:?}")),
            };
            columns.0.push((column.name.clone(), value));
        }
        Ok(RowDump { page, columns })
    }
}

fn row_value(column: &Column, bytes: &[u8]) -> DumpedValue {
    let word = || bytes.first_chunk().map(|word| i32::from_le_bytes(*word).into());
    let short = || bytes.first_chunk().map(|word| i16::from_le_bytes(*word).into());
    let number = match column.kind {
        ColumnType::Long => word(),
        ColumnType::Short => short(),
        ColumnType::UnsignedShort => bytes.first_chunk().map(|word| u16::from_le_bytes(*word).into()),
        ColumnType::Bit => bytes.first().map(|&byte| i64::from(byte != 0)),
        _ => None,
    };
    match number {
        Some(number) => DumpedValue::Signed(number),
        None if column.kind.is_text() => {
            DumpedValue::Text(bytes.iter().map(|&byte| char::from(byte)).collect())
        }
        None => DumpedValue::Bytes(bytes.to_vec()),
    }
}

impl fmt::Display for RowDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        self.columns.write_line(&mut line)?;
        write!(f, "page {:>5}  {line}", self.page)
    }
}

/// Dumps tables with their columns and indexes, or the rows of the catalog.
pub fn dump_schema(source: &DumpSource, options: &SchemaOptions, output: &mut DumpOutput<'_>) -> Result<()> {
    let database = DumpedDatabase::open(source, output)?;
    let catalog = DumpedCatalog::open(&database, output)?;
    let mut missing = options.tables.clone();
    let mut wanted = |name: &str| {
        missing.retain(|wanted| !wanted.eq_ignore_ascii_case(name));
        options.tables.is_empty() || options.tables.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    if options.rows {
        // A table's row precedes the rows for its columns and indexes.
        let mut shown = options.tables.is_empty();
        catalog.for_each_row(
            output,
            &mut |page, data, output| match RowDump::new(page, data, &database) {
                Ok(row) => {
                    if row.columns.get("Type") == Some(&DumpedValue::Signed(1))
                        && let Some(DumpedValue::Text(name)) = row.columns.get("Name")
                    {
                        shown = wanted(name);
                    }
                    if shown { Ok(output.item(&row)?) } else { Ok(()) }
                }
                Err(error) => {
                    let message = format!("a catalog row is not a record ({error}): {}", short_hex(data));
                    Ok(output.page_problem(page, message)?)
                }
            },
        )?;
    } else {
        catalog.for_each_table(output, &mut |table, template, output| {
            if wanted(&table.name) { Ok(output.item(&TableDump::new(table, template))?) } else { Ok(()) }
        })?;
    }
    match missing.first() {
        Some(name) => Err(source.unusable_error(UnusableReason::NoTable(name.clone()))),
        None => Ok(()),
    }
}
