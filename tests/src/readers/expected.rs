//! Expected content of a database, in terms that all readers share: names, type numbers, raw bytes.

/// A database without its system tables, whose names start with `MSys`. The readers do not compare these tables.
#[derive(Clone, Debug, Default)]
pub struct ExpectedDatabase {
    /// All user tables.
    pub tables: Vec<ExpectedTable>,
}

/// A user table.
#[derive(Clone, Debug)]
pub struct ExpectedTable {
    /// Name of the table.
    pub name: String,
    /// All columns, in any order. The cells of a row have the same order.
    pub columns: Vec<ExpectedColumn>,
    /// Rows of the table.
    pub rows: ExpectedRows,
}

/// A column of a user table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedColumn {
    /// Column id: 1.. fixed, 128.. variable, 256.. tagged.
    pub id: u32,
    /// Name of the column.
    pub name: String,
    /// ESE column type number (`JET_coltyp`), such as 4 for Long.
    pub kind: u32,
}

/// The rows of a table.
#[derive(Clone, Debug)]
pub enum ExpectedRows {
    /// Only the number of rows is known.
    Count(u64),
    /// All rows in key order, each with one cell per column.
    Exact(Vec<Vec<ExpectedCell>>),
}

/// A cell, as uncompressed little-endian bytes in the column's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedCell {
    /// NULL.
    Null,
    /// A single value.
    Value(Vec<u8>),
    /// Values of a multi-valued column.
    Multi(Vec<Vec<u8>>),
}
