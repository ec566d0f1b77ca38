//! Differences between the rows of two databases.

use ese_format::PageNumber;

/// A difference between the rows of two databases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowDifference<'t> {
    /// Name of the table.
    pub table: &'t str,
    /// Kind of the difference.
    pub kind: RowDifferenceKind<'t>,
}

/// Kind of a difference in a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowDifferenceKind<'t> {
    /// Only one of the databases has the table. The value is the position of that database, 0 or 1.
    TableOnly(usize),
    /// Only one of the databases has the column. The value is the position of that database, 0 or 1.
    ColumnOnly(&'t str, usize),
    /// The column has a different type, code page or default value in each database.
    ColumnDefinition(&'t str),
    /// Only one of the databases has a row with this key.
    RowOnly {
        /// Key of the row.
        key: &'t [u8],
        /// Position of the database, 0 or 1.
        database: usize,
        /// Page that contains the row.
        page: PageNumber,
    },
    /// The two databases have different values in some columns of the row.
    Row {
        /// Key of the row.
        key: &'t [u8],
        /// Page that contains the row in each database.
        pages: [PageNumber; 2],
        /// Names of the columns that differ.
        columns: Vec<&'t str>,
    },
}
