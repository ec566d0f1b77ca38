//! A table to export: its columns, inherited ones first, with unique names.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ese_format::catalog::TableSchema;
use ese_format::record::{CodePage, Column, ColumnType};
use ese_format::{PageNumber, PageSize, TreeId};

use crate::value::{Time, Value, ValueError, sid_or_text, unpaired_surrogates, whole_units};

/// One column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableColumn {
    /// Definition of the column, with a name that is unique in the table.
    pub column: Column,
    /// Whether it is inherited from the table's template.
    pub inherited: bool,
    /// How its values are written.
    pub form: Form,
    /// Texts for the integers that are stored.
    pub(crate) ids: Option<Ids>,
}

/// How the values of a column are written, beyond the type that the catalog gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Form {
    /// Binary values are security identifiers of Active Directory, whose last part is big-endian.
    pub directory_sid: bool,
    /// The catalog allows several values, but the schema of the application only one, which is written without a list.
    pub single_of_list: bool,
    /// Binary values are security identifiers or UTF-16 text.
    pub names: bool,
    /// Integers are times in 100-nanosecond steps since 1601.
    pub filetime: bool,
    /// Integers are times in seconds since 1601.
    pub seconds_since_1601: bool,
    /// JSON writes integers beyond 2^53 as strings, because most programs read numbers as doubles.
    pub wide_integers_as_text: bool,
}

/// Texts for integers.
pub(crate) type Ids = Arc<BTreeMap<i64, String>>;

/// One table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Name, unique in the database.
    pub name: String,
    /// Columns in order of their numbers, those of the template first.
    pub columns: Vec<TableColumn>,
    pub(crate) tree: TreeId,
    pub(crate) root: PageNumber,
    pub(crate) long_values: Option<(TreeId, PageNumber)>,
    pub(crate) chunk_size: usize,
}

impl TableColumn {
    /// Decodes the stored bytes of a value.
    pub(crate) fn value<'v>(&self, bytes: &'v [u8]) -> Result<Value<'v>, ValueError> {
        Ok(match Value::decode(&self.column, bytes)? {
            Value::Binary(bytes) if self.form.directory_sid => Value::DirectorySid(bytes),
            Value::Int(value) | Value::Currency(value) if self.form.filetime => {
                Time::of_filetime(value).map_or(Value::Int(value), Value::Time)
            }
            Value::Int(value) | Value::Currency(value) if self.form.seconds_since_1601 => {
                Time::of_seconds(value).map_or(Value::Int(value), Value::Time)
            }
            Value::Int(id) if let Some(name) = self.ids.as_ref().and_then(|ids| ids.get(&id)) => {
                Value::Text(name.clone().into())
            }
            Value::Binary(bytes) if self.form.names => {
                sid_or_text(bytes).map_or(Value::Binary(bytes), |name| Value::Text(name.into()))
            }
            value => value,
        })
    }

    /// Leaves what is stored as it is, for formats in which a column has one type.
    pub(crate) fn keep_types(&mut self) {
        (self.form.filetime, self.form.seconds_since_1601, self.form.names) = (false, false, false);
        self.ids = None;
    }

    /// What is lost of a value whose bytes could be read.
    pub(crate) fn loss(&self, bytes: &[u8]) -> Option<String> {
        let text = matches!(self.column.kind, ColumnType::Text | ColumnType::LongText);
        let utf16 = text && self.column.code_page == CodePage::UNICODE;
        // Values of other columns are decoded only if that can fail, because each is decoded again when it is written.
        let checked = match self.column.kind {
            ColumnType::Binary | ColumnType::LongBinary => false,
            _ => !utf16,
        };
        if checked && let Err(error) = Value::decode(&self.column, bytes) {
            return Some(error.to_string());
        }
        if utf16 && !whole_units(&self.column, bytes).len().is_multiple_of(2) {
            return Some(ValueError::OddLength.to_string());
        }
        let replaced = if utf16 { unpaired_surrogates(bytes) } else { 0 };
        (replaced > 0).then(|| format!("unpaired surrogates of UTF-16 that were replaced: {replaced}"))
    }
}

impl Table {
    pub(crate) fn new(schema: &TableSchema, template: Option<&TableSchema>, size: PageSize) -> Table {
        let inherited = template.map_or(&[][..], |template| &template.columns);
        let mut names = HashSet::new();
        let mut take = |column: &Column, inherited| {
            let mut column = column.clone();
            column.name = unique(&column.name, &mut names);
            TableColumn { column, inherited, form: Form::default(), ids: None }
        };
        let mut columns: Vec<TableColumn> = inherited.iter().map(|column| take(column, true)).collect();
        columns.extend(schema.columns.iter().map(|column| take(column, false)));
        Table {
            name: schema.name.clone(),
            columns,
            tree: schema.tree,
            root: schema.root,
            long_values: schema.long_values,
            chunk_size: schema.chunk_size(size),
        }
    }

    /// The position of a tagged column in [`Table::columns`], which are sorted by origin and number.
    pub(crate) fn position(&self, inherited: bool, id: ese_format::record::ColumnId) -> Option<usize> {
        let key = (!inherited, id);
        self.columns.binary_search_by_key(&key, |column| (!column.inherited, column.column.id)).ok()
    }
}

/// Returns `name`, or `name` with a number if it is already in `taken`. Case is ignored.
pub(crate) fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let mut candidate = if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() };
    let mut number = 1u64;
    while !taken.insert(candidate.to_lowercase()) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}
