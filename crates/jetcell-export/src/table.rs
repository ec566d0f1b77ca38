//! A table to export. Its columns have unique names.

use std::collections::HashSet;

use ese_format::catalog::TableSchema;
use ese_format::record::{CodePage, Column, ColumnFlags, ColumnId, ColumnType};
use ese_format::{PageNumber, PageSize, TreeId};

use crate::cell::ExportedCell;
use crate::names::ValueNames;
use crate::sddl::format_descriptor;
use crate::value::{
    ExportedValue, Timestamp, ValueDecodeError, decode_ascii, decode_utf16, decode_utf16_list,
    format_address, sid_or_text, trim_odd_byte, unpaired_surrogates,
};

/// An exportable column in a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableColumn {
    /// Definition of the column. Its name is unique within the table.
    pub column: Column,
    /// Format of the values.
    pub format: ColumnFormat,
    /// Names for the stored values, if there are any.
    pub(crate) names: Option<ValueNames>,
}

/// How to write a column's values, in addition to the type in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ColumnFormat {
    /// Meaning of the stored bytes.
    pub meaning: ColumnMeaning,
    /// True if the catalog allows several values but the application's schema allows only one. The single value is
    /// then not written as a list.
    pub application_single_valued: bool,
    /// True if JSON output contains integers beyond 2^53 as strings, because most programs read numbers as doubles.
    pub wide_integers_as_text: bool,
}

/// How an application interprets the stored bytes in a column. Values that do not have the expected form are written
/// with their type in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ColumnMeaning {
    /// The bytes have the meaning of the column's type in the catalog.
    #[default]
    Stored,
    /// Binary column: an Active Directory security identifier, whose last part is big-endian.
    DirectorySid,
    /// Binary column: a security identifier or UTF-16 text.
    SidOrText,
    /// Binary column, or text column with a different code page: UTF-16 text.
    Utf16,
    /// Binary column: ASCII text.
    Ascii,
    /// Binary column: an IP address of 4 or 16 bytes.
    Address,
    /// Binary column with eight bytes: an unsigned little-endian integer.
    Unsigned,
    /// Integer column: a time in units of 100 nanoseconds since 1601.
    Filetime,
    /// Binary column with eight bytes: a little-endian time in units of 100 nanoseconds since 1601.
    FiletimeBytes,
    /// Binary column with eight bytes: a big-endian time in units of 100 nanoseconds since 1601.
    FiletimeBigEndian,
    /// Integer column: a time in seconds since 1601.
    SecondsSince1601,
    /// Binary column with eight bytes: a little-endian local time in units of 100 nanoseconds since 1601.
    LocalFiletimeBytes,
    /// Binary column with eight bytes: a duration in units of 100 nanoseconds.
    DurationBytes,
    /// Binary column: UTF-16 texts that are separated by NULs.
    Utf16List,
    /// Binary column: a list of unsigned 32-bit integers.
    IntegerList,
    /// Binary column with 16 bytes: a GUID.
    GuidBytes,
    /// Binary column: a security descriptor, which is written in SDDL.
    SecurityDescriptor,
}

impl ColumnMeaning {
    /// Returns true if the values are times.
    pub fn is_time(self) -> bool {
        use ColumnMeaning::*;
        matches!(self, Filetime | FiletimeBytes | FiletimeBigEndian | SecondsSince1601 | LocalFiletimeBytes)
    }

