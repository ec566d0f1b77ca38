//! Rows of the catalog: their kinds, columns, and keys.

use std::collections::BTreeMap;

use thiserror::Error;

use super::system::catalog_columns;
use crate::compression;
use crate::record::{CodePage, Column, ColumnId, ColumnValue, Record, RecordBuilder, RecordError};
use crate::{PageSize, TreeId};

/// Kind of object that a row describes. ESE: `SYSOBJ`.
#[doc(alias = "SYSOBJ")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowKind {
    /// A table.
    Table = 1,
    /// A column of a table.
    Column = 2,
    /// An index of a table.
    Index = 3,
    /// The long-value tree of a table.
    LongValues = 4,
    /// A callback.
    Callback = 5,
}

impl RowKind {
    /// Returns the kind with the given on-disk code.
    pub const fn from_code(code: i16) -> Option<RowKind> {
        Some(match code {
            1 => RowKind::Table,
            2 => RowKind::Column,
            3 => RowKind::Index,
            4 => RowKind::LongValues,
            5 => RowKind::Callback,
            _ => return None,
        })
    }

    /// Returns the on-disk code of the kind.
    pub const fn code(self) -> i16 {
        self as i16
    }
}

/// Catalog columns that only some rows have. Their ids are the keys of [`CatalogRow::extra`].
pub mod extra {
    use crate::record::ColumnId;

    /// Name of the template table, or of the callback.
    pub const TEMPLATE_TABLE: ColumnId = ColumnId(130);
    /// Default value of a column, in its stored form.
    pub const DEFAULT_VALUE: ColumnId = ColumnId(131);
    /// Key segments of an index.
    pub const KEY_SEGMENTS: ColumnId = ColumnId(132);
    /// Maximum length of the key segment for a text or binary column, as a `u16`.
    pub const SEGMENT_LIMIT: ColumnId = ColumnId(133);
    /// Conditions of an index.
    pub const CONDITIONS: ColumnId = ColumnId(134);
    /// Limits for a tuple index, as five `u32` values.
    pub const TUPLE_LIMITS: ColumnId = ColumnId(135);
    /// Version of the Windows sort tables.
    pub const SORT_VERSION: ColumnId = ColumnId(136);
    /// Identifier of the Windows sort tables.
    pub const SORT_ID: ColumnId = ColumnId(137);
    /// Minimum length at which a long value is stored in the long-value tree, as a `u32`.
    pub const SEPARATE_LONG_VALUES: ColumnId = ColumnId(258);
    /// Growth hints for an object.
    pub const SPACE_HINTS: ColumnId = ColumnId(259);
    /// Growth hints for a long-value tree that does not exist yet.
    pub const LONG_VALUE_SPACE_HINTS: ColumnId = ColumnId(260);
    /// Locale name in UTF-16.
    pub const LOCALE_NAME: ColumnId = ColumnId(261);
}

/// Error returned when a record cannot be decoded as a catalog row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// The bytes are not a valid record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A column that must not be null is null.
    #[error("a catalog row does not have column {0}")]
    Missing(ColumnId),
    /// This crate does not know the object kind.
    #[error("a catalog row describes an object of unknown type {0}")]
    UnknownKind(i16),
}

