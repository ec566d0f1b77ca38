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
//! "Last" is the highest column number stored (0 / 127 = none): every lower slot of the class exists too. A column
//! above it is absent, which means its default. Null fixed columns occupy their bytes.
//!
//! Layout verified on every record of the corpus. Left out: interpretation of encrypted values and of columns that
//! a table inherits from a template.

mod build;
mod column;
mod read;
mod tagged;
mod value;

#[cfg(test)]
mod tests;

pub use build::{RecordBuilder, record_limit};
pub use column::{CodePage, Column, ColumnClass, ColumnFlags, ColumnId, ColumnType, layout_fixed_columns};
pub use read::{ColumnValue, Record};
pub use tagged::MultiValue;
pub use value::{Value, ValueError};

use thiserror::Error;

/// Bytes before the first fixed value.
const SKELETON_LEN: usize = 4;

/// "Last variable" of a record without variable columns.
const NO_VARIABLE: u8 = 127;

/// Why bytes are no record, or values do not make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Shorter than its own offsets say.
    #[error("record ends inside its {0}")]
    Truncated(&'static str),
    /// Offsets out of order or out of range.
    #[error("record has impossible offsets in its {0}")]
    BadOffsets(&'static str),
    /// A value whose length does not fit its type.
    #[error("column {column} has a value of {len} bytes")]
    WrongLength {
        /// The column.
        column: ColumnId,
        /// Length found or given.
        len: usize,
    },
    /// Null for a column that refuses it.
    #[error("column {0} must not be null")]
    NullNotAllowed(ColumnId),
    /// The table has no such column.
    #[error("no column {0}")]
    UnknownColumn(ColumnId),
    /// Separated or multiple values for a column that cannot have them.
    #[error("column {0} cannot hold values of this form")]
    WrongForm(ColumnId),
    /// Longer than a node of this page size may be.
    #[error("record of {len} bytes exceeds the limit of {limit}")]
    TooBig {
        /// Length it would have.
        len: usize,
        /// Longest record allowed.
        limit: usize,
    },
}
