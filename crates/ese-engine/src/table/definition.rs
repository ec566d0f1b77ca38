//! A new table's definition as specified by the program, and the schema derived from it.

use ese_format::catalog::{Index, IndexFlags, KeySegment, TableSchema};
use ese_format::key::{DEFAULT_MAX_KEY_LEN, KeyError, exact_key_limit, max_key_limit};
use ese_format::record::{CodePage, Column, ColumnFlags, ColumnId, ColumnType, layout_fixed_columns};
use ese_format::{PageNumber, PageSize, TreeId};

use crate::btree::DENSITIES;
use crate::{Result, UsageError};

/// Definition of a table to create.
#[derive(Clone, Debug, Default)]
pub struct TableDefinition {
    /// Name: up to 64 ASCII characters, unique without regard to case.
    pub name: String,
    /// Columns of the table.
    pub columns: Vec<ColumnDefinition>,
    /// Indexes of the table. At most one of them is primary. Without a primary index, records are in insertion order.
    pub indexes: Vec<IndexDefinition>,
    /// Number of pages to reserve; at least 3.
    pub pages: u32,
    /// Values in long columns stay in the record up to this length in bytes, if the record has space. The default is
    /// 1023. ESE: `cbSeparateLV`.
    #[doc(alias = "cbSeparateLV")]
    pub separate_from: Option<u32>,
    /// Percentage to which inserts in key order fill a page, from 20 to 100. The rest of the page leaves room for
    /// later records without a split. The default is 80. ESE: `ulDensity`.
    #[doc(alias = "ulDensity")]
    pub density: Option<u32>,
}

/// Definition of a column to create.
#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    /// Name: up to 64 ASCII characters, unique in the table without regard to case.
    pub name: String,
    /// Type of the values.
    pub kind: ColumnType,
    /// Maximum length of binary and text values in bytes; 0 means the type's maximum.
    pub size: u32,
    /// Flags of the column.
    pub flags: ColumnFlags,
    /// Code page of text values.
    pub code_page: CodePage,
    /// Default value, in raw form, for records that do not set the column.
    pub default: Option<Vec<u8>>,
}

/// Definition of an index to create.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// Name: up to 64 ASCII characters, unique in the table without regard to case.
    pub name: String,
    /// Whether the index is primary, which means that it determines the order of the table's records.
    pub primary: bool,
    /// Whether records with a duplicate key are rejected. Primary indexes always reject them.
    pub unique: bool,
    /// Key columns, each with a flag for descending order.
    pub columns: Vec<(String, bool)>,
}

impl ColumnDefinition {
    /// Creates a nullable column. Text is stored in Windows-1252.
    pub fn new(name: &str, kind: ColumnType) -> ColumnDefinition {
        let code_page = if kind.is_text() { CodePage::WESTERN } else { CodePage::NONE };
        let flags = ColumnFlags::empty();
        ColumnDefinition { name: name.to_string(), kind, size: 0, flags, code_page, default: None }
    }

    /// Adds these flags to the column.
    #[must_use]
    pub fn with_flags(mut self, flags: ColumnFlags) -> ColumnDefinition {
        self.flags |= flags;
        self
    }
}

impl IndexDefinition {
    /// Creates an index on ascending columns.
    pub fn new(name: &str, columns: &[&str]) -> IndexDefinition {
        let columns = columns.iter().map(|column| (column.to_string(), false)).collect();
        IndexDefinition { name: name.to_string(), primary: false, unique: false, columns }
    }

    /// Makes the index primary.
    #[must_use]
    pub fn primary(mut self) -> IndexDefinition {
        (self.primary, self.unique) = (true, true);
        self
    }

    /// Makes the index reject duplicate keys.
    #[must_use]
    pub fn unique(mut self) -> IndexDefinition {
        self.unique = true;
        self
    }
}

/// Maximum length in bytes of a binary or text column that is not a long-value column.
const MAX_SHORT_VALUE: u32 = 255;
/// Maximum number of columns in an index.
const MAX_SEGMENTS: usize = 16;
/// Maximum length of a name in bytes.
const MAX_NAME: usize = 64;

impl TableDefinition {
    /// Returns the schema of the table. Its trees are not assigned yet.
    pub(crate) fn schema(&self, size: PageSize) -> Result<TableSchema> {
        check_name(&self.name, std::iter::empty())?;
        let mut schema = TableSchema::new(&self.name, TreeId(0), PageNumber::fixed(1));
        schema.initial_pages = self.pages.max(3);
        schema.separate_from = self.separate_from;
        if let Some(density) = self.density {
            if !DENSITIES.contains(&density) {
                return Err(UsageError::Density(density).into());
            }
            schema.density = density;
        }
        let mut next = [1, ColumnId::FIRST_VARIABLE.number(), ColumnId::FIRST_TAGGED.number()];
        for column in &self.columns {
            check_name(&column.name, schema.columns.iter().map(|other| &*other.name))?;
            let column = column.column(&mut next)?;
            schema.columns.push(column);
        }
        layout_fixed_columns(&mut schema.columns);
        if self.columns.iter().filter(|one| one.flags.contains(ColumnFlags::AUTO_INCREMENT)).count() > 1 {
            return Err(UsageError::SeveralAutoIncrements.into());
        }
        for index in &self.indexes {
            let index = index.index(&schema, size)?;
            if index.is_primary() && schema.primary_index().is_some() {
                return Err(UsageError::SeveralPrimaryIndexes(self.name.clone()).into());
            }
            schema.indexes.push(index);
        }
        Ok(schema)
    }
}

