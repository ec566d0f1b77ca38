//! What a database is expected to hold, in terms every reader shares: names, type numbers, raw bytes.

/// A database without its system tables (names starting with `MSys`), which readers are not asked about.
#[derive(Clone, Debug, Default)]
pub struct ExpectedDatabase {
    /// Every user table.
    pub tables: Vec<ExpectedTable>,
}

/// One user table.
#[derive(Clone, Debug)]
pub struct ExpectedTable {
    /// Its name.
    pub name: String,
    /// All its columns, in any order; rows give cells in this order.
    pub columns: Vec<ExpectedColumn>,
    /// Its rows.
    pub rows: ExpectedRows,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedColumn {
    /// Column id: 1.. fixed, 128.. variable, 256.. tagged.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// ESE column type number (`JET_coltyp`), such as 4 for Long.
    pub kind: u32,
}

/// The rows of a table.
#[derive(Clone, Debug)]
pub enum ExpectedRows {
    /// Only the number of rows.
    Count(u64),
    /// All of them, in key order, each with one cell per column.
    Exact(Vec<Vec<ExpectedCell>>),
}

/// One cell, as little-endian bytes the way the column stores them, uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedCell {
    /// NULL.
    Null,
    /// One value.
    Value(Vec<u8>),
    /// Several values of a multi-valued column.
    Multi(Vec<Vec<u8>>),
}
