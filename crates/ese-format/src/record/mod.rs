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
//! "Last" is the highest column number that the record stores (0 and 127 mean none). The record also stores all lower
//! columns of the class. A column with a higher number is absent and has its default value. Fixed columns occupy
//! their bytes even if they are null.
//!
//! The layout was verified on all records of the test corpus. Not supported: decryption of values.

mod build;
mod column;
mod column_value;
mod read;
mod shape;
mod tagged;
mod value;

#[cfg(test)]
mod shape_tests;
#[cfg(test)]
mod tests;

pub use build::{RecordBuilder, record_limit};
pub use column::{CodePage, Column, ColumnClass, ColumnFlags, ColumnId, ColumnType, layout_fixed_columns};
pub use column_value::{ColumnValue, MultiValue};
pub use read::Record;
pub use shape::{RecordExtent, RecordShape};
pub use value::{Value, ValueError};

use thiserror::Error;

/// Number of bytes before the first fixed value.
const SKELETON_LEN: usize = 4;

/// Value of "last variable" in a record without variable columns.
const NO_VARIABLE: u8 = 127;

/// Error returned when bytes cannot be decoded as a table record, or when values cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The record is shorter than its offsets require.
    #[error("the record ends inside its {0}")]
    Truncated(&'static str),
    /// Offsets are out of order or out of range.
    #[error("the record has invalid offsets in its {0}")]
    BadOffsets(&'static str),
    /// The length of a value does not match its type.
    #[error("the value of column {column} is {len} bytes long")]
    WrongLength {
        /// Column that holds the value.
        column: ColumnId,
        /// Actual length in bytes.
        len: usize,
    },
    /// The value is null, but the column does not allow null.
    #[error("column {0} must not be null")]
    NullNotAllowed(ColumnId),
    /// The table has no column with this number.
    #[error("column {0} does not exist")]
    UnknownColumn(ColumnId),
    /// The value is separated or consists of several values, but the column does not allow this.
    #[error("column {0} cannot contain values of this form")]
    WrongForm(ColumnId),
    /// The record is too long for a node on pages of this size.
    #[error("the record is {len} bytes long; the maximum is {limit}")]
    TooBig {
        /// Length of the record in bytes.
        len: usize,
        /// Maximum length of a record in bytes.
        limit: usize,
    },
}
