//! The value of a column, in the form in which a record stores it.

use crate::long_value::LongValueId;

/// The contents of a record for one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnValue<'a> {
    /// Not stored: the column's default applies, or null if there is none.
    Absent,
    /// Null.
    Null,
    /// The value.
    Bytes(&'a [u8]),
    /// A compressed long value; see [`crate::compression`].
    Compressed(&'a [u8]),
    /// A long value that is stored in the table's long-value tree.
    Separated(LongValueId),
    /// An encrypted long value, as stored.
    Encrypted(&'a [u8]),
    /// Several values.
    Multi(Vec<MultiValue<'a>>),
}

/// One of several values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultiValue<'a> {
    /// The value.
    Bytes(&'a [u8]),
    /// The value, compressed.
    Compressed(&'a [u8]),
    /// A long value that is stored in the long-value tree.
    Separated(LongValueId),
}