impl ColumnDefinition {
    /// Returns the column, assigning it the next free number in the most suitable storage class. If that class is
    /// full, the column becomes a tagged column.
    fn column(&self, next: &mut [u16; 3]) -> Result<Column> {
        let [fixed, variable, tagged] = next;
        let sparse = self.kind.is_long() || self.flags.contains(ColumnFlags::MULTI_VALUED);
        let place = match self.kind.fixed_size() {
            _ if sparse => tagged,
            Some(_) if *fixed <= ColumnId::LAST_FIXED.number() => fixed,
            None if *variable <= ColumnId::LAST_VARIABLE.number() => variable,
            _ => tagged,
        };
        let size = match self.kind {
            ColumnType::Binary | ColumnType::Text if self.size == 0 => MAX_SHORT_VALUE,
            _ => self.size,
        };
        if self.kind.fixed_size().is_none() && !self.kind.is_long() && size > MAX_SHORT_VALUE {
            return Err(UsageError::ShortType(self.name.clone()).into());
        }
        let counts = matches!(self.kind, ColumnType::Long | ColumnType::LongLong | ColumnType::UnsignedLong);
        if self.flags.contains(ColumnFlags::AUTO_INCREMENT) && (!counts || sparse) {
            return Err(UsageError::AutoIncrementType(self.name.clone()).into());
        }
        if self.kind.is_text()
            && ![CodePage::UNICODE, CodePage::WESTERN, CodePage::ASCII].contains(&self.code_page)
        {
            return Err(UsageError::TextCodePage(self.name.clone()).into());
        }
        let mut column = Column::new(*place, &self.name, self.kind, size);
        *place = place.checked_add(1).ok_or_else(|| UsageError::TooManyColumns(self.name.clone()))?;
        column.flags = self.flags;
        column.flags.set(ColumnFlags::HAS_DEFAULT, self.default.is_some());
        column.code_page = self.code_page;
        column.default = self.default.clone();
        if column.default.as_ref().is_some_and(|value| {
            value.len() > MAX_SHORT_VALUE as usize
                || self.kind.fixed_size().is_some_and(|size| size != value.len())
        }) {
            return Err(UsageError::DefaultLength(self.name.clone()).into());
        }
        Ok(column)
    }
}

impl IndexDefinition {
    /// Returns the index. Its tree is not assigned yet.
    pub(crate) fn index(&self, table: &TableSchema, size: PageSize) -> Result<Index> {
        check_name(&self.name, table.indexes.iter().map(|other| &*other.name))?;
        if self.columns.is_empty() || self.columns.len() > MAX_SEGMENTS {
            return Err(UsageError::IndexColumns(self.name.clone()).into());
        }
        let mut flags =
            if self.primary { IndexFlags::DEFAULT_PRIMARY } else { IndexFlags::DEFAULT_SECONDARY };
        flags.set(IndexFlags::UNIQUE, self.unique || self.primary);
        let mut columns = Vec::new();
        for (name, descending) in &self.columns {
            let column = table.column_named(name).ok_or_else(|| UsageError::NoColumn(name.clone()))?;
            if column.kind.is_text() && column.code_page == CodePage::UNICODE {
                return Err(UsageError::Key(KeyError::UnicodeText(column.id)).into());
            }
            if column.flags.contains(ColumnFlags::MULTI_VALUED) {
                flags |= IndexFlags::MULTI_VALUED;
            }
            columns.push((column, *descending));
        }
        let mut index = Index::new(&self.name, TreeId(0), PageNumber::fixed(1), flags, &[]);
        index.segments = columns
            .iter()
            .map(|(column, descending)| KeySegment { column: column.id, descending: *descending })
            .collect();
        let exact = exact_key_limit(columns.iter().map(|(column, _)| *column));
        index.key_most = exact
            .filter(|exact| (self.primary || *exact > DEFAULT_MAX_KEY_LEN) && *exact != DEFAULT_MAX_KEY_LEN)
            .map(|exact| exact.min(max_key_limit(size)) as u16);
        Ok(index)
    }
}

fn check_name<'a>(name: &str, mut others: impl Iterator<Item = &'a str>) -> Result<()> {
    let bad = |c: char| !c.is_ascii() || c.is_ascii_control() || "!.[]`".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || name.contains(bad) || name.starts_with(' ') {
        return Err(UsageError::Name(name.to_string()).into());
    }
    if others.any(|other| other.eq_ignore_ascii_case(name)) {
        return Err(UsageError::DuplicateName(name.to_string()).into());
    }
    Ok(())
}
