//! Column values in the form stored in records.

use crate::long_value::LongValueId;

/// The stored value of one column in a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnValue<'a> {
    /// The column is not stored, so its default applies. If there is no default, the column is null.
    Absent,
    /// The column is null.
    Null,
    /// Bytes of the value.
    Bytes(&'a [u8]),
    /// A compressed long value; see [`crate::compression`].
    Compressed(&'a [u8]),
    /// Id of a long value that is stored in the table's long-value tree.
    Separated(LongValueId),
    /// An encrypted long value, in its stored form.
    Encrypted(&'a [u8]),
    /// More than one value.
    Multi(Vec<MultiValue<'a>>),
}

/// One value in a multi-valued column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultiValue<'a> {
    /// Bytes of the value.
    Bytes(&'a [u8]),
    /// A compressed value.
    Compressed(&'a [u8]),
    /// Id of a long value that is stored in the long-value tree.
    Separated(LongValueId),
}