    /// Interprets the stored bytes according to their meaning. Returns `None` if they do not have the expected form.
    fn value<'v>(self, bytes: &'v [u8], stored: &ExportedValue<'v>) -> Option<ExportedValue<'v>> {
        let binary = match stored {
            ExportedValue::Binary(bytes) => Some(*bytes),
            _ => None,
        };
        let eight: Option<[u8; 8]> = binary.and_then(|bytes| bytes.try_into().ok());
        let time_or_integer = |time: Option<Timestamp>, value| {
            Some(time.map_or(ExportedValue::Int(value), ExportedValue::Time))
        };
        let filetime = |value| time_or_integer(Timestamp::from_filetime(value), value);
        match self {
            ColumnMeaning::Stored => None,
            ColumnMeaning::DirectorySid => binary.map(ExportedValue::DirectorySid),
            ColumnMeaning::SidOrText => {
                binary.and_then(sid_or_text).map(|text| ExportedValue::Text(text.into()))
            }
            ColumnMeaning::Utf16 => decode_utf16(bytes).map(|text| ExportedValue::Text(text.into())),
            ColumnMeaning::Ascii => {
                binary.and_then(decode_ascii).map(|text| ExportedValue::Text(text.into()))
            }
            ColumnMeaning::Address => {
                binary.and_then(format_address).map(|text| ExportedValue::Text(text.into()))
            }
            ColumnMeaning::Unsigned => eight.map(|bytes| ExportedValue::UInt(u64::from_le_bytes(bytes))),
            ColumnMeaning::FiletimeBytes => eight.and_then(|bytes| filetime(i64::from_le_bytes(bytes))),
            ColumnMeaning::FiletimeBigEndian => eight.and_then(|bytes| filetime(i64::from_be_bytes(bytes))),
            ColumnMeaning::Filetime => integer(stored).and_then(filetime),
            ColumnMeaning::SecondsSince1601 => {
                integer(stored).and_then(|value| time_or_integer(Timestamp::from_seconds(value), value))
            }
            ColumnMeaning::LocalFiletimeBytes => {
                let time = Timestamp::from_filetime(i64::from_le_bytes(eight?))?;
                Some(ExportedValue::Time(Timestamp { utc: false, ..time }))
            }
            ColumnMeaning::DurationBytes => {
                eight.map(|bytes| ExportedValue::Duration(u64::from_le_bytes(bytes)))
            }
            ColumnMeaning::Utf16List => {
                let texts = decode_utf16_list(binary?)?;
                Some(ExportedValue::List(
                    texts.into_iter().map(|text| ExportedValue::Text(text.into())).collect(),
                ))
            }
            ColumnMeaning::IntegerList => {
                let (numbers, []) = binary?.as_chunks::<4>() else { return None };
                let number = |bytes: &[u8; 4]| ExportedValue::Int(u32::from_le_bytes(*bytes).into());
                Some(ExportedValue::List(numbers.iter().map(number).collect()))
            }
            ColumnMeaning::GuidBytes => binary?.try_into().ok().map(ExportedValue::Guid),
            ColumnMeaning::SecurityDescriptor => {
                format_descriptor(binary?).map(|text| ExportedValue::Text(text.into()))
            }
        }
    }
}

fn integer(value: &ExportedValue<'_>) -> Option<i64> {
    match value {
        ExportedValue::Int(value) | ExportedValue::Currency(value) => Some(*value),
        _ => None,
    }
}

/// An exportable table.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceTable {
    /// Table name, unique within the database.
    pub name: String,
    /// Columns in the order of their ids. They include inherited columns.
    pub columns: Vec<TableColumn>,
    /// Deleted columns, which old records may still contain.
    pub(crate) deleted_columns: Vec<ColumnId>,
    pub(crate) tree: TreeId,
    pub(crate) root: PageNumber,
    pub(crate) long_values: Option<(TreeId, PageNumber)>,
    pub(crate) chunk_size: usize,
    /// Columns of the primary index, in key order. If there are none, rows are identified by numbers.
    pub(crate) primary_key: Vec<ColumnId>,
}