/// A row of the system table `MSysObjects`, which is the catalog.
#[derive(Clone, PartialEq, Debug)]
pub struct CatalogRow {
    /// Table to which the row belongs. ESE: `ObjidTable`.
    pub table: TreeId,
    /// Kind of object that the row describes. ESE: `Type`.
    pub kind: RowKind,
    /// Tree id, or column number. ESE: `Id`.
    pub id: u32,
    /// Root page, or type code of a column. ESE: `ColtypOrPgnoFDP`.
    pub root_or_type: u32,
    /// Density in percent, or maximum value length of a column. ESE: `SpaceUsage`.
    pub space: u32,
    /// Flags; their meaning depends on the kind. ESE: `Flags`.
    pub flags: u32,
    /// Number of initial pages, code page of a column, or LCID of an index. ESE: `PagesOrLocale`.
    pub pages_or_locale: u32,
    /// True in table rows, absent in all others. ESE: `RootFlag`.
    pub root_flag: Option<bool>,
    /// Offset of a fixed column in the record. ESE: `RecordOffset`.
    pub record_offset: Option<u16>,
    /// Text normalisation flags of an index. ESE: `LCMapFlags`.
    pub map_flags: Option<u32>,
    /// Maximum key length of an index, if it is not 255. ESE: `KeyMost`.
    pub key_most: Option<u16>,
    /// Chunk size of the table's long values, if it is not the default. ESE: `LVChunkMax`.
    pub chunk_size: Option<u32>,
    /// Time at which the root page was last set, in its stored form. Only the newest databases have it. ESE:
    /// `PgnoFDPLastSetTime`.
    pub root_set: Option<[u8; 8]>,
    /// Name of the object. ESE: `Name`.
    pub name: String,
    /// Stored values of the other columns, by column id; see [`extra`].
    pub extra: BTreeMap<ColumnId, Vec<u8>>,
}

impl CatalogRow {
    /// Creates a row without optional columns.
    pub fn new(table: TreeId, kind: RowKind, id: u32, root_or_type: u32, name: &str) -> CatalogRow {
        CatalogRow {
            table,
            kind,
            id,
            root_or_type,
            space: 0,
            flags: 0,
            pages_or_locale: 0,
            root_flag: (kind == RowKind::Table).then_some(true),
            record_offset: None,
            map_flags: None,
            key_most: None,
            chunk_size: None,
            root_set: None,
            name: name.to_owned(),
            extra: BTreeMap::new(),
        }
    }

    /// Decodes the data of a leaf node in the catalog.
    pub fn decode(bytes: &[u8], size: PageSize) -> Result<CatalogRow, CatalogError> {
        let row = CatalogColumns { record: Record::new(bytes, size) };
        let kind = i16::from_le_bytes(row.required(2)?);
        let name = row.bytes(128)?.ok_or(CatalogError::Missing(ColumnId(128)))?;
        let mut extra = BTreeMap::new();
        for column in catalog_columns().iter().filter(|column| column.id > NAME) {
            if let Some(bytes) = row.value(column)? {
                extra.insert(column.id, bytes);
            }
        }
        Ok(CatalogRow {
            table: TreeId(u32::from_le_bytes(row.required(1)?)),
            kind: RowKind::from_code(kind).ok_or(CatalogError::UnknownKind(kind))?,
            id: u32::from_le_bytes(row.required(3)?),
            root_or_type: u32::from_le_bytes(row.required(4)?),
            space: u32::from_le_bytes(row.required(5)?),
            flags: u32::from_le_bytes(row.required(6)?),
            pages_or_locale: u32::from_le_bytes(row.required(7)?),
            root_flag: row.array(8)?.map(|[byte]| byte != 0),
            record_offset: row.array(9)?.map(u16::from_le_bytes),
            map_flags: row.array(10)?.map(u32::from_le_bytes),
            key_most: row.array(11)?.map(u16::from_le_bytes),
            chunk_size: row.array(12)?.map(u32::from_le_bytes),
            root_set: row.array(13)?,
            name: CodePage::WESTERN.decode(&name).unwrap_or_default(),
            extra,
        })
    }

