//! Rows of `MSysLocales`, a table of named numbers.
//!
//! Each name is stored in a binary column as UTF-16 with a terminator, and the row's key is derived from that column.

use super::row::CatalogError;
use super::system::locales_columns;
use crate::PageSize;
use crate::key::{self, IndexFlags, KeyLimits, KeyPart};
use crate::record::{CodePage, ColumnId, ColumnValue, Record, RecordBuilder, RecordError};

/// A row of the system table `MSysLocales`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocaleRow {
    /// Name of the stored number.
    pub name: String,
    /// 1 if the number is the version of this table, 2 otherwise.
    pub kind: u8,
    /// The stored number.
    pub value: i32,
}

impl LocaleRow {
    /// Creates the rows for a new database that has no localized indexes, sorted by key.
    pub fn for_new_database() -> Vec<LocaleRow> {
        let row = |name: &str, kind, value| LocaleRow { name: name.to_owned(), kind, value };
        let mut rows = vec![
            row(".Schema\\External\\Major", 1, 1),
            row(".Schema\\External\\Minor", 1, 0),
            row(".Schema\\External\\Update", 1, 0),
            row(".Schema\\Internal\\Major", 1, 1),
            row(".Schema\\Internal\\Minor", 1, 0),
            row(".Schema\\Internal\\Update", 1, 0),
            row("MSysLocalesConsistent", 2, 1),
        ];
        rows.sort_by_key(LocaleRow::key);
        rows
    }

    /// Returns the key of the row.
    pub fn key(&self) -> Vec<u8> {
        let name = self.name_bytes();
        let column = locales_columns().iter().find(|column| column.id == ColumnId::FIRST_VARIABLE);
        let part = column.map(|column| KeyPart { column, value: Some(&name), descending: false });
        let key = part.map(|part| key::normalise(&[part], KeyLimits::default(), IndexFlags::empty()));
        key.and_then(Result::ok).unwrap_or_default().bytes
    }

    /// Encodes the row as a record.
    pub fn encode(&self, size: PageSize) -> Result<Vec<u8>, RecordError> {
        let mut record = RecordBuilder::new(locales_columns(), size);
        record.set(ColumnId(1), Some(&[self.kind]))?;
        record.set(ColumnId(2), Some(&self.value.to_le_bytes()))?;
        record.set(ColumnId::FIRST_VARIABLE, Some(&self.name_bytes()))?;
        record.build()
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8], size: PageSize) -> Result<LocaleRow, CatalogError> {
        let record = Record::new(bytes, size);
        let [kind, value, name] = locales_columns() else { return Err(CatalogError::Missing(ColumnId(1))) };
        let get = |column| match record.get_or_default(column)? {
            ColumnValue::Bytes(bytes) => Ok(bytes),
            _ => Err(CatalogError::Missing(column.id)),
        };
        let missing = |id| CatalogError::Missing(ColumnId(id));
        let name = CodePage::UNICODE.decode(get(name)?).unwrap_or_default();
        Ok(LocaleRow {
            name: name.trim_end_matches('\0').to_owned(),
            kind: get(kind)?.first().copied().ok_or(missing(1))?,
            value: get(value)?.try_into().map(i32::from_le_bytes).map_err(|_| missing(2))?,
        })
    }

    fn name_bytes(&self) -> Vec<u8> {
        self.name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }
}