impl TableColumn {
    /// Decodes a value's stored bytes according to the column's format.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a valid value for the column's type.
    pub fn value<'v>(&self, bytes: &'v [u8]) -> Result<ExportedValue<'v>, ValueDecodeError> {
        let stored = ExportedValue::decode(&self.column, bytes)?;
        if let Some(named) = self.names.as_ref().and_then(|names| names.lookup(&stored)) {
            return Ok(named);
        }
        match self.format.meaning {
            ColumnMeaning::Stored => Ok(stored),
            meaning => Ok(meaning.value(bytes, &stored).unwrap_or(stored)),
        }
    }

    /// Returns true if values are replaced by names that were read from the database's rows.
    pub fn has_names(&self) -> bool {
        self.names.is_some()
    }

    /// Returns true if a cell is written as a list. In a multi-valued column, every non-null cell is a list, unless
    /// the application allows only one value.
    pub fn is_list(&self, cell: &ExportedCell<'_>) -> bool {
        match cell {
            ExportedCell::Null => false,
            ExportedCell::Multi(items) => !(self.format.application_single_valued && items.len() == 1),
            ExportedCell::One(_) => self.column.flags.contains(ColumnFlags::MULTI_VALUED),
        }
    }

    /// Leaves the stored values unchanged, for output formats in which a column has a single type.
    pub(crate) fn use_stored_values(&mut self) {
        if self.format.meaning != ColumnMeaning::DirectorySid {
            self.format.meaning = ColumnMeaning::Stored;
        }
        self.names = None;
    }

    /// If part of a readable value is lost in the output, returns a description of what is lost.
    pub(crate) fn describe_loss(&self, bytes: &[u8]) -> Option<String> {
        let text = matches!(self.column.kind, ColumnType::Text | ColumnType::LongText);
        let utf16 = text && self.column.code_page == CodePage::UNICODE;
        // Values in other columns are checked only if decoding can fail, because every value is decoded again when it
        // is written.
        let checked = match self.column.kind {
            ColumnType::Binary | ColumnType::LongBinary => false,
            _ => !utf16,
        };
        if checked && let Err(error) = ExportedValue::decode(&self.column, bytes) {
            return Some(error.to_string());
        }
        if utf16 && !trim_odd_byte(&self.column, bytes).len().is_multiple_of(2) {
            return Some(ValueDecodeError::OddLength.to_string());
        }
        let replaced = if utf16 { unpaired_surrogates(bytes) } else { 0 };
        (replaced > 0).then(|| format!("unpaired UTF-16 surrogates that were replaced: {replaced}"))
    }
}

impl SourceTable {
    pub(crate) fn new(schema: &TableSchema, size: PageSize) -> SourceTable {
        let mut names = HashSet::new();
        let take = |column: &Column| {
            let mut column = column.clone();
            column.name = unique_name(&column.name, &mut names);
            TableColumn { column, format: ColumnFormat::default(), names: None }
        };
        let primary_key = schema.primary_index().into_iter().flat_map(|index| &index.segments);
        SourceTable {
            name: schema.name.clone(),
            columns: schema.columns.iter().map(take).collect(),
            deleted_columns: schema.deleted_columns.clone(),
            tree: schema.tree,
            root: schema.root,
            long_values: schema.long_values,
            chunk_size: schema.chunk_size(size),
            primary_key: primary_key.map(|segment| segment.column).collect(),
        }
    }

    /// Returns the position in [`SourceTable::columns`] of a tagged column that a record stores under this id.
    pub(crate) fn tagged_position(&self, stored: ColumnId) -> Option<usize> {
        let position = |id| self.columns.binary_search_by_key(&id, |column| column.column.id).ok();
        // In the oldest format, records do not mark inherited columns.
        position(stored).or_else(|| position(stored.inherited()))
    }
}

/// Makes column names unique by appending a number to any name that occurs earlier in the table.
pub(crate) fn make_column_names_unique(table: &mut SourceTable) {
    let mut taken = HashSet::new();
    for column in &mut table.columns {
        column.column.name = unique_name(&column.column.name, &mut taken);
    }
}

/// Returns `name`, or `name` with a number appended if it is already in `taken`. Case is ignored.
pub(crate) fn unique_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut candidate = if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() };
    let mut number = 1u64;
    while !taken.insert(candidate.to_lowercase()) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}