    /// Encodes the row as a record.
    pub fn encode(&self, size: PageSize) -> Result<Vec<u8>, RecordError> {
        let mut record = RecordBuilder::new(catalog_columns(), size);
        let mut set = |id: u32, bytes: &[u8]| record.set(ColumnId(id), Some(bytes));
        set(1, &self.table.0.to_le_bytes())?;
        set(2, &self.kind.code().to_le_bytes())?;
        set(3, &self.id.to_le_bytes())?;
        set(4, &self.root_or_type.to_le_bytes())?;
        set(5, &self.space.to_le_bytes())?;
        set(6, &self.flags.to_le_bytes())?;
        set(7, &self.pages_or_locale.to_le_bytes())?;
        self.root_flag.map_or(Ok(()), |flag| set(8, &[if flag { 0xff } else { 0 }]))?;
        self.record_offset.map_or(Ok(()), |offset| set(9, &offset.to_le_bytes()))?;
        self.map_flags.map_or(Ok(()), |flags| set(10, &flags.to_le_bytes()))?;
        self.key_most.map_or(Ok(()), |most| set(11, &most.to_le_bytes()))?;
        self.chunk_size.map_or(Ok(()), |size| set(12, &size.to_le_bytes()))?;
        self.root_set.map_or(Ok(()), |time| set(13, &time))?;
        set(NAME.0, &self.name_bytes())?;
        for (id, bytes) in &self.extra {
            record.set(*id, Some(bytes))?;
        }
        record.build()
    }

    /// Returns the row's key in the catalog's primary index, Id. The same bytes are the row's bookmark in the other
    /// indexes.
    pub fn key(&self) -> Vec<u8> {
        [&self.owner_key()[..], &long(self.id)].concat()
    }

    /// Returns the row's key in the Name index.
    pub fn name_key(&self) -> Vec<u8> {
        [&self.owner_key()[..], &text(&self.name_bytes())].concat()
    }

    /// Returns the row's key in the `RootObjects` index, or `None` if the row does not describe a table.
    pub fn root_objects_key(&self) -> Option<Vec<u8>> {
        let flag = if self.root_flag? { 0xff } else { 0 };
        Some([&[0x7f, flag][..], &text(&self.name_bytes())].concat())
    }

    /// Returns the key prefix shared by all rows of a table.
    pub fn table_prefix(table: TreeId) -> Vec<u8> {
        long(table.0).to_vec()
    }

    fn owner_key(&self) -> Vec<u8> {
        let kind = (self.kind.code() as u16 ^ 0x8000).to_be_bytes();
        [&long(self.table.0)[..], &[0x7f], &kind].concat()
    }

    fn name_bytes(&self) -> Vec<u8> {
        let byte =
            |c: char| CodePage::WESTERN.encode(c.encode_utf8(&mut [0; 4])).unwrap_or_else(|_| vec![b'?']);
        self.name.chars().flat_map(byte).collect()
    }
}

const NAME: ColumnId = ColumnId(128);

/// Returns the key segment for a 32-bit value.
pub(super) fn long(value: u32) -> [u8; 5] {
    let [a, b, c, d] = (value ^ 0x8000_0000).to_be_bytes();
    [0x7f, a, b, c, d]
}

/// Returns the key segment for a name. Names are short enough that their keys are never truncated.
fn text(name: &[u8]) -> Vec<u8> {
    [&[0x7f][..], &name.to_ascii_uppercase(), &[0]].concat()
}

/// A catalog record, which has a fixed schema.
struct CatalogColumns<'a> {
    record: Record<'a>,
}

impl CatalogColumns<'_> {
    fn bytes(&self, id: u32) -> Result<Option<Vec<u8>>, CatalogError> {
        match catalog_columns().iter().find(|column| column.id == ColumnId(id)) {
            Some(column) => self.value(column),
            None => Ok(None),
        }
    }

    fn value(&self, column: &Column) -> Result<Option<Vec<u8>>, CatalogError> {
        Ok(match self.record.get(column)? {
            ColumnValue::Bytes(bytes) => Some(bytes.to_vec()),
            ColumnValue::Compressed(bytes) => compression::decompress(bytes, compression::MAX_INTRINSIC).ok(),
            _ => None,
        })
    }

    fn array<const N: usize>(&self, id: u32) -> Result<Option<[u8; N]>, CatalogError> {
        Ok(self.bytes(id)?.and_then(|bytes| bytes.try_into().ok()))
    }

    fn required<const N: usize>(&self, id: u32) -> Result<[u8; N], CatalogError> {
        self.array(id)?.ok_or(CatalogError::Missing(ColumnId(id)))
    }
}
