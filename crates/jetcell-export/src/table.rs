//! A table to export: its columns, inherited ones first, with unique names.

use std::collections::HashSet;

use ese_format::catalog::TableSchema;
use ese_format::record::Column;
use ese_format::{PageNumber, PageSize, TreeId};

/// One column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableColumn {
    /// Definition of the column, with a name that is unique in the table.
    pub column: Column,
    /// Whether it is inherited from the table's template.
    pub inherited: bool,
}

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

impl Table {
    pub(crate) fn new(schema: &TableSchema, template: Option<&TableSchema>, size: PageSize) -> Table {
        let inherited = template.map_or(&[][..], |template| &template.columns);
        let mut names = HashSet::new();
        let mut take = |column: &Column, inherited| {
            let mut column = column.clone();
            column.name = unique(&column.name, &mut names);
            TableColumn { column, inherited }
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
