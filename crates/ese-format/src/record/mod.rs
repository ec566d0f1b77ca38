//! Table records: fixed, variable and tagged columns.
//!
//! ```text
//!  0            1               2               4
//!  | last fixed | last variable | end of fixed  | fixed values, packed | null bits |
//!  end of fixed                        variable data
//!  | u16 end of each variable column   | values | tagged area ... end of record
//!
//!  null bits:      one per fixed column from 1, set = null; unused bits set
//!  variable ends:  relative to the variable data; 0x8000 = null
//!  tagged area:    {u16 column, u16 offset in area} sorted by column | values      (see `tagged`)
//! ```
//!
//! "Last" is the highest column number that the record stores (0 and 127 mean none). The record stores all lower
//! columns of the class too. A column above it is absent and has its default. Null fixed columns occupy their bytes.
//!
//! The layout was verified on all records of the test corpus. Not supported: decryption of values, and the schema of
//! columns that a table inherits from a template.

mod build;
mod column;
mod column_value;
mod read;
mod tagged;
mod value;

#[cfg(test)]
mod tests;

pub use build::{RecordBuilder, record_limit};
pub use column::{CodePage, Column, ColumnClass, ColumnFlags, ColumnId, ColumnType, layout_fixed_columns};
pub use column_value::{ColumnValue, MultiValue};
pub use read::Record;
pub use value::{Value, ValueError};

use thiserror::Error;

/// Bytes before the first fixed value.
const SKELETON_LEN: usize = 4;

/// "Last variable" of a record without variable columns.
const NO_VARIABLE: u8 = 127;

/// Reason for which bytes cannot be decoded as a record, or values cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Shorter than its offsets require.
    #[error("record ends inside its {0}")]
    Truncated(&'static str),
    /// Offsets out of order or out of range.
    #[error("record has invalid offsets in its {0}")]
    BadOffsets(&'static str),
    /// A value whose length does not fit its type.
    #[error("column {column} has a value of {len} bytes")]
    WrongLength {
        /// The column.
        column: ColumnId,
        /// Length found or given.
        len: usize,
    },
    /// Null for a column that does not allow it.
    #[error("column {0} must not be null")]
    NullNotAllowed(ColumnId),
    /// The table has no such column.
    #[error("no column {0}")]
    UnknownColumn(ColumnId),
    /// Separated or multiple values for a column that cannot have them.
    #[error("column {0} cannot hold values of this form")]
    WrongForm(ColumnId),
    /// Longer than a node may be on pages of this size.
    #[error("record of {len} bytes exceeds the limit of {limit}")]
    TooBig {
        /// Length of the record.
        len: usize,
        /// Longest record allowed.
        limit: usize,
    },
}
